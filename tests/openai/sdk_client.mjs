// The official SDK of OpenAI for Node as a client of a gateway.
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { calls, check, model, start, token } from './gateway.mjs';

export const judge = async ({ program }) => {
  const gateway = await start(program, [
    'One.', 'Two.', 'Three.', 'Four.', 'Five.', 'Six.', calls({ write: { path: 'new.txt', content: 'hello' } }), 'Written.',
    calls({ clock: { zone: 'UTC' }, weather: {} }), 'Noon, rain.', calls({ clock: {} }), 'It is noon.', 'Seven.',
  ]);

  const options = { baseURL: gateway.url, apiKey: token };
  const client = new OpenAI(options);
  const model = 'cubepi';
  const messages = [{ role: 'user', content: 'hello' }];

  const models = [];
  for await (const one of client.models.list()) models.push(one.id);
  check('models.list', models.length === 1 && models[0] === model);
  check('models.retrieve', (await client.models.retrieve(model)).id === model);

  const completion = await client.chat.completions.create({ model, messages });
  check('chat.completions.create', completion.choices[0].message.content === 'One.' && completion.usage.total_tokens > 0);
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

  const functions = ['clock', 'weather'].map((name) => ({
    name, description: 'Tells it.', parameters: { type: 'object', properties: { zone: { type: 'string' } } },
  }));
  const tools = functions.map((one) => ({ type: 'function', strict: false, ...one }));
  const called = await client.responses.create({ model, input: 'time and weather', tools });
  const callsOf = (response) => response.output.filter((item) => item.type === 'function_call');
  check('function_call', callsOf(called).map((item) => item.name).join() === 'clock,weather');
  const outputs = callsOf(called).map((item) => ({ type: 'function_call_output', call_id: item.call_id, output: item.name }));
  const half = await client.responses
    .create({ model, input: outputs.slice(1), previous_response_id: called.id, tools })
    .catch((error) => error);
  check('an output is missing', half instanceof OpenAI.BadRequestError && half.message.includes('No tool output found'));
  const done = await client.responses.create({ model, input: outputs, previous_response_id: called.id, tools });
  check('function_call_output', done.output_text === 'Noon, rain.' && done.usage.output_tokens > 0);

  const runner = client.chat.completions.runTools({
    model, messages, stream: true,
    tools: [{ type: 'function', function: { ...functions[0], function: () => 'noon', parse: JSON.parse } }],
  });
  check('chat.completions.runTools', (await runner.finalContent()) === 'It is noon.');

  const socket = new ResponsesWS(client);
  socket.send({ type: 'response.create', model, input: 'over a socket' });
  let seven;
  for await (const event of socket) {
    if (event.type === 'error') break;
    if (event.type === 'message' && event.message.type === 'response.completed') seven = event.message.response;
    if (seven) break;
  }
  socket.close();
  check('ResponsesWS', seven?.output[0].content[0].text === 'Seven.');

  const wrong = await client.responses.create({ model: 'gpt-5', input: 'x' }).catch((error) => error);
  check('unknown model', wrong instanceof OpenAI.NotFoundError && wrong.code === 'model_not_found');
  const refused = await client.chat.completions.create({ model, messages: [] }).catch((error) => error);
  check('invalid request', refused instanceof OpenAI.BadRequestError && refused.param === 'messages');
  const stranger = new OpenAI({ ...options, apiKey: 'another-token-of-16' });
  check('wrong token', (await stranger.models.list().catch((error) => error)) instanceof OpenAI.AuthenticationError);
  await gateway.stop('SDK for Node');
};
