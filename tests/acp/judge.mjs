// The parts that judges of `cubepi acp` share: a scripted model server, and the list of checks.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { Readable, Writable } from 'node:stream';
import * as acp from '@agentclientprotocol/sdk';

export const AGENT_METHODS = acp.AGENT_METHODS;
export const CLIENT_METHODS = acp.CLIENT_METHODS;

let failed = 0;
export const failures = () => failed;
export const checks = () => (name, passes) => {
  console.log(`${passes ? 'ok  ' : 'FAIL'}  ${name}`);
  if (!passes) failed += 1;
};

/** Starts a server of the Chat Completions API: the N-th request gets the N-th answer, {text, call: [name, arguments]}. */
export async function startModel(answers) {
  let next = 0;
  const server = http.createServer((request, response) => {
    request.resume().on('end', () => {
      if (request.method === 'GET') {
        response.setHeader('Content-Type', 'application/json');
        response.end(JSON.stringify({ data: [{ id: 'local' }] }));
        return;
      }
      const answer = answers[Math.min(next, answers.length - 1)];
      next += 1;
      const delta = { content: answer.text ?? '' };
      if (answer.call) {
        const [name, values] = answer.call;
        delta.tool_calls = [{ index: 0, id: 'call_0', type: 'function', function: { name, arguments: JSON.stringify(values) } }];
      }
      const reason = answer.call ? 'tool_calls' : 'stop';
      response.setHeader('Content-Type', 'text/event-stream');
      response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`);
      response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: reason }] })}\n\n`);
      response.end('data: [DONE]\n\n');
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}/v1`, close: () => server.close(), requests: () => next };
}

/** Starts `cubepi acp` with more flags, a home of its own and an empty project: {stream, work, leave}. `leave` resolves with its exit code. */
export function startAgent(program, model, flags) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'cubepi-acp-'));
  const work = path.join(home, 'work');
  fs.mkdirSync(work);
  const agent = spawn(program, ['acp', '--provider', 'openai', '--base-url', model.url, '-m', 'local', ...flags], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { PATH: process.env.PATH, HOME: home, OPENAI_API_KEY: 'none' },
  });
  const exited = new Promise((resolve) => { agent.on('exit', resolve); });
  const leave = async () => {
    agent.stdin.end();
    const code = await exited;
    fs.rmSync(home, { recursive: true });
    return code;
  };
  return { stream: acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)), work, leave };
}
