// The generated types hold for what a server takes and answers.
//
//   node client.mjs URL

import type { components, paths } from "./windlass.js";

type Schemas = components["schemas"];
type Request<P extends keyof paths> = paths[P] extends {
  post: { requestBody?: { content: { "application/json": infer R } } };
}
  ? R
  : never;
type Reply<P extends keyof paths> = paths[P] extends {
  post: { responses: { 200: { content: { "application/json": infer R } } } };
}
  ? R
  : never;

declare const process: { argv: string[] };
const url = process.argv[2];
let calls = 0;

async function call<P extends keyof paths>(path: P, body: Request<P>): Promise<Reply<P>> {
  calls++;
  const headers = { "content-type": "application/json" };
  const reply = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!reply.ok) throw new Error(`${path}: ${await reply.text()}`);
  return (await reply.json()) as Reply<P>;
}

function check(holds: boolean, what: string) {
  if (!holds) throw new Error(what);
}

const queue = "typescript";
await call("/v1/queues.create", { queue, dead_timeout: "1h" });
const item: Schemas["NewItem"] = { json: { to: "ada" } };
const produced = await call("/v1/queue.produce", { queue, items: [item] });
const leased = await call("/v1/queue.lease", { queue, client_id: "ts", batch_size: 1 });
const [work] = leased.items;
check(work.id === produced.items[0].id, "the item that was produced is leased");
const done = { id: work.id, permit: work.permit, result: { utf8: "sent" } };
check((await call("/v1/queue.complete", { queue, items: [done] })).completed === 1, "completed");
const cron = { cron: "hourly", queue, schedule: "@every 1h", item: { json: null } };
const last: string | null = (await call("/v1/crons.create", cron)).cron.last_at;
check(last === null, "a cron that never ran has no last time");
console.log(`ok: ${calls} calls with types of TypeScript`);
