// Runs a test with a browser, a program and a directory for data, and clears up after it.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { Chromium, find } from "./chromium.mjs";

/** Only against hanging: a browser comes back after about 3 s. */
const PATIENCE_MS = 120_000;
export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

function build() {
  const built = spawnSync("cargo", ["build", "--quiet", "--bin", "windlass"], { cwd: ROOT, stdio: "inherit" });
  assert.equal(built.status, 0, "it builds");
  return join(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"), "debug", "windlass");
}

/**
 * `test({ program, browser, data, stage })` puts what runs into `stage`, each with `close()` or `kill()`, and returns what
 * it has shown. The program is the first argument of the process, or built.
 */
export async function run(test, flags = []) {
  const chromium = find();
  if (!chromium.path) {
    console.log(`SKIPPED: ${chromium.why}`);
    return;
  }
  const program = process.argv[2] ?? build();
  const data = mkdtempSync(join(tmpdir(), "windlass-browser-data-"));
  const browser = new Chromium(chromium.path, flags);
  const stage = {};
  let hangs;
  try {
    const late = new Promise((_, reject) => {
      hangs = setTimeout(() => reject(new Error("it hangs")), PATIENCE_MS);
    });
    console.log(`ok: ${await Promise.race([test({ program, browser, data, stage }), late])}`);
  } finally {
    clearTimeout(hangs);
    await browser.close();
    for (const running of Object.values(stage)) await (running.kill?.() ?? running.close());
    rmSync(data, { recursive: true, force: true });
  }
}
