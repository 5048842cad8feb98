// Pages that are not the server's own, in a real browser: one whose name was made to lead to the server reads nothing, one
// of another origin reads and changes nothing, and one of `allowed_origins` may call.
//
//   node tests/browser/other_pages.mjs [PROGRAM]
//
// Without a program it builds one. It installs Chromium with apt-get if there is none, or says that it was skipped and why.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";

import { run } from "./stage.mjs";
import { Windlass } from "./windlass.mjs";

const SECRET = "the payload";
const JSON_HEADERS = { "content-type": "application/json" };

/** Serves an empty page under every name, from a port that is not the server's. */
async function servePages() {
  const pages = createServer((_, answer) => answer.writeHead(200, { "content-type": "text/html" }).end("<!doctype html>"));
  pages.listen(0, "127.0.0.1");
  await once(pages, "listening");
  return pages;
}

/** In a page: what it gets to see of a reply, which is nothing if the browser withholds it. */
async function attempt(url, options) {
  try {
    const reply = await fetch(url, options);
    const { status, type, headers } = reply;
    const id = headers.get("windlass-request-id") !== null;
    // A stream has no end: that it begins is too much already.
    if (headers.get("content-type") === "text/event-stream") return { status, type, id, text: "a stream" };
    return { status, type, id, text: await reply.text() };
  } catch (error) {
    return { withheld: error.name };
  }
}

const call = (body, more = {}) => ({ method: "POST", headers: JSON_HEADERS, body: JSON.stringify(body), ...more });

async function test({ program, browser, data, stage }) {
  const pages = (stage.pages = await servePages());
  const { port: pagesPort } = pages.address();
  const allowed = ["--allowed-origins", `http://app.example:${pagesPort}`];
  const server = (stage.server = await Windlass.start(program, data, "127.0.0.1:0", allowed));
  await server.call("queues.create", { queue: "q" });
  const { items: [{ id }] } = await server.call("queue.produce", { queue: "q", items: [{ utf8: SECRET }] });
  const lease = { queue: "q", client_id: "page", batch_size: 1, lease_timeout: "1h" };
  const get = call({ id });

  /** Opens a page, has it ask for each, and tells what it saw. */
  const visit = async (page, asked) => {
    const evaluate = await browser.open(page);
    const seen = [];
    for (const [url, options] of asked) seen.push(await evaluate(`(${attempt})(${JSON.stringify(url)}, ${JSON.stringify(options)})`));
    return seen;
  };

  // The name leads to the server itself, so its pages are of one origin with the server, as far as the browser knows.
  const { port } = new URL(server.url);
  const paths = [["/metrics"], [`/v1/item.events?id=${id}`], ["/v1/item.get", get], ["/openapi.json"], ["/v1/queue.lease", call(lease)]];
  const rebound = await visit(`http://rebound.example:${port}/health`, paths);
  assert.deepEqual(rebound.map(({ status }) => status), paths.map(() => 403), "what the rebound page was answered");
  for (const { text } of rebound) assert.deepEqual(JSON.parse(text).error.details, { host: "rebound.example" });

  const whole = paths.map(([path, options]) => [server.url + path, options]);
  const simple = { method: "POST", mode: "no-cors", body: JSON.stringify(lease) };
  const blind = [`${server.url}/v1/queue.lease`, simple];
  const elsewhere = await visit(`http://elsewhere.example:${pagesPort}/`, [...whole, blind]);
  const withheld = { withheld: "TypeError" };
  assert.deepEqual(elsewhere.slice(0, -1), whole.map(() => withheld));
  assert.deepEqual(elsewhere.at(-1), { status: 0, type: "opaque", id: false, text: "" });
  const { counts } = await server.call("queue.stats", { queue: "q" });
  assert.deepEqual([counts.waiting, counts.leased], [1, 0], "no page has leased the item");

  const unknown = call({ queue: "nothing" });
  const asked = [[`${server.url}/v1/item.get`, get], [`${server.url}/v1/queues.info`, unknown], [`${server.url}/metrics`]];
  const [got, refused, metrics] = await visit(`http://app.example:${pagesPort}/`, asked);
  assert.deepEqual([got.status, got.id, JSON.parse(got.text).item.utf8], [200, true, SECRET]);
  assert.deepEqual([refused.status, refused.id, JSON.parse(refused.text).error.code], [404, true, "not_found"]);
  assert.equal(metrics.status, 200);
  return "a rebound page and one of another origin saw nothing, and one of `allowed_origins` called";
}

await run(test, ["--host-resolver-rules=MAP *.example 127.0.0.1"]);
