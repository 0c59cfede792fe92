// Version 2 of the protocol, a draft: the client of the official SDK for it as the judge of `cubepi acp --protocol 2`, and how both sides
// agree on a version. Usage: node version_two_client.mjs CUBEPI
import fs from 'node:fs';
import path from 'node:path';
import * as one from '@agentclientprotocol/sdk';
import * as acp from '@agentclientprotocol/sdk/experimental/v2';
import { checks, failures, startAgent, startModel } from './judge.mjs';

const { AGENT_METHODS, CLIENT_METHODS } = acp;
const program = process.argv[2];
const check = checks();
const model = await startModel([
  { text: 'Hello, editor.' },
  { text: 'I write. ', call: ['write', { path: 'made.txt', content: 'one\ntwo\n' }] },
  { text: 'Written.' },
  { call: ['edit', { path: 'made.txt', old_text: 'two', new_text: '2' }] },
  { text: 'Edited.' },
  { call: ['write_todos', { todos: [{ content: 'look', status: 'in_progress' }] }] },
  { text: 'Planned.' },
  { call: ['write', { path: 'never.txt', content: 'x' }] },
  { text: 'Again.' },
]);
const info = { name: 'judge', version: '1' };

let updates = [];
let changed = () => {};
let permission = () => ({ outcome: 'cancelled' });
const client = acp
  .client({ name: 'judge' })
  .onNotification(CLIENT_METHODS.session_update, ({ params }) => {
    updates.push(params.update);
    changed();
  })
  .onRequest(CLIENT_METHODS.session_request_permission, async ({ params }) => ({ outcome: await permission(params) }));
const of = (kind) => updates.filter((update) => update.sessionUpdate === kind);
const text = (kind) => of(kind).map((update) => update.content.text).join('');
const states = () => of('state_update').map((update) => update.state + (update.stopReason ? `:${update.stopReason}` : '')).join(' ');
/** The SDK may call the handler of an update after the response that follows it. */
const idle = async () => {
  while (!of('state_update').some((update) => update.state === 'idle')) await new Promise((resolve) => { changed = resolve; });
};
const choose = (id) => (params) => {
  permission.asked = params;
  return { outcome: 'selected', optionId: id };
};

