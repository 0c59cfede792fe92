// The client of the official SDK as the judge of `cubepi acp`: it validates each message of the agent. The model is a server of this
// process. Usage: node sdk_client.mjs CUBEPI
import fs from 'node:fs';
import path from 'node:path';
import * as acp from '@agentclientprotocol/sdk';
import { AGENT_METHODS, CLIENT_METHODS, checks, failures, startAgent, startModel } from './judge.mjs';

const program = process.argv[2];
const check = checks();
const model = await startModel([
  { text: 'Hello, editor.' },
  { text: 'I write. ', call: ['write', { path: 'made.txt', content: 'one\ntwo\n' }] },
  { text: 'Written.' },
  { call: ['edit', { path: 'made.txt', old_text: 'two', new_text: '2' }] },
  { text: 'Refused.' },
  { call: ['write_todos', { todos: [{ content: 'look', status: 'in_progress' }] }] },
  { call: ['write_todos', { todos: [{ content: 'look', status: 'completed' }] }] },
  { text: 'Planned.' },
  { call: ['write', { path: 'never.txt', content: 'x' }] },
  { text: 'Again.' },
]);
const { stream, work, leave } = startAgent(program, model, []);

let updates = [];
let permission = () => ({ outcome: 'cancelled' });
const client = acp
  .client({ name: 'judge' })
  .onNotification(CLIENT_METHODS.session_update, ({ params }) => { updates.push(params.update); })
  .onRequest(CLIENT_METHODS.session_request_permission, async ({ params }) => ({ outcome: await permission(params) }));
const kinds = () => new Set(updates.map((update) => update.sessionUpdate));
const text = (kind) => updates.filter((update) => update.sessionUpdate === kind).map((update) => update.content.text).join('');
const choose = (id) => (params) => {
  permission.asked = params;
  return { outcome: 'selected', optionId: id };
};

await client.connectWith(stream, async (editor) => {
  const ask = (words) => {
    updates = [];
    return editor.request(AGENT_METHODS.session_prompt, { sessionId, prompt: [{ type: 'text', text: words }] });
  };
  const made = await editor.request(AGENT_METHODS.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
    clientInfo: { name: 'judge', version: '1' },
  });
  check('initialize', made.protocolVersion === 1 && made.agentInfo.name === 'cubepi' && made.authMethods.length === 0);
  const opened = await editor.request(AGENT_METHODS.session_new, { cwd: work, mcpServers: [] });
  const { sessionId } = opened;
  check('session/new', opened.modes.currentModeId === 'ask' && opened.modes.availableModes.length === 4);
  check('options', opened.configOptions.map((option) => option.id).join() === 'mode,model');

  let end = await ask('hello');
  check('prompt', end.stopReason === 'end_turn' && text('agent_message_chunk') === 'Hello, editor.');
  check('usage, title', kinds().has('session_info_update'));

  permission = choose('allow');
  end = await ask('write a file');
  const diff = permission.asked?.toolCall.content?.[0];
  check('permission with a diff', diff?.type === 'diff' && diff.newText === 'one\ntwo\n');
  check('allowed call', fs.readFileSync(path.join(work, 'made.txt'), 'utf8') === 'one\ntwo\n');
  check('tool calls', updates.some((update) => update.sessionUpdate === 'tool_call_update' && update.status === 'completed'));

  permission = choose('reject');
  end = await ask('edit it');
  check('rejected call', fs.readFileSync(path.join(work, 'made.txt'), 'utf8') === 'one\ntwo\n' && end.stopReason === 'end_turn');
  check('failed call', updates.some((update) => update.status === 'failed'));

  end = await ask('plan');
  check('plan', kinds().has('plan') && end.stopReason === 'end_turn');

  permission = () => {
    editor.notify(AGENT_METHODS.session_cancel, { sessionId });
    return { outcome: 'cancelled' };
  };
  end = await ask('write another');
  check('cancel', end.stopReason === 'cancelled' && !fs.existsSync(path.join(work, 'never.txt')));

  await editor.request(AGENT_METHODS.session_set_mode, { sessionId, modeId: 'plan' });
  const changed = await editor.request(AGENT_METHODS.session_set_config_option, { sessionId, configId: 'mode', value: 'ask' });
  check('modes', changed.configOptions.find((option) => option.id === 'mode').currentValue === 'ask');

  const list = await editor.request(AGENT_METHODS.session_list, { cwd: work });
  check('list', list.sessions.length === 1 && list.sessions[0].sessionId === sessionId && list.sessions[0].title === 'hello');
  await editor.request(AGENT_METHODS.session_close, { sessionId });
  updates = [];
  await editor.request(AGENT_METHODS.session_load, { sessionId, cwd: work, mcpServers: [] });
  check('load', text('user_message_chunk').startsWith('hello') && text('agent_message_chunk').includes('Hello, editor.'));
  end = await ask('again');
  check('prompt after load', end.stopReason === 'end_turn' && text('agent_message_chunk') === 'Again.');
  await editor.request(AGENT_METHODS.session_resume, { sessionId, cwd: work, mcpServers: [] });
  const missing = await editor.request(AGENT_METHODS.session_load, { sessionId: 'none', cwd: work, mcpServers: [] }).catch((error) => error);
  check('unknown session', missing.code === -32002);
});
check('end of the agent', (await leave()) === 0);
model.close();
process.exit(failures() ? 1 : 0);
