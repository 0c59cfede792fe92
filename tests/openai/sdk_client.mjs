// The official SDK of OpenAI as a client of a gateway, whose model is a script. Usage: node sdk_client.mjs CUBEPI
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import OpenAI from 'openai';

const program = process.argv[2];
let failed = 0;
const check = (name, good) => {
  console.log(`${good ? 'ok' : 'FAILED'}: ${name}`);
  if (!good) failed += 1;
};

const home = fs.mkdtempSync(path.join(os.tmpdir(), 'cubepi-openai-'));
fs.mkdirSync(path.join(home, '.config/cubepi'), { recursive: true });
fs.writeFileSync(
  path.join(home, '.config/cubepi/config.yaml'),
  'gateway: {http: {listen: "127.0.0.1:0", openai: true, operators: [olga]}}\n',
);
const call = { type: 'tool_call', id: 'c1', name: 'write', arguments: { path: 'new.txt', content: 'hello' } };
const script = path.join(home, 'script.json');
fs.writeFileSync(
  script,
  JSON.stringify({
    tokens_per_second: 100000,
    answers: ['One.', 'Two.', 'Three.', 'Four.', 'Five.', 'Six.', { stop_reason: 'tool_use', content: [call] }, 'Written.'],
  }),
);
const token = '0123456789abcdef';
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

const options = { baseURL: `http://127.0.0.1:${port}/v1`, apiKey: token };
const client = new OpenAI(options);
const model = 'cubepi';
const messages = [{ role: 'user', content: 'hello' }];

const models = [];
for await (const one of client.models.list()) models.push(one.id);
check('models.list', models.length === 1 && models[0] === model);
check('models.retrieve', (await client.models.retrieve(model)).id === model);

const completion = await client.chat.completions.create({ model, messages });
check('chat.completions.create', completion.choices[0].message.content === 'One.');
let text = '';
let finish = '';
for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
  text += chunk.choices[0].delta.content ?? '';
  finish = chunk.choices[0].finish_reason ?? finish;
}
check('chat.completions.create, streamed', text === 'Two.' && finish === 'stop');

const first = await client.responses.create({ model, input: 'hello', instructions: 'Be brief.' });
check('responses.create', first.status === 'completed' && first.output_text === 'Three.');
const second = client.responses.stream({ model, input: 'next', previous_response_id: first.id });
const types = new Set();
for await (const event of second) types.add(event.type);
check('responses.stream', (await second.finalResponse()).output_text === 'Four.' && types.has('response.output_text.delta'));

let background = await client.responses.create({ model, input: 'slow', background: true });
while (background.status === 'queued' || background.status === 'in_progress') {
  await new Promise((resolve) => setTimeout(resolve, 20));
  background = await client.responses.retrieve(background.id);
}
check('responses.create in background', background.output_text === 'Five.');
let last;
for await (const event of await client.responses.retrieve(background.id, { stream: true, starting_after: 1 })) {
  if (!last) check('responses.retrieve, streamed', event.sequence_number === 2);
  last = event;
}
check('responses.retrieve, to its end', last?.type === 'response.completed' && last.response.output[0].content[0].text === 'Five.');
check('responses.cancel', (await client.responses.cancel(background.id)).status === 'completed');

const unstored = await client.responses.create({ model, input: 'unstored', store: false });
const gone = await client.responses.retrieve(unstored.id).catch((error) => error);
check('store: false', unstored.output_text === 'Six.' && gone instanceof OpenAI.NotFoundError);

const asked = await client.responses.create({ model, input: 'write it', safety_identifier: 'ann' });
const question = asked.output.find((item) => item.type === 'mcp_approval_request');
check('approval is asked for', question?.name === 'write' && JSON.parse(question.arguments).path === 'new.txt');
const allowed = await client.responses.create({
  model,
  safety_identifier: 'olga',
  previous_response_id: asked.id,
  input: [{ type: 'mcp_approval_response', approval_request_id: question.id, approve: true }],
});
check('approval is answered', allowed.output_text === 'Written.');

const wrong = await client.responses.create({ model: 'gpt-5', input: 'x' }).catch((error) => error);
check('unknown model', wrong instanceof OpenAI.NotFoundError && wrong.code === 'model_not_found');
const refused = await client.chat.completions.create({ model, messages: [] }).catch((error) => error);
check('invalid request', refused instanceof OpenAI.BadRequestError && refused.param === 'messages');
const stranger = new OpenAI({ ...options, apiKey: 'another-token-of-16' });
check('wrong token', (await stranger.models.list().catch((error) => error)) instanceof OpenAI.AuthenticationError);

gateway.kill('SIGTERM');
check('end of the gateway', (await exited) === 0);
fs.rmSync(home, { recursive: true });
process.exit(failed ? 1 : 0);
