// Stands between the browser and the server, and answers for it when a test says so.

import { once } from "node:events";
import { createServer, request } from "node:http";

export class Proxy {
  /** How many requests for events are still answered with 503, and how many were. */
  refuse = 0;
  refused = 0;
  #to;
  #server = createServer((asked, answer) => this.#pass(asked, answer));

  /** Before the server at `to`, also when that is another one by now. */
  static async start(to) {
    const proxy = new Proxy();
    proxy.#to = to;
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    proxy.url = `http://127.0.0.1:${proxy.#server.address().port}`;
    return proxy;
  }

  close() {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #pass(asked, answer) {
    if (this.refuse > 0 && asked.url.startsWith("/v1/item.events")) {
      this.refuse--;
      this.refused++;
      answer.writeHead(503, { "retry-after": "1" }).end();
      return;
    }
    const { method, headers } = asked;
    const passed = request(this.#to + asked.url, { method, headers }, (reply) => {
      answer.writeHead(reply.statusCode, reply.headers);
      reply.on("error", () => answer.destroy());
      reply.pipe(answer);
    });
    passed.on("error", () => answer.destroy());
    answer.on("close", () => passed.destroy());
    asked.pipe(passed);
  }
}
