// A server of this build, and calls to it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export class Windlass {
  /** Ready when this returns. */
  static async start(program, data, listen, flags = []) {
    const args = ["--json", "serve", "--listen", listen, "--log-level", "warn", "--data", data, ...flags];
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
    const [line] = await Promise.race([
      once(createInterface({ input: child.stdout }), "line"),
      once(child, "exit").then(() => { throw new Error("the server ended before it was ready"); }),
    ]);
    const server = new Windlass();
    server.url = JSON.parse(line).url;
    server.child = child;
    return server;
  }

  async call(name, body) {
    const headers = { "content-type": "application/json" };
    const reply = await fetch(`${this.url}/v1/${name}`, { method: "POST", headers, body: JSON.stringify(body) });
    const document = await reply.json();
    if (!reply.ok) throw new Error(`${name}: ${JSON.stringify(document)}`);
    return document;
  }

  /** Without a warning. */
  async kill() {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const gone = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await gone;
  }
}
