// Tries the pages of the web console in a headless Chromium, against a gateway with a scripted model: node browser.mjs PROGRAM SCREENSHOTS.
// Prints what was tried, and fails if something did not work.

import { chromium } from "playwright-core";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { frameRates, longAnswer, startWeb } from "./frames.mjs";
import { smallPng } from "./small_png.mjs";

const [program, shots] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const home = mkdtempSync(join(tmpdir(), "cubepi-console-"));
const token = "0123456789abcdef0123";
const env = { HOME: home, PATH: "/usr/bin:/bin", LANG: "C.UTF-8", CUBEPI_HTTP_TOKEN: token, CUBEPI_LOCAL_SERVERS: "off", CUBEPI_TRACE: join(home, "traces") };
const failures = [];
const widths = [1280, 768, 360];
const heightOf = (width) => (width === 360 ? 740 : 800);

function check(what, holds, detail = "") {
  console.log(`${holds ? "ok    " : "FAILED"} ${what}${holds ? "" : ` ${detail}`}`);
  if (!holds) failures.push(what);
}

const call = (id, name, args, text) => ({
  stop_reason: "tool_use",
  content: [...(text ? [{ type: "text", text }] : []), { type: "tool_call", id, name, arguments: args }],
});

// The cases of attack: markup, addresses with scripts, entities, characters that reorder text, deep nesting.
const hostile = [
  "<script>window.hacked=1</script>",
  "<img src=x onerror=\"window.hacked=1\">",
  "<svg onload=window.hacked=1><a xlink:href=javascript:window.hacked=1>x</a></svg>",
  "[link](javascript:window.hacked=1) [data](data:text/html,<script>window.hacked=1</script>) [ok](https://example.org/)",
  "[tab](java\tscript:window.hacked=1) <javascript:window.hacked=1> ![image](https://example.org/pixel.png)",
  "<iframe srcdoc=\"<script>parent.hacked=1</script>\"></iframe> <math><mtext></mtext></math>",
  "`<b>code</b>` &lt;b&gt; **bold \u202e desrever**",
  "> ".repeat(300) + "deep",
  "- ".repeat(300) + "deep",
  "[".repeat(300) + "](".repeat(100),
];
// Texts that make a page slow, or a part of it fail.
const deep = `${"> ".repeat(1400)}deep`;
const slow = "_a_b ".repeat(3000);
const long = "a\n".repeat(100000);
const blocks = [
  "# Blocks", "Text with **marks**, `code` and a [link](https://example.org/).", "- one\n\n  still one\n- two\n  - inner", "1. first", "> quoted\n> more",
  "```cpp\nint a;\n\n- no item\n```", "| a | b |\n|---|---|\n| 1 | 2 |", "Title\n---", "<b>no element</b>", "",
].join("\n\n");
const dot = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");

writeFileSync(
  join(home, "script.json"),
  JSON.stringify({
    tokens_per_second: 100000,
    answers: [
      call("c1", "write", { path: "notes/release.md", content: "# Release 2.1\n\n- Starts in half the time\n- Reads old settings\n" }, "I write the **notes** first.\n\n| file | change |\n|---|---|\n| `release.md` | new |"),
      call("c2", "shell", { command: "git push origin main \u202e--force && make deploy" }),
      call("c3", "ask_user", { questions: [
        { key: "target", prompt: "Which machine gets the new version?", options: [{ label: "Staging", value: "staging", description: "no customers" }, { label: "Production", value: "production" }] },
        { key: "note", prompt: "A note for the log", required: false },
      ] }),
      call("c4", "edit", { path: "config.yaml", old_text: "limit: 10\nmode: slow", new_text: "limit: 20\nmode: fast" }),
      hostile.join("\n\n"),
      call("c6", "write", { path: "<img src=x onerror=window.hacked=1>", content: hostile.join("\n") }),
      deep,
      slow,
      call("c9", "ask_user", { questions: [{ key: "constructor", prompt: "Which key?", options: [{ label: "First", value: "1" }, { label: "Second", value: "2" }] }] }),
      call("c10", "write", { path: "long.txt", content: long }),
      ...Array(30).fill("Done."),
    ],
  }),
);
mkdirSync(join(home, ".config/cubepi"), { recursive: true });
writeFileSync(
  join(home, ".config/cubepi/config.yaml"),
  'gateway: {listen: "127.0.0.1:0", http: {operators: [olga]}, console: true, trusted_proxies: [127.0.0.1], drain_timeout: 10, limits: {per_user: {messages: 100, tokens: 1000000}, per_chat: {messages: 3}, total: {messages: 500}}}\n',
);

