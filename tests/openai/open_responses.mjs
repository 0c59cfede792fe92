// The cases of Open Responses (openresponses.org): basic, streaming, system prompt, tool calling, round trip of a call, image and file
// input, several turns, previous response, compaction, and over a WebSocket: several responses, a continuation without `store`, after another
// connection, after a failure, and of a compaction. Each response has all members that the description requires, with their types.
import WebSocket from 'ws';
import { calls, check, model, start, token } from './gateway.mjs';

const number = (value) => typeof value === 'number';
const text = (value) => typeof value === 'string';
const flag = (value) => typeof value === 'boolean';
const list = Array.isArray;
const object = (value) => typeof value === 'object' && value !== null && !list(value);
const orNull = (is) => (value) => value === null || is(value);

const usage = (value) =>
  object(value) &&
  number(value.input_tokens) &&
  number(value.output_tokens) &&
  value.total_tokens === value.input_tokens + value.output_tokens &&
  number(value.input_tokens_details.cached_tokens) &&
  number(value.output_tokens_details.reasoning_tokens);
const resource = {
  id: text, object: (value) => value === 'response', created_at: number, completed_at: orNull(number), status: text,
  incomplete_details: orNull(object), model: text, previous_response_id: orNull(text), instructions: orNull(text), output: list,
  error: orNull(object), tools: list, tool_choice: (value) => text(value) || object(value), truncation: text, parallel_tool_calls: flag,
  text: object, top_p: number, presence_penalty: number, frequency_penalty: number, top_logprobs: number, temperature: number,
  reasoning: orNull(object), usage: orNull(usage), max_output_tokens: orNull(number), max_tool_calls: orNull(number), store: flag,
  background: flag, service_tier: text, metadata: object, safety_identifier: orNull(text), prompt_cache_key: orNull(text),
};
const items = {
  message: (item) => item.role === 'assistant' && list(item.content) && item.content.every((part) => list(part.annotations) && list(part.logprobs)),
  function_call: (item) => text(item.call_id) && text(item.name) && object(JSON.parse(item.arguments)),
};
const problems = (response) => [
  ...Object.keys(resource).filter((name) => !(name in response) || !resource[name](response[name])),
  ...response.output.filter((item) => !(item.type in items) || !text(item.id) || !text(item.status) || !items[item.type](item)),
];

