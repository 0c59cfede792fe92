// A gateway whose model is a script, for one client, and the list of what was tried.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export const token = '0123456789abcdef';
export const model = 'cubepi';

let failed = 0;
export const check = (name, good) => {
  console.log(`${good ? 'ok' : 'FAILED'}: ${name}`);
  if (!good) failed += 1;
};
export const failures = () => failed;

// An answer of the script that calls tools: {name: arguments}.
export const calls = (tools) => ({
  stop_reason: 'tool_use',
  content: Object.entries(tools).map(([name, args], i) => ({ type: 'tool_call', id: `c${i}`, name, arguments: args })),
});

// Starts a gateway; returns {url, home, stop}.
export const start = async (program, answers) => {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'cubepi-openai-'));
  fs.mkdirSync(path.join(home, '.config/cubepi'), { recursive: true });
  fs.writeFileSync(
    path.join(home, '.config/cubepi/config.yaml'),
    'gateway: {http: {listen: "127.0.0.1:0", openai: true, ag_ui: true, operators: [olga]}, rules: [{channel: http, allow: ["subagent: *"]}]}\n',
  );
  const script = path.join(home, 'script.json');
  fs.writeFileSync(script, JSON.stringify({ tokens_per_second: 100000, answers }));
  const gateway = spawn(program, ['gateway', '--script', script, '--log-format', 'json', '--log-level', 'info'], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, HOME: home, CUBEPI_HTTP_TOKEN: token },
  });
  const exited = new Promise((resolve) => gateway.on('exit', resolve));
  let output = '';
  const port = await new Promise((resolve, reject) => {
    const read = (data) => {
      output += data;
      const found = /http_server\.listening.*?"port":(\d+)/s.exec(output);
      if (found && output.includes('gateway.running')) resolve(Number(found[1]));
    };
    gateway.stdout.on('data', read);
    gateway.stderr.on('data', read);
    exited.then(() => reject(new Error(output)));
  });
  const stop = async (name) => {
    gateway.kill('SIGTERM');
    check(`${name}: end of the gateway`, (await exited) === 0);
    fs.rmSync(home, { recursive: true });
  };
  return { url: `http://127.0.0.1:${port}/v1`, home, stop };
};

// Runs a program; returns {status, output}.
export const run = (command, args, options) =>
  new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
    let output = '';
    child.stdout.on('data', (data) => (output += data));
    child.stderr.on('data', (data) => (output += data));
    child.on('exit', (status) => resolve({ status, output }));
  });