let port = 0;
async function startGateway() {
  const gateway = spawn(program, ["gateway", "--script", join(home, "script.json"), "--log-level", "info", "--log-format", "json"], { env });
  let output = "";
  await new Promise((resolve, reject) => {
    const read = (bytes) => {
      output += bytes;
      if (!output.includes('"gateway.running"')) return;
      const line = output.split("\n").find((one) => one.includes('"http_server.listening"'));
      port = JSON.parse(line).port;
      resolve();
    };
    gateway.stdout.on("data", read);
    gateway.stderr.on("data", read);
    gateway.on("exit", () => reject(new Error(`the gateway has ended: ${output}`)));
  });
  return gateway;
}

function link(...flags) {
  const made = spawnSync(program, ["gateway", "console", ...flags], { env, encoding: "utf8" });
  return made.stdout.trim();
}

async function send(session, text) {
  const response = await fetch(`http://127.0.0.1:${port}/v1/messages`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ session, text, user: "ann" }),
  });
  return response.json();
}

/** A proxy that removes the prefix /agents. */
async function startProxy() {
  const proxy = http.createServer((request, response) => {
    const path = request.url.replace(/^\/agents/, "");
    const headers = { ...request.headers, "x-forwarded-host": request.headers.host, "x-forwarded-proto": "http", "x-forwarded-for": "192.0.2.7" };
    const passed = http.request({ port, host: "127.0.0.1", path, method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    passed.on("error", () => response.writeHead(502).end());
    request.pipe(passed);
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  return proxy;
}

const gateway = await startGateway();
for (const [at, text] of ["Please release version 2.1", "Push it", "Where to?", "Raise the limit", "Show the report", "Write it", "Quote", "Emphasize", "Ask", "Fill a file"].entries())
  await send(`s${at + 1}`, text);

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const problems = [];
// A login that fails and a late answer have statuses of errors, and below the page tries to set innerHTML.
const expected = ["Failed to load resource", "requires 'TrustedHTML'"];
async function open(address) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && !expected.some((one) => message.text().includes(one))) problems.push(message.text());
  });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol !== "data:" && url.hostname !== "127.0.0.1") problems.push(`request to ${url.host}`);
  });
  await page.goto(address);
  // The page removes the link from its address when it is logged in, and with it an address that was entered meanwhile.
  await page.locator("nav, .login").first().waitFor();
  return page;
}
async function capture(page, name) {
  if (shots) writeFileSync(join(shots, `${name}.png`), smallPng(await page.screenshot()));
}
/** In the light theme; the size of the page is that of before afterwards. */
async function captureAll(page, name) {
  for (const width of widths) {
    await page.setViewportSize({ width, height: heightOf(width) });
    await capture(page, `${name}-${width}`);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}
const go = (page, hash) => page.evaluate((to) => { location.hash = to; }, hash);
const card = (page, text) => page.locator("article", { hasText: text });

const axeFinds = async (page) => {
  const session = await page.context().newCDPSession(page);
  const { result } = await session.send("Runtime.evaluate", {
    expression: `${axe};axe.run(document).then((found) => JSON.stringify(found.violations.map((one) => [one.id, one.impact, one.nodes.map((node) => node.html)])))`,
    awaitPromise: true,
    returnByValue: true,
  });
  return result.value;
};

/** `cubepi web` for one directory: completion, a call that is changed, and a process that is killed. */
async function tryWeb() {
  const project = join(home, "project");
  mkdirSync(join(project, "docs"), { recursive: true });
  writeFileSync(join(project, "notes.md"), "Buy milk\n");
  writeFileSync(join(project, "dot.png"), dot);
  writeFileSync(join(project, "docs/release notes.md"), "Version 2\n");
  const script = (name, tokens, answers) => {
    writeFileSync(join(home, name), JSON.stringify({ tokens_per_second: tokens, answers }));
    return join(home, name);
  };
  const start = (file, ...more) => startWeb(program, env, project, file, ...more);

  const quick = script("web.json", 100000, ["Read.", call("w1", "write", { path: "made.txt", content: "one\n" }), "Done.", call("w2", "send_file", { path: "dot.png" }), "Here it is.", call("w3", "write", { path: "made.txt", content: "two\n" }), "Allowed.", call("w4", "write", { path: "made.txt", content: "three\n" }), "Unasked."]);
  let web = await start(quick);
  try {
    const page = await open(web.link());
    await go(page, "#/new");
    const message = page.getByLabel(/^Message/);
    await message.pressSequentially("Read @not");
    const list = page.getByRole("listbox", { name: "Completions" });
    await list.waitFor();
    check("files are completed", (await list.getByRole("option").allInnerTexts()).join("|").includes("notes.md"));
    await page.keyboard.press("Escape");
    await list.waitFor({ state: "detached" });
    await page.keyboard.press("Backspace");
    await list.waitFor();
    for (const width of widths) {
      await page.setViewportSize({ width, height: 740 });
      check(`completion, ${width} pixels: nothing is wider than the page`, !(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)));
      const found = await axeFinds(page);
      check(`completion, ${width} pixels: axe-core finds nothing`, found === "[]", found);
      await capture(page, `completion-${width}`);
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    check("a name with blanks is quoted", (await message.inputValue()) === 'Read @"docs/release notes.md" ', await message.inputValue());
    await page.keyboard.press("Control+Enter");
    await page.locator(".message.assistant", { hasText: "Read." }).waitFor();
    await page.getByText("Version 2").first().waitFor();
    check("a named file is a part of the message", true);
    await message.pressSequentially("/com");
    await list.getByRole("option", { name: "/compact" }).waitFor();
    await page.keyboard.press("Tab");
    check("a slash command is completed", (await message.inputValue()) === "/compact ", await message.inputValue());
    await message.fill("/undo");
    await page.keyboard.press("Control+Enter");
    await page.getByText("is a command of the terminal").waitFor();
    check("a command of the terminal is refused, and stays in the field", (await message.inputValue()) === "/undo");
    await message.fill("Make a file");
    await page.keyboard.press("Shift+Enter");
    check("Shift+Enter begins a line", (await message.inputValue()) === "Make a file\n");
    await page.keyboard.press("Enter");
    const question = card(page, "Approve write?");
    await question.getByRole("button", { name: "Change" }).click();
    await question.getByLabel("path").fill("other.txt");
    for (const width of widths) {
      await page.setViewportSize({ width, height: 740 });
      check(`change, ${width} pixels: nothing is wider than the page`, !(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)));
      const found = await axeFinds(page);
      check(`change, ${width} pixels: axe-core finds nothing`, found === "[]", found);
      await question.scrollIntoViewIfNeeded();
      await capture(page, `change-${width}`);
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    await question.getByRole("button", { name: "Approve the changed call" }).click();
    await page.locator(".message.assistant", { hasText: "Done." }).waitFor();
    check("a call runs as it was changed", readFileSync(join(project, "other.txt"), "utf8") === "one\n");
    await message.fill("Send me the picture");
    await page.keyboard.press("Control+Enter");
    await card(page, "Approve send_file?").getByRole("button", { name: "Approve" }).click();
    const picture = page.getByRole("img", { name: "dot.png" });
    await picture.waitFor();
    await page.waitForFunction(() => document.querySelector(".picture img")?.naturalWidth > 0);
    const [got] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download dot.png" }).click()]);
    check("a picture that a model sends is shown, and can be downloaded", readFileSync(await got.path()).equals(dot));
    await message.fill("Write as often as you want");
    await page.keyboard.press("Control+Enter");
    const always = card(page, "Approve write?");
    await always.getByRole("button", { name: "Always" }).click();
    check("the answer 'always' shows its rule before it is given", (await always.innerText()).includes('"write: *"'), await always.innerText());
    await always.getByRole("button", { name: "Always" }).click();
    await page.locator(".message.assistant", { hasText: "Allowed." }).waitFor();
    await message.fill("Write again");
    await page.keyboard.press("Control+Enter");
    await page.locator(".message.assistant", { hasText: "Unasked." }).waitFor();
    check("after 'always' such a call is not asked about", readFileSync(join(project, "made.txt"), "utf8") === "three\n");
    const at = new URL(page.url()).port;
    const ended = new Promise((resolve) => web.on("exit", resolve));
    web.kill("SIGINT");
    check("Ctrl-C ends it in order", (await ended) === 0);

    // An answer that takes long; the process is killed while it arrives.
    const slowly = Array(2000).fill("slowly").join(" ");
    web = await start(script("blocks.json", 40, [blocks + slowly]), "--port", at);
    await page.reload();
    await message.waitFor();
    check("a login survives a restart", true);
    await message.fill("Take your time");
    await page.keyboard.press("Control+Enter");
    const growing = page.getByLabel("In progress");
    await growing.getByText("slowly").waitFor();
    let reads = 0;
    const count = (request) => {
      if (/\/sessions\/[^/]+$/.test(request.url())) ++reads;
    };
    page.on("request", count);
    const sizes = [];
    for (let i = 0; i < 6; ++i) {
      await page.waitForTimeout(500);
      sizes.push((await growing.innerText()).length);
    }
    page.off("request", count);
    // The blocks before the last one, when that has the text.
    const shownBlocks = async (message, last) => {
      const found = page.locator(`${message} .markdown`, { has: page.locator(":scope > :last-child", { hasText: last }) });
      return found.evaluate((one) => [...one.children].slice(0, -1).map((part) => part.outerHTML).join("\n"));
    };
    const grown = await shownBlocks("#app .live", "slowly");
    const grows = sizes.every((size, i) => i === 0 || size > sizes[i - 1]);
    check("a running turn is shown as it comes, without reading the history", grows && reads <= 1, `${sizes} ${reads}`);
    const kill = async () => {
      const killed = new Promise((resolve) => web.on("exit", resolve));
      web.kill("SIGKILL");
      await killed;
    };
    await kill();
    await page.getByText("the gateway does not answer").first().waitFor();
    const [lengthy] = longAnswer.answers;
    const last = script("last.json", longAnswer.tokens_per_second, ["Here it is.", `${blocks}The end.`, lengthy, lengthy, "Steered.", lengthy, "After the stop."]);
    web = await start(last, "--port", at);
    await page.locator(".message.assistant", { hasText: "Here it is." }).waitFor();
    const asked = await page.locator(".message.user", { hasText: "Take your time" }).count();
    const earlier = await page.locator(".message.assistant", { hasText: "Done." }).count();
    check("a message whose process was killed is answered after the restart, once", asked === 1 && earlier === 1, `${asked} ${earlier}`);

    await message.fill("All kinds of blocks");
    await page.keyboard.press("Control+Enter");
    const stored = await shownBlocks("#app .message.assistant:not(.live)", "The end.");
    check("an answer that grows is shown as the whole is", grown === stored, `${grown}\n${stored}`);

    // 20,000 deltas: the page continues to draw.
    const { idle, streaming } = await frameRates(page);
    // The page may have read the answer once more while it grew.
    await page.locator(".state.idle").waitFor({ timeout: 120000 });
    const shown = await page.locator(".message.assistant", { hasText: "Part 1" }).last().innerText();
    check("an answer of 20,000 deltas is shown", shown.includes("Part 5"), shown.slice(0, 500));
    console.log(`      frames a second: ${streaming.toFixed(1)} while it arrives, ${idle.toFixed(1)} idle (ratio ${(idle / streaming).toFixed(2)})`);

    await message.fill("Say more");
    await page.keyboard.press("Control+Enter");
    await growing.waitFor();
    await message.fill("Also this");
    await page.getByRole("button", { name: "Steer", exact: true }).click();
    await page.locator(".message.assistant", { hasText: "Steered." }).waitFor({ timeout: 120000 });
    check("a running turn is steered", (await page.locator(".message.user", { hasText: "Also this" }).count()) === 1);
    await message.fill("Never mind");
    await page.keyboard.press("Control+Enter");
    await growing.waitFor();
    const stop = page.getByRole("button", { name: "Stop" });
    await stop.click();
    await stop.click();
    await page.locator(".state.idle").waitFor();
    await message.fill("And now?");
    await page.keyboard.press("Control+Enter");
    await page.locator(".message.assistant", { hasText: "After the stop." }).waitFor();
    check("a running turn is stopped", true);

    // Killed twice in the same turn, so that an operator decides.
    const lingering = script("lingering.json", 40, [slowly]);
    await kill();
    web = await start(lingering, "--port", at);
    await message.fill("Hold this");
    await page.keyboard.press("Control+Enter");
    await growing.getByText("slowly").waitFor();
    await kill();
    web = await start(lingering, "--port", at);
    await page.locator(".state.running").waitFor();
    await growing.getByText("slowly").waitFor();
    await kill();
    web = await start(script("held.json", 100000, ["Released."]), "--port", at);
    const session = new URL(page.url()).hash;
    await go(page, "#/gateway");
    const held = page.locator("li.held", { hasText: "Hold this" });
    await held.getByRole("button", { name: "Process" }).click();
    await held.waitFor({ state: "detached" });
    await go(page, session);
    await page.locator(".message.assistant", { hasText: "Released." }).waitFor();
    check("a held message is released", true);
    await page.context().close();
  } finally {
    web.kill("SIGKILL");
  }
}

try {
  await tryWeb();
  const page = await open(link("--name", "olga"));
  await page.waitForSelector("article");
  check("the link is not in the address", !page.url().includes("login"), page.url());
  check("every open question is shown", (await page.locator("article").count()) === 7);

  // Hosts of a cluster, which this gateway has not.
  await page.route(/\/status$/, async (route) => {
    const response = await route.fetch();
    const host = (name, here) => ({ id: name, host: `<b>${name}</b>`, pid: 7, here, state: "running", version: "1", started: 1e9, running_turns: 1, waiting_messages: 0, held: 2 });
    await route.fulfill({ response, json: { ...(await response.json()), gateways: [host("one", true), { ...host("two", false), problem: "the disk is full" }], configurations_differ: true } });
  });
  for (const [name, hash, part] of [["questions", "#/questions", "article"], ["sessions", "#/sessions", ".list li"], ["session", "#/session/http%3As1", ".message"], ["gateway", "#/gateway", ".card"], ["new", "#/new", ".composer"], ["logins", "#/logins", ".list li"]]) {
    await go(page, hash);
    await page.waitForSelector(part);
    for (const width of widths) {
      for (const colorScheme of ["light", "dark"]) {
        await page.setViewportSize({ width, height: heightOf(width) });
        await page.emulateMedia({ colorScheme });
        const overflows = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
        check(`${name}, ${width} pixels, ${colorScheme}: nothing is wider than the page`, !overflows);
        if (colorScheme === "light" || (name === "questions" && width === 360))
          await capture(page, `${name}-${width}${colorScheme === "dark" ? "-dark" : ""}`);
        const found = await axeFinds(page);
        check(`${name}, ${width} pixels, ${colorScheme}: axe-core finds nothing`, found === "[]", found);
      }
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.emulateMedia({ colorScheme: "light" });
  await go(page, "#/gateway");
  await page.getByText("<b>two</b>").waitFor();
  check("hosts of a cluster are shown", await page.getByText("The configurations of the gateways differ.").isVisible());
  const used = page.getByRole("list", { name: "Use" });
  await used.getByText("ann").first().waitFor();
  check("the use of today is shown, of all first", /^All users and chats[^]*10 of 500 messages/.test(await used.innerText()) && (await used.innerText()).includes("10 of 100 messages"), await used.innerText());
  await page.getByRole("searchbox").fill("S7");
  await page.waitForFunction(() => document.querySelectorAll("[aria-label=Use] li").length === 2);
  check("a chat is found by its id", (await used.innerText()).includes("s7"), await used.innerText());
  check("limits are shown", (await page.getByLabel("Limits").innerText()).includes("gateway.max_waiting"));
  await page.unrouteAll({ behavior: "wait" });

  // Lists without databases that cannot be read, of which this gateway has none.
  for (const [name, hash] of [["held", "#/gateway"], ["questions", "#/questions"], ["stored-sessions", "#/sessions"]]) {
    await page.route(new RegExp(`/${name}(\\?|$)`), async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), unread_databases: ["b", "c"] } });
    });
    await go(page, hash);
    await page.getByText("Without the databases b, c, which cannot be read at the moment.").waitFor();
    check(`${name}: databases that cannot be read are named`, true);
    await page.unrouteAll({ behavior: "wait" });
  }

  // Without the stream, the history has what is not stored.
  await page.route(/\/events/, (route) => route.fulfill({ status: 429 }));
  await page.route(/sessions\/http%3As1$/, async (route) => {
    const response = await route.fetch();
    const live = { text: "So **far**", thinking: "First the notes.", truncated: false, calls: [{ id: "x", name: "shell", arguments: '{"command":"make"}' }] };
    await route.fulfill({ response, json: { ...(await response.json()), state: "running", live } });
  });
  await go(page, "#/session/http%3As1");
  const live = page.getByLabel("In progress");
  await live.locator("strong", { hasText: "far" }).waitFor();
  await live.locator("summary", { hasText: "shell" }).click();
  const argument = live.getByLabel("command").getByText("make");
  await argument.waitFor();
  await page.waitForTimeout(2500);
  check("an answer in progress shows text and calls, and stays open", await argument.isVisible());
  await page.unrouteAll({ behavior: "wait" });
  await go(page, "#/session/http%3As5");
  await page.waitForSelector(".message.assistant");
  await go(page, "#/session/http%3As6");
  await page.waitForSelector("article");
  await go(page, "#/session/http%3As5");
  await page.waitForSelector(".message.assistant");
  const made = await page.evaluate(() => [...document.querySelectorAll("#app script, #app img, #app svg, #app iframe, #app math, #app b")].length);
  check("hostile text makes no element", made === 0, `${made}`);
  check("hostile text runs no script", (await page.evaluate(() => window.hacked)) === undefined);
  const addresses = await page.evaluate(() => [...document.querySelectorAll("#app main a")].map((one) => one.getAttribute("href")));
  check("links have safe addresses", addresses.every((one) => one.startsWith("#/") || one.startsWith("pages/") || one.startsWith("https://example.org")), `${addresses}`);
  check("characters that reorder text are visible", (await page.locator(".odd", { hasText: "U+202E" }).count()) > 0);
  const refused = await page.evaluate(() => {
    try {
      document.createElement("p").innerHTML = "<b>x</b>";
      return false;
    } catch {
      return true;
    }
  });
  check("the browser refuses HTML from strings", refused);

  for (const [session, part] of [["s7", "deep"], ["s8", "_a_b _a_b"]]) {
    await go(page, `#/session/http%3A${session}`);
    await page.locator(".message.assistant", { hasText: part }).waitFor({ timeout: 5000 });
  }
  check("deep and slow Markdown is shown", true);
  await go(page, "#/questions");
  const constructor = card(page, "Which key?");
  await constructor.getByLabel("Second").check({ timeout: 5000 });
  await constructor.getByRole("button", { name: "Send answer" }).click();
  await constructor.waitFor({ state: "detached" });
  check("a question whose key is a name of JavaScript is answered", true);
  const filling = card(page, "long.txt");
  const approve = filling.getByRole("button", { name: "Approve" });
  check("a long call cannot be approved before it was shown", await approve.isDisabled());
  await filling.getByRole("button", { name: "Show all of it" }).click();
  check("a long call that is shown can be approved", await approve.isEnabled());
  await go(page, "#/questions");
  await card(page, "Approve edit?").waitFor();
  const other = await open(link("--name", "otto"));
  await card(other, "Approve edit?").waitFor();
  // The second operator does not see yet that it was answered.
  await other.evaluate(() => { Object.defineProperty(document, "hidden", { value: true }); });
  await other.waitForTimeout(2500);
  await card(page, "Approve edit?").getByRole("button", { name: "Approve" }).click();
  await page.getByRole("status").getByText("Approved: Approve edit?").waitFor();
  await card(other, "Approve edit?").getByRole("textbox").fill("too late");
  await card(other, "Approve edit?").getByRole("button", { name: "Deny" }).click();
  await other.getByRole("status").getByText("was not used: olga has approved it before").waitFor();
  check("of two operators one is told who has answered first", true);
  const withdrawn = card(page, "long.txt");
  await card(other, "long.txt").getByRole("button", { name: "Show all of it" }).click();
  await withdrawn.getByRole("button", { name: "Withdraw" }).click();
  await withdrawn.getByRole("button", { name: "Withdraw" }).click();
  await withdrawn.waitFor({ state: "detached" });
  await card(other, "long.txt").getByRole("button", { name: "Approve" }).click();
  await other.getByRole("status").getByText("was not used: olga has withdrawn it before").waitFor();
  check("an answer to a question that was withdrawn is not used", true);

  const form = card(page, "Which machine");
  await form.getByRole("button", { name: "Send answer" }).click();
  await form.getByRole("alert").waitFor();
  check("a form names what is missing", true);
  await form.getByLabel("Staging").check();
  await form.getByLabel("A note for the log").fill("on Friday");
  await form.getByRole("button", { name: "Send answer" }).click();
  await form.waitFor({ state: "detached" });
  await go(page, "#/session/http%3As3");
  const details = page.locator("details", { hasText: /ask_user (result|failed)/ });
  await details.waitFor();
  await details.locator("summary").click();
  const answer = await details.innerText();
  check("the answers of a form arrive", answer.includes("staging") && answer.includes("on Friday"), answer);

  await go(page, "#/questions");
  await card(page, "Approve shell?").waitFor();
  let steps = 0;
  const deny = card(page, "Approve shell?").getByRole("button", { name: "Deny" });
  await page.locator("main").focus();
  const focused = () => deny.evaluate((one) => one === document.activeElement);
  while (!(await focused()) && steps < 60) {
    await page.keyboard.press("Tab");
    ++steps;
  }
  await page.keyboard.press("Tab");
  await page.keyboard.type("not on a Friday");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("status").getByText("Denied: Approve shell?").waitFor();
  check("a question is denied by keyboard alone", true);
  await go(page, "#/session/http%3As2");
  await page.locator("details", { hasText: /shell (result|failed)/ }).locator("summary").click();
  await page.getByText("not on a Friday").first().waitFor();
  check("the model reads the reason", true);

  await go(page, "#/sessions");
  await page.getByRole("button", { name: "New session" }).click();
  await page.getByLabel(/^Message/).fill("Hello <b>there</b>");
  await page.locator("input[type=file]").setInputFiles([
    { name: "<img src=x>.txt", mimeType: "text/plain", buffer: Buffer.from("plain") },
    { name: "dot.png", mimeType: "image/png", buffer: dot },
  ]);
  await page.getByText("<img src=x>.txt").waitFor();
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.locator(".message.assistant", { hasText: "Done." }).waitFor();
  const begun = page.url();
  check("a session is begun in the page, with files", begun.includes("#/session/console%3A"), begun);
  check("the history names who has written", (await page.locator(".message.user .facts", { hasText: "olga" }).count()) === 1);
  await page.getByLabel(/^Message/).fill(",help");
  await page.keyboard.press("Control+Enter");
  await page.getByText("Commands begin with a comma:").waitFor();
  check("a command of an operator runs, by keyboard", true);
  await captureAll(page, "chat");
  await page.locator("summary", { hasText: "Traces" }).click();
  const [trace] = await Promise.all([page.context().waitForEvent("page"), page.locator('a[href^="pages/traces/"]').first().click()]);
  await trace.waitForLoadState();
  const shownTrace = await trace.evaluate(() => ({ origin: self.origin, rows: document.body.innerText.length }));
  check("a trace is shown, and cannot use the login", shownTrace.origin === "null" && shownTrace.rows > 100, JSON.stringify(shownTrace));
  await captureAll(trace, "trace");
  await trace.close();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Export" }).click()]);
  const exported = readFileSync(await download.path(), "utf8");
  check("a session is exported as a page, without its markup", exported.includes("Hello &lt;b&gt;there"), exported.slice(0, 300));
  await page.getByRole("button", { name: "Fork" }).click();
  await page.waitForFunction((before) => location.href !== before, begun);
  await page.locator(".message.assistant", { hasText: "Done." }).waitFor();
  await page.getByLabel(/^Message/).fill("And on");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.locator(".message.assistant", { hasText: "Done." }).nth(1).waitFor();
  check("a fork continues", true);
  await go(page, "#/sessions");
  await page.getByRole("searchbox").fill("hello");
  await page.waitForFunction(() => document.querySelectorAll(".list li").length === 2);
  check("sessions are found by their first words", true);
  await captureAll(page, "search");

  await go(page, "#/logins");
  const ofOtto = page.locator(".list li", { hasText: "otto" });
  await ofOtto.getByRole("button", { name: "End" }).click();
  await ofOtto.getByRole("button", { name: "End" }).click();
  await ofOtto.waitFor({ state: "detached" });
  await other.reload();
  await other.getByText("cubepi gateway console").waitFor();
  check("one login is ended", true);

  const viewer = await open(link("--viewer", "--name", "vera"));
  await viewer.waitForSelector("article");
  check("a viewer has no buttons to answer", (await viewer.locator(".actions button").count()) === 0);
  await go(viewer, "#/session/http%3As1");
  await viewer.waitForSelector(".message");
  check("a viewer cannot write", (await viewer.locator("textarea").count()) === 0);
  await go(viewer, "#/questions");
  await viewer.waitForSelector("article");
  const before = await viewer.locator("article").count();
  // Changes of just before are announced within seconds.
  await viewer.waitForTimeout(4000);
  let reads = 0;
  viewer.on("request", (request) => {
    if (request.url().endsWith("/questions")) ++reads;
  });
  await viewer.waitForTimeout(5000);
  check("a list that does not change is not read", reads <= 1, `${reads}`);

  const proxy = await startProxy();
  const outside = `http://127.0.0.1:${proxy.address().port}/agents/console/`;
  const proxied = await open(outside + link("--name", "olga").replace(/^.*#/, "#"));
  await proxied.waitForSelector("article");
  await card(proxied, "Approve write?").first().getByRole("button", { name: "Approve" }).click();
  await proxied.getByRole("status").getByText("Approved").waitFor();
  check("behind a proxy that removes a prefix, a question is approved", true);
  await viewer.waitForFunction((count) => document.querySelectorAll("article").length < count, before);
  check("a question that another operator has answered disappears", true);
  proxy.close();
  proxy.closeAllConnections();

  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByText("cubepi gateway console").waitFor();
  for (const width of widths) {
    await page.setViewportSize({ width, height: heightOf(width) });
    const found = await axeFinds(page);
    check(`login, ${width} pixels: axe-core finds nothing`, found === "[]", found);
  }
  await captureAll(page, "login");
  await page.reload();
  await page.getByText("cubepi gateway console").waitFor();
  check("logged out, the page asks for a link", true);
  await page.getByLabel("Link").fill(link());
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForSelector("nav");
  check("a link that is pasted logs in", true);

  await go(page, "#/gateway");
  await page.getByRole("button", { name: "Reload configuration" }).press("Enter");
  await page.getByRole("status").getByText("uses the new configuration").waitFor();
  check("the configuration is reloaded, by keyboard", true);
  const ended = new Promise((resolve) => gateway.on("exit", resolve));
  await page.getByRole("button", { name: "Drain" }).press("Enter");
  // The focus moves to the harmless button.
  await page.waitForFunction(() => document.activeElement?.textContent.trim() === "Back");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Enter");
  check("the gateway drains and ends, by keyboard", (await ended) === 0);
  check("no error in a page, no request to another host", problems.length === 0, problems.join("\n"));
} catch (error) {
  check("the console was tried to the end", false, error.stack);
} finally {
  await browser.close();
  gateway.kill("SIGKILL");
  rmSync(home, { recursive: true, force: true });
}
console.log(failures.length === 0 ? "The console works." : `${failures.length} failed.`);
process.exit(failures.length === 0 ? 0 : 1);
