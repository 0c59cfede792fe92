// acpx, a client of the Agent Client Protocol for the command line, as a judge of `cubepi acp`: one prompt with and without consent, and a
// session. Usage: node acpx_client.mjs CUBEPI
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { checks, failures } from './judge.mjs';

const program = process.argv[2];
const check = checks();
const home = fs.mkdtempSync(path.join(os.tmpdir(), 'cubepi-acpx-'));
const work = path.join(home, 'work');
fs.mkdirSync(work);
const script = path.join(home, 'script.json');
const write = { type: 'tool_call', id: 'c1', name: 'write', arguments: { path: 'made.txt', content: 'one\n' } };
fs.writeFileSync(script, JSON.stringify({ tokens_per_second: 100000, answers: [{ stop_reason: 'tool_use', content: [write] }, 'Done.'] }));

const manifest = createRequire(import.meta.url).resolve('acpx/package.json');
const { bin } = JSON.parse(fs.readFileSync(manifest, 'utf8'));
const acpx = path.join(path.dirname(manifest), typeof bin === 'string' ? bin : bin.acpx);
const made = path.join(work, 'made.txt');
/** Its processes for sessions end after a second without work. */
const run = (...words) => {
  const flags = ['--cwd', work, '--ttl', '1', '--format', 'json', '--agent', `${program} acp --script ${script}`];
  const ran = spawnSync(process.execPath, [acpx, ...flags, ...words], {
    cwd: work,
    encoding: 'utf8',
    timeout: 60000,
    env: { PATH: process.env.PATH, HOME: home, CUBEPI_LOCAL_SERVERS: 'off' },
  });
  const lines = ran.stdout.split('\n').filter((line) => line.startsWith('{'));
  return { status: ran.status, text: ran.stdout + ran.stderr, messages: lines.map((line) => JSON.parse(line)) };
};
const has = (ran, method) => ran.messages.some((message) => message.method === method);
const ends = (ran) => ran.messages.some((message) => message.result?.stopReason === 'end_turn');
const tell = (name, passes, ran) => {
  check(name, passes);
  if (!passes) console.log(ran.text);
};

try {
  const allowed = run('--json-strict', '--approve-all', 'exec', 'make a file');
  tell('a prompt with consent writes', allowed.status === 0 && ends(allowed) && fs.readFileSync(made, 'utf8') === 'one\n', allowed);
  tell('the call was asked about', has(allowed, 'session/request_permission'), allowed);
  fs.rmSync(made);
  const denied = run('--json-strict', '--deny-all', 'exec', 'make a file');
  tell('a prompt without consent does not write', denied.status !== 0 && ends(denied) && !fs.existsSync(made), denied);
  const begun = run('--approve-all', 'sessions', 'new');
  tell('a session begins', begun.status === 0, begun);
  const first = run('--approve-all', 'prompt', 'make a file');
  tell('a prompt of the session ends', first.status === 0 && ends(first) && fs.existsSync(made), first);
  const closed = run('sessions', 'close');
  tell('the session is closed', closed.status === 0, closed);
} finally {
  fs.rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}
console.log(failures() === 0 ? 'acpx: all passed' : `acpx: ${failures()} failed`);
process.exit(failures() === 0 ? 0 : 1);