const first = startAgent(program, model, ['--protocol', '2']);
const { work } = first;
await client.connectWith(first.stream, async (editor) => {
  const ask = async (words) => {
    updates = [];
    const accepted = await editor.request(AGENT_METHODS.session_prompt, { sessionId, prompt: [{ type: 'text', text: words }] });
    await idle();
    return accepted;
  };
  const made = await editor.request(AGENT_METHODS.initialize, { protocolVersion: acp.PROTOCOL_VERSION, info, capabilities: {} });
  check('initialize', made.protocolVersion === 2 && made.info.name === 'cubepi' && made.capabilities.session.mcp.http !== undefined);
  const opened = await editor.request(AGENT_METHODS.session_new, { cwd: work, mcpServers: [] });
  const { sessionId } = opened;
  check('options', opened.configOptions.map((option) => option.configId).join() === 'mode,model' && opened.modes === undefined);

  const accepted = await ask('hello');
  check('prompt is inserted', of('user_message').length === 1 && of('user_message')[0].messageId === accepted.messageId);
  check('prompt', states() === 'running idle:end_turn' && text('agent_message_chunk') === 'Hello, editor.');
  check('ids of messages', of('agent_message_chunk').every((update) => update.messageId === of('agent_message_chunk')[0].messageId));

  permission = choose('allow');
  await ask('write a file');
  const { toolCall } = permission.asked.subject;
  check('permission', permission.asked.subject.type === 'tool_call' && permission.asked.title.length > 0);
  const added = toolCall.content[0];
  check('permission with a patch', added.changes[0].operation === 'add' && added.patch.text.includes('+one\n+two\n'));
  check('state of a question', states() === 'running requires_action running idle:end_turn');
  check('allowed call', fs.readFileSync(path.join(work, 'made.txt'), 'utf8') === 'one\ntwo\n');
  check('tool calls', of('tool_call_update').some((update) => update.status === 'completed') && of('tool_call').length === 0);

  await ask('edit it');
  const patch = permission.asked.subject.toolCall.content[0].patch.text;
  fs.writeFileSync(path.join(work, 'made.txt'), 'one\ntwo\n');
  check('patch of an edit', patch.startsWith(`diff --git ${path.join(work, 'made.txt')} `) && patch.includes('@@ -1,2 +1,2 @@\n one\n-two\n+2\n'));

  await ask('plan');
  check('plan', of('plan_update')[0]?.plan.entries[0].content === 'look');

  permission = () => {
    editor.notify(AGENT_METHODS.session_cancel, { sessionId });
    return { outcome: 'cancelled' };
  };
  await ask('write another');
  check('cancel', states().endsWith('idle:cancelled') && !fs.existsSync(path.join(work, 'never.txt')));

  const set = { sessionId, configId: 'mode', type: 'id', value: 'plan' };
  const changedOptions = await editor.request(AGENT_METHODS.session_set_config_option, set);
  check('mode as an option', changedOptions.configOptions.find((option) => option.configId === 'mode').currentValue === 'plan');
  await editor.request(AGENT_METHODS.session_set_config_option, { ...set, value: 'ask' });

  const list = await editor.request(AGENT_METHODS.session_list, { cwd: work });
  check('list', list.sessions.length === 1 && list.sessions[0].sessionId === sessionId);
  await editor.request(AGENT_METHODS.session_close, { sessionId });
  await editor.request(AGENT_METHODS.session_close, { sessionId });
  updates = [];
  await editor.request(AGENT_METHODS.session_resume, { sessionId, cwd: work, mcpServers: [], replayFrom: { type: 'start' } });
  await idle();
  check('resume with its messages', text('user_message_chunk').startsWith('hello') && text('agent_message_chunk').includes('Hello, editor.'));
  check('ids of stored messages', of('user_message_chunk')[0].messageId === accepted.messageId);
  check('state after resume', states() === 'idle');
  await ask('again');
  check('prompt after resume', text('agent_message_chunk') === 'Again.');
  updates = [];
  await editor.request(AGENT_METHODS.session_resume, { sessionId, cwd: work, mcpServers: [] });
  await idle();
  check('resume without messages', of('user_message_chunk').length === 0 && states() === 'idle');
  const missing = await editor.request(AGENT_METHODS.session_resume, { sessionId: 'none', cwd: work }).catch((error) => error);
  check('unknown session', missing.code === -32002 && missing.data.sessionId === 'none');
});
check('end of the agent', (await first.leave()) === 0);

// Without the switch the agent has version 1 only, which the client of version 2 refuses.
const second = startAgent(program, model, []);
const refused = await client
  .connectWith(second.stream, (editor) => editor.request(AGENT_METHODS.initialize, { protocolVersion: 2, info, capabilities: {} }))
  .catch((error) => error);
check('version 2 is not offered without the switch', refused instanceof Error);
await second.leave();

// An editor of version 1 gets version 1 from an agent that offers both.
const third = startAgent(program, model, ['--protocol', '2']);
await one.client({ name: 'judge' }).connectWith(third.stream, async (editor) => {
  const made = await editor.request(one.AGENT_METHODS.initialize, { protocolVersion: 1, clientCapabilities: {} });
  const opened = await editor.request(one.AGENT_METHODS.session_new, { cwd: third.work, mcpServers: [] });
  // Updates after the response must find a reader.
  await editor.request(one.AGENT_METHODS.session_close, { sessionId: opened.sessionId });
  check('version 1 from an agent with both', made.protocolVersion === 1 && opened.modes.currentModeId === 'ask');
});
check('end of the agent with both', (await third.leave()) === 0);
model.close();
process.exit(failures() ? 1 : 0);