export const judge = async ({ program }) => {
  const gateway = await start(program, [
    'Hello.', 'One, two.', 'Ahoy.', calls({ weather: { place: 'Rome' } }), 'Rain.', 'A picture.', 'A file.', 'Ann.', 'Still Ann.', 'A summary.', 'It was Ann.',
    'Over a socket.', 'Once more.', 'Copper.', 'It was copper.', 'Ember.', 'A summary.', 'It was ember.',
  ]);
  const post = (path, body) =>
    fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, ...body }),
    });
  const user = (content) => ({ type: 'message', role: 'user', content });
  const said = (response) => response.output.flatMap((item) => item.content ?? []).map((part) => part.text).join('');
  const ask = async (name, body, expected) => {
    const response = await (await post('/responses', body)).json();
    const wrong = response.output ? problems(response) : [response];
    check(`Open Responses: ${name}`, wrong.length === 0 && response.status === 'completed' && response.usage !== null && expected(response));
    if (wrong.length) console.log(wrong);
    return response;
  };

  await ask('basic', { input: [user('Say hello.')] }, (response) => said(response) === 'Hello.' && number(response.completed_at));
  const body = await (await post('/responses', { input: [user('Count.')], stream: true })).text();
  const events = body.trim().split('\n\n').map((event) => {
    const [name, data] = event.split('\n');
    return { name: name.slice('event: '.length), ...JSON.parse(data.slice('data: '.length)) };
  });
  const last = events.at(-1);
  check(
    'Open Responses: streaming',
    events.every((event, i) => event.name === event.type && event.sequence_number === i) &&
      events.filter((event) => event.type === 'response.output_text.delta').map((event) => event.delta).join('') === 'One, two.' &&
      last.type === 'response.completed' && problems(last.response).length === 0 && problems(events[0].response).length === 0,
  );
  const pirate = [{ type: 'message', role: 'system', content: 'You are a pirate.' }, user('Greet.')];
  await ask('system prompt', { input: pirate }, (response) => said(response) === 'Ahoy.');

  const weather = {
    type: 'function', name: 'weather', description: 'Tells it.',
    parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] },
  };
  const question = user('Weather in Rome?');
  const called = await ask('tool calling', { input: [question], tools: [weather] }, (response) =>
    response.output.some((item) => item.type === 'function_call' && item.name === 'weather') && response.tools[0].name === 'weather');
  const call = called.output.find((item) => item.type === 'function_call');
  const output = { type: 'function_call_output', call_id: call.call_id, output: '{"sky":"rain"}' };
  await ask('round trip of a call', { input: [question, call, output], tools: [weather] }, (response) => said(response) === 'Rain.');

  const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  const image = [{ type: 'input_text', text: 'What is it?' }, { type: 'input_image', image_url: `data:image/png;base64,${pixel}` }];
  await ask('image', { input: [user(image)] }, (response) => said(response) === 'A picture.');
  const file = [{ type: 'input_text', text: 'What is it?' }, { type: 'input_file', filename: 'a.txt', file_data: 'data:text/plain;base64,QUJD' }];
  await ask('file', { input: [user(file)] }, (response) => said(response) === 'A file.');

  const turns = [user('I am Ann.'), { type: 'message', role: 'assistant', content: 'Hello Ann.' }, user('Who am I?')];
  const first = await ask('several turns', { input: turns }, (response) => said(response) === 'Ann.');
  const previous = { input: [user('And now?')], previous_response_id: first.id };
  await ask('previous response', previous, (response) => said(response) === 'Still Ann.' && response.previous_response_id === first.id);

  const compact = await (await post('/responses/compact', { input: turns.slice(0, 2) })).json();
  const compaction = compact.output?.find((item) => item.type === 'compaction');
  check(
    'Open Responses: compaction',
    text(compact.id) && compact.object === 'response.compaction' && number(compact.created_at) && usage(compact.usage) &&
      text(compaction?.id) && text(compaction?.encrypted_content),
  );
  await ask('compacted conversation', { input: [...compact.output, user('Who was it?')] }, (response) => said(response) === 'It was Ann.');

  // Sends events on a connection of its own; returns a function that sends one and returns its last event.
  const connect = async () => {
    const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/responses`, { headers: { authorization: `Bearer ${token}` } });
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
    const create = (body) =>
      new Promise((resolve) => {
        let sequence = 0;
        const read = (data) => {
          const event = JSON.parse(data);
          if (event.type !== 'error' && event.sequence_number !== sequence++) check(`sequence number of ${event.type}`, false);
          if (!['error', 'response.completed', 'response.failed', 'response.incomplete'].includes(event.type)) return;
          socket.off('message', read);
          resolve(event);
        };
        socket.on('message', read);
        socket.send(JSON.stringify({ type: 'response.create', model, ...body }));
      });
    return { create, close: () => socket.close() };
  };
  const answers = (event, expected) => event.type === 'response.completed' && problems(event.response).length === 0 && said(event.response) === expected;
  const socket = await connect();
  const one = await socket.create({ input: 'hello' });
  const two = await socket.create({ input: 'again' });
  check('Open Responses: WebSocket', answers(one, 'Over a socket.') && answers(two, 'Once more.') && one.response.id !== two.response.id);
  const unstored = await socket.create({ input: 'The word is copper.', store: false });
  const continued = await socket.create({ input: 'Which word?', store: false, previous_response_id: unstored.response.id });
  check('Open Responses: WebSocket, continuation', answers(unstored, 'Copper.') && answers(continued, 'It was copper.'));
  const other = await connect();
  const missing = await other.create({ input: 'Which word?', store: false, previous_response_id: continued.response.id });
  check('Open Responses: WebSocket, another connection', missing.type === 'error' && missing.status === 400 && missing.error.code === 'previous_response_not_found');
  other.close();
  const ember = await socket.create({ input: 'The word is ember.', store: false });
  const unknown = { type: 'function_call_output', call_id: 'call_unknown', output: 'x' };
  const failed = await socket.create({ input: [unknown], store: false, previous_response_id: ember.response.id });
  const evicted = await socket.create({ input: 'Which word?', store: false, previous_response_id: ember.response.id });
  check('Open Responses: WebSocket, after a failure', failed.type === 'error' && evicted.error?.code === 'previous_response_not_found');
  const short = await (await post('/responses/compact', { input: [user('The word is ember.')] })).json();
  const chain = await socket.create({ input: [...short.output, user('Which word?')], store: false });
  check('Open Responses: WebSocket, compacted conversation', answers(chain, 'It was ember.'));
  for (const wrong of [{ stream: true }, { background: true }, { type: 'response.steer' }, { model: undefined }])
    check(`Open Responses: WebSocket refuses ${JSON.stringify(wrong)}`, (await socket.create({ input: 'x', ...wrong })).status === 400);
  socket.close();
  const withoutModel = await fetch(`${gateway.url}/responses/compact`, { method: 'POST', headers: { authorization: `Bearer ${token}` }, body: '{"input":"x"}' });
  check('Open Responses: compaction needs a model', withoutModel.status === 400);
  await gateway.stop('Open Responses');
};
