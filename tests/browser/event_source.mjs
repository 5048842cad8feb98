// A real browser's EventSource follows a stream over a close and a killed server, and sees every event once.
//
//   node tests/browser/event_source.mjs
//
// It installs Chromium with apt-get if there is none, or says that it was skipped and why.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { Chromium, find } from "./chromium.mjs";
import { Windlass } from "./windlass.mjs";

/** Only against hanging: a browser comes back after about 3 s. */
const PATIENCE_MS = 120_000;
const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** In the page. The address begins at 0 each time: that nothing comes twice is the work of `Last-Event-ID`. */
function follow(id) {
  const page = { seen: [], ids: [], states: [], ends: [], opened: 0, told: () => {} };
  window.page = page;
  const source = new EventSource(`/v1/item.events?id=${id}&after=0`);
  const on = (type, hear) =>
    source.addEventListener(type, (event) => {
      hear(event);
      page.told();
    });
  on("open", () => page.opened++);
  on("count", (event) => {
    page.seen.push(JSON.parse(event.data).json);
    page.ids.push(event.lastEventId);
  });
  on("state", (event) => page.states.push(JSON.parse(event.data).state));
  on("end", (event) => {
    const { reason } = JSON.parse(event.data);
    page.ends.push(reason);
    if (reason === "final") source.close();
  });
  page.until = (reached) =>
    new Promise((resolve) => {
      page.told = () => reached(page) && resolve(true);
      page.told();
    });
}

/** `stage.server` is the one that runs. */
async function test(program, browser, data, stage) {
  const call = (name, body) => stage.server.call(name, body);
  stage.server = await Windlass.start(program, data, "127.0.0.1:0");
  await call("queues.create", { queue: "q" });
  await call("queue.produce", { queue: "q", items: [{ utf8: "work" }] });
  const lease = { queue: "q", client_id: "test", batch_size: 1, lease_timeout: "1h" };
  const [{ id, permit }] = (await call("queue.lease", lease)).items;
  const emit = (from, to) => {
    const events = Array.from({ length: to - from + 1 }, (_, index) => ({ type: "count", json: from + index }));
    return call("item.emit", { id, permit, after: from - 1, events });
  };
  const evaluate = await browser.open(`${stage.server.url}/health`);
  const until = (reached) => evaluate(`page.until(${reached})`);

  await evaluate(`(${follow})(${JSON.stringify(id)})`);
  await emit(1, 10);
  await until("(page) => page.seen.length >= 10");

  // Cut off, and told more while it is away.
  assert.deepEqual(await call("item.close_streams", { id, mode: "immediate" }), { closed: 1 });
  await emit(11, 20);
  await until("(page) => page.seen.length >= 20 && page.opened >= 2");

  const { host } = new URL(stage.server.url);
  await stage.server.kill();
  stage.server = await Windlass.start(program, data, host);
  await emit(21, 30);
  await until("(page) => page.seen.length >= 30 && page.opened >= 3");

  await call("queue.complete", { queue: "q", items: [{ id, permit }] });
  await until("(page) => page.ends.includes('final')");

  const { seen, ids, states, ends, opened } = JSON.parse(await evaluate("JSON.stringify(page)"));
  const numbers = Array.from({ length: 30 }, (_, index) => index + 1);
  assert.deepEqual(seen, numbers, "every event once, in order");
  assert.deepEqual(ids, numbers.map(String));
  assert.deepEqual(ends, ["closed", "final"]);
  assert.equal(states.at(-1), "completed");
  assert.equal(opened, 3);
}

const chromium = find();
if (!chromium.path) {
  console.log(`SKIPPED: ${chromium.why}`);
  process.exit(0);
}
const built = spawnSync("cargo", ["build", "--quiet", "--bin", "windlass"], { cwd: ROOT, stdio: "inherit" });
assert.equal(built.status, 0, "it builds");
const target = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");
const data = mkdtempSync(join(tmpdir(), "windlass-browser-data-"));
const browser = new Chromium(chromium.path);
const stage = {};
let hangs;
try {
  const late = new Promise((_, reject) => {
    hangs = setTimeout(() => reject(new Error("it hangs")), PATIENCE_MS);
  });
  await Promise.race([test(join(target, "debug", "windlass"), browser, data, stage), late]);
  console.log("ok: 30 events, each once, over a close and a killed server");
} finally {
  clearTimeout(hangs);
  await browser.close();
  await stage.server?.kill();
  rmSync(data, { recursive: true, force: true });
}
