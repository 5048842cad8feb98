// A real browser with the script of docs/concepts/streams.md follows a stream over a close, a killed server and refusals,
// sees every event once, and stops at the end.
//
//   node tests/browser/event_source.mjs [PROGRAM]
//
// Without a program it builds one. It installs Chromium with apt-get if there is none, or says that it was skipped and why.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { Proxy } from "./proxy.mjs";
import { ROOT, run } from "./stage.mjs";
import { Windlass } from "./windlass.mjs";

/** The script that the docs give to pages. */
function scriptOfTheDocs() {
  const page = readFileSync(join(ROOT, "docs/concepts/streams.md"), "utf8");
  const [, script] = page.match(/```js\n(.*?)```/s);
  return script;
}

/** In the page, with that script. Everything begins at 0: that nothing comes twice is the work of numbers. */
function begin(id) {
  const page = { seen: [], states: [], ends: [], sources: [], opened: 0, told: () => {} };
  window.page = page;
  window.EventSource = class extends EventSource {
    constructor(url) {
      super(url);
      page.sources.push(this);
      this.addEventListener("open", () => {
        page.opened++;
        page.told();
      });
    }
  };
  follow(id, ["count"], (type, data) => {
    if (type === "count") page.seen.push([data.seq, data.json]);
    if (type === "state") page.states.push(data.state);
    if (type === "end") page.ends.push(data.reason);
    page.told();
  });
  page.until = (reached) =>
    new Promise((resolve) => {
      page.told = () => reached(page) && resolve(true);
      page.told();
    });
}

async function test({ program, browser, data, stage }) {
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
  stage.proxy = await Proxy.start(stage.server.url);
  const evaluate = await browser.open(`${stage.proxy.url}/health`);
  const until = (reached) => evaluate(`page.until(${reached})`);

  await evaluate(scriptOfTheDocs());
  await evaluate(`(${begin})(${JSON.stringify(id)})`);
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

  // Refused when it comes back: a browser gives up then, and the page begins anew.
  stage.proxy.refuse = 2;
  await call("item.close_streams", { id, mode: "immediate" });
  await emit(31, 40);
  await until("(page) => page.seen.length >= 40 && page.opened >= 4");
  assert.equal(stage.proxy.refused, 2);

  await call("queue.complete", { queue: "q", items: [{ id, permit }] });
  await until("(page) => page.ends.includes('final')");

  const { seen, states, ends, opened } = JSON.parse(await evaluate("JSON.stringify(page)"));
  const numbers = Array.from({ length: 40 }, (_, index) => index + 1);
  assert.deepEqual(seen, numbers.map((number) => [number, number]), "every event once, in order");
  assert.deepEqual(ends, ["closed", "closed", "final"]);
  assert.equal(states.at(-1), "completed");
  assert.equal(opened, 4);
  const CLOSED = 2;
  const left = await evaluate("page.sources.map((source) => source.readyState)");
  assert.deepEqual(left, [CLOSED, CLOSED, CLOSED], "the first, one that was refused too, and one that saw the end");
  return "40 events, each once, over a close, a killed server and refusals";
}

await run(test);
