// Frames per second of the console's page while an answer of 20,000 deltas arrives, and idle: node frames.mjs PROGRAM prints a line of JSON
// for an answer in Markdown and for one of a single paragraph. browser.mjs measures the former, too.

import { chromium } from "playwright-core";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** The scripted model sends four bytes at a time. */
const bytes = 4 * 20000;
const deltasPerSecond = 5000;

const section = (number) => `## Part ${number}

The **gateway** writes each message to its delivery log before it starts a turn, so that a message whose process was killed is answered after the
restart, and not twice. A turn that has begun names the process that runs it; another one takes it over when the first one is gone.

- \`append\` returns when the entry is on the disk
- a *flush* stores what has arrived of an answer
- [the records](https://example.org/records) have dates of the system

\`\`\`cpp
for (const Entry& entry : tape.entries_after(position)) {
    if (entry.kind == EntryKind::message) messages.push_back(to_message(entry));
}
\`\`\`

| step | cost |
|---|---|
| append | one write |
| merge | two writes and a rename |

`;
const repeated = (part) => {
  let text = "";
  for (let number = 1; text.length < bytes; ++number) text += part(number);
  return text.slice(0, bytes);
};

export const longAnswer = { answers: [repeated(section)], tokens_per_second: deltasPerSecond };
const longParagraph = { answers: [repeated(() => "word ")], tokens_per_second: deltasPerSecond };

/** Starts `cubepi web` in `project`, with the answers of `script`; another start in the same directory prints a link. */
export async function startWeb(program, env, project, script, ...more) {
  const flags = ["web", "-C", project, "--script", script];
  const web = spawn(program, [...flags, "--log-level", "info", "--log-format", "json", ...more], { env });
  let output = "";
  await new Promise((resolve, reject) => {
    for (const stream of [web.stdout, web.stderr])
      stream.on("data", (part) => {
        output += part;
        if (output.includes('"gateway.running"')) resolve();
      });
    web.on("error", reject);
    web.on("exit", () => reject(new Error(`cubepi web has ended: ${output}`)));
  });
  web.removeAllListeners("exit");
  web.link = () => spawnSync(program, flags, { env, encoding: "utf8" }).stdout.trim();
  return web;
}

/** Sends a message in the page, which shows a session or a new one, and returns the frames per second until the answer is stored. */
export async function frameRates(page) {
  await page.evaluate(() => {
    window.frameCount = 0;
    const count = () => {
      ++window.frameCount;
      requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
  });
  // Both numbers are read in the page: a busy one answers late.
  const now = () => page.evaluate(() => ({ frames: window.frameCount, time: performance.now() }));
  const pace = async (work) => {
    const begin = await now();
    await work();
    const end = await now();
    return ((end.frames - begin.frames) * 1000) / (end.time - begin.time);
  };
  const idle = await pace(() => page.waitForTimeout(2000));
  await page.getByLabel(/^Message/).fill("Say a lot");
  await page.keyboard.press("Control+Enter");
  const live = page.locator(".live");
  await live.waitFor();
  const streaming = await pace(() => live.waitFor({ state: "detached", timeout: 120000 }));
  return { idle, streaming };
}

async function measured(program, browser, home, name, answer) {
  const env = { HOME: home, PATH: "/usr/bin:/bin", LANG: "C.UTF-8", CUBEPI_LOCAL_SERVERS: "off" };
  const project = join(home, name);
  mkdirSync(project);
  const script = join(home, `${name}.json`);
  writeFileSync(script, JSON.stringify(answer));
  const web = await startWeb(program, env, project, script);
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    await page.goto(web.link());
    await page.locator("nav").waitFor();
    await page.evaluate(() => { location.hash = "#/new"; });
    await page.getByLabel(/^Message/).waitFor();
    const rates = await frameRates(page);
    await page.close();
    return rates;
  } finally {
    web.kill("SIGKILL");
  }
}

async function main(program) {
  const home = mkdtempSync(join(tmpdir(), "cubepi-frames-"));
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
  try {
    const answer = await measured(program, browser, home, "answer", longAnswer);
    const paragraph = await measured(program, browser, home, "paragraph", longParagraph);
    console.log(JSON.stringify({ answer, paragraph }));
  } finally {
    await browser.close();
    rmSync(home, { recursive: true, force: true });
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    await main(process.argv[2]);
  } catch (error) {
    console.error(`frames: ${error.message.split("\n")[0]}`);
    process.exitCode = 1;
  }
}
