// The cases of Open Responses (openresponses.org): basic, streaming, system prompt, tool calling, round trip of a call, image and file
// input, several turns, previous response, compaction. Each response has all members that the description requires, with their types.
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
  await gateway.stop('Open Responses');
};
