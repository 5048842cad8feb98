// A headless Chromium, driven over a pipe: no packages are needed.

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

/** Only against hanging. */
const APT_PATIENCE_MS = 300_000;
const REMOVALS_MAX = 100;
const REMOVAL_PAUSE_MS = 50;
const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/** The path of one that is there, or installed for it; or why there is none. */
export function find() {
  const given = process.env.CHROMIUM;
  if (given) return { path: given };
  const there = () => NAMES.find((name) => spawnSync(name, ["--version"]).status === 0);
  const path = there();
  if (path) return { path };
  if (process.getuid?.() !== 0) return { why: "there is no Chromium, and only root can install it" };
  console.log("installing chromium with apt-get");
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  for (const args of [["update"], ["install", "-y", "--no-install-recommends", "chromium"]]) {
    const { status, stderr, error } = spawnSync("apt-get", args, { env, timeout: APT_PATIENCE_MS });
    if (status !== 0) return { why: `apt-get ${args[0]} failed: ${error ?? stderr}` };
  }
  const installed = there();
  return installed ? { path: installed } : { why: "chromium was installed and does not start" };
}

export class Chromium {
  #child;
  #profile = mkdtempSync(join(tmpdir(), "windlass-browser-"));
  #calls = new Map();
  #events = new Map();
  #text = "";
  #last = 0;

  /** `more`: flags of its command line. */
  constructor(path, more = []) {
    const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
    const all = [...flags, ...more, `--user-data-dir=${this.#profile}`, "--remote-debugging-pipe"];
    // It hears on descriptor 3 and speaks on 4, each message followed by a zero byte.
    // In a group of its own, which it dies with: its helpers write into the profile as well.
    this.#child = spawn(path, all, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"], detached: true });
    this.#child.stdio[4].setEncoding("utf8").on("data", (text) => this.#hear(text));
    this.#child.on("exit", () => this.#calls.forEach(({ reject }) => reject(new Error("chromium is gone"))));
  }

  /** A page at that address, once it is loaded. */
  async open(url) {
    const { targetId } = await this.#call("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.#call("Target.attachToTarget", { targetId, flatten: true });
    await this.#call("Page.enable", {}, sessionId);
    const loaded = new Promise((resolve) => this.#events.set("Page.loadEventFired", resolve));
    const { errorText } = await this.#call("Page.navigate", { url }, sessionId);
    if (errorText) throw new Error(`cannot open ${url}: ${errorText}`);
    await loaded;
    return (expression) => this.#evaluate(expression, sessionId);
  }

  async close() {
    const gone = new Promise((resolve) => this.#child.on("exit", resolve));
    process.kill(-this.#child.pid, "SIGKILL");
    await gone;
    await this.#removeProfile();
  }

  /** Helpers that were killed may take a moment to go, and leave a file behind what was just emptied. */
  async #removeProfile() {
    for (let left = REMOVALS_MAX; ; left--) {
      try {
        return rmSync(this.#profile, { recursive: true, force: true });
      } catch (error) {
        if (error.code !== "ENOTEMPTY" || left === 0) throw error;
        await setTimeout(REMOVAL_PAUSE_MS);
      }
    }
  }

  async #evaluate(expression, sessionId) {
    const params = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await this.#call("Runtime.evaluate", params, sessionId);
    if (exceptionDetails) throw new Error(`in the page: ${JSON.stringify(exceptionDetails)}`);
    return result.value;
  }

  #call(method, params, sessionId) {
    const id = ++this.#last;
    this.#child.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    return new Promise((resolve, reject) => this.#calls.set(id, { resolve, reject }));
  }

  #hear(text) {
    const messages = (this.#text + text).split("\0");
    this.#text = messages.pop();
    for (const { id, method, result, error } of messages.map((message) => JSON.parse(message))) {
      const call = this.#calls.get(id);
      this.#calls.delete(id);
      if (error) call?.reject(new Error(error.message));
      else if (call) call.resolve(result);
      else this.#events.get(method)?.();
    }
  }
}
