// HttpAgent of @ag-ui/client as a client of a gateway. It checks every stream: the schema of each event (enforceEvents), and their order
// (verifyEvents).
import { HttpAgent } from '@ag-ui/client';
import { calls, check, start, token } from './gateway.mjs';

const todo = (status) => ({ write_todos: { todos: [{ content: 'Write it.', status }] } });

export const judge = async ({ program }) => {
  // The client reports what it had to remove from an event.
  const warnings = [];
  console.warn = (...text) => warnings.push(text.join(' '));
  console.error = () => {};  // it also throws what it reports here
  const gateway = await start(program, [
    { content: [{ type: 'thinking', thinking: 'Let us see.' }, { type: 'text', text: 'Hello.' }] },
    'Again.',
    calls({ write: { path: 'new.txt', content: 'hello' } }), 'Written.',
    calls({ write: { path: 'other.txt', content: 'hello' } }), 'Not written.',
    { stop_reason: 'tool_use', content: [{ type: 'text', text: 'I plan.' }, ...calls(todo('in_progress')).content] }, calls(todo('completed')), 'Planned.',
    calls({ subagent: { prompt: 'Read it.', name: 'reader' } }), 'I have read it.', 'It was read.',
    calls({ clock: { zone: 'UTC' } }), 'It is noon.',
    calls({ subagent: { prompt: 'Write it.', name: 'writer' } }), calls({ write: { path: 'sub.txt', content: 'x' } }), 'Sub is done.', 'All is done.',
    calls({ ask_user: { questions: [{ key: 'color', prompt: 'Which color?', options: [{ label: 'Red', value: 'red' }, { label: 'Blue', value: 'blue' }] }] } }), 'Red it is.',
  ]);
  const agent = (threadId) =>
    new HttpAgent({ url: `${gateway.url}/ag-ui`, threadId, headers: { authorization: `Bearer ${token}` } });
  const run = async (one, text, parameters = {}) => {
    const events = [];
    if (text) one.addMessage({ id: `u${one.messages.length}`, role: 'user', content: text });
    try {
      const result = await one.runAgent({ forwardedProps: { user: 'olga' }, ...parameters }, { onEvent: ({ event }) => void events.push(event) });
      return { events, result, types: events.map((event) => event.type).join(' '), last: events.at(-1) };
    } catch (error) {
      return { events, error, types: '', last: events.at(-1) };
    }
  };
  const text = (one) => one.messages.at(-1)?.content;

  const ann = agent('ann');
  const first = await run(ann, 'hello');
  check('HttpAgent: text', text(ann) === 'Hello.' && first.last?.outcome?.type === 'success' && first.last.usage[0].outputTokens > 0);
  check('HttpAgent: reasoning', ann.messages.some((message) => message.role === 'reasoning' && message.content === 'Let us see.'));
  await run(ann, 'again');
  check('HttpAgent: second run of a thread', text(ann) === 'Again.' && ann.messages.filter((message) => message.role === 'user').length === 2);

  const asked = await run(ann, 'write it');
  const [interrupt] = ann.pendingInterrupts;
  check('HttpAgent: a question is an interrupt', interrupt?.reason === 'tool_call' && asked.last.outcome.type === 'interrupt' &&
    asked.events.some((event) => event.type === 'TOOL_CALL_START' && event.toolCallId === interrupt.toolCallId && event.toolCallName === 'write'));
  const other = agent('ann');
  const refused = await run(other, 'another message');
  check('HttpAgent: a thread that waits takes no message', refused.last?.type === 'RUN_ERROR' && refused.events.some((event) =>
    event.type === 'CUSTOM' && event.value[0].id === interrupt.id));
  const answer = (one, payload, status = 'resolved') => ({ resume: one.pendingInterrupts.map(({ id }) => ({ interruptId: id, status, payload })) });
  const resumed = await run(ann, '', answer(ann, { approved: true }));
  check('HttpAgent: resume continues the call', text(ann) === 'Written.' && !resumed.types.includes('TOOL_CALL_START') &&
    resumed.events.some((event) => event.type === 'TOOL_CALL_RESULT' && event.toolCallId === interrupt.toolCallId));
  const late = await run(ann, '', { resume: [{ interruptId: interrupt.id, status: 'resolved', payload: { approved: true } }] });
  check('HttpAgent: a late answer is refused', late.last?.type === 'RUN_ERROR');
  await run(ann, 'write the other');
  const denied = await run(ann, '', answer(ann, undefined, 'cancelled'));
  check('HttpAgent: a cancelled approval is a denial', text(ann) === 'Not written.' && denied.last.outcome.type === 'success');

  const bob = agent('bob');
  bob.state = { theme: 'dark' };
  const planned = await run(bob, 'plan');
  check('HttpAgent: to-dos are the state', planned.types.includes('STATE_SNAPSHOT') && planned.types.includes('STATE_DELTA') &&
    bob.state.theme === 'dark' && bob.state.todos[0].status === 'completed' && text(bob) === 'Planned.');
  const delegated = await run(bob, 'read');
  check('HttpAgent: sub-agents', /SUBAGENT_STARTED .*SUBAGENT_FINISHED/.test(delegated.types) && text(bob) === 'It was read.');

  const tools = [{ name: 'clock', description: 'Tells it.', parameters: { type: 'object', properties: { zone: { type: 'string' } } } }];
  const called = await run(bob, 'time', { tools });
  const [call] = called.last?.outcome?.pendingToolCallIds ?? [];
  check('HttpAgent: a tool of the client is pending', call !== undefined && called.types.split(' ').filter((type) => type === 'TOOL_CALL_START').length === 1);
  bob.addMessage({ id: 'result', role: 'tool', toolCallId: call, content: 'noon' });
  const told = await run(bob, '', { tools });
  check('HttpAgent: the result of the client continues the run', text(bob) === 'It is noon.' && !told.types.includes('TOOL_CALL'));

  const suspended = await run(bob, 'delegate');
  check('HttpAgent: a sub-agent asks', bob.pendingInterrupts[0]?.subagentRunId !== undefined && suspended.types.includes('SUBAGENT_FINISHED'));
  await run(bob, '', answer(bob, { approved: true }));
  check('HttpAgent: its answer continues both', text(bob) === 'All is done.');
  await run(bob, 'ask');
  const [question] = bob.pendingInterrupts;
  const chosen = await run(bob, '', answer(bob, { color: 'red' }));
  check('HttpAgent: a question of the model is answered', question?.reason === 'input_required' && text(bob) === 'Red it is.' &&
    question.responseSchema.properties.color.enum.join() === 'red,blue' && !chosen.types.includes('TOOL_CALL_START'));

  const wrong = new HttpAgent({ url: `${gateway.url}/ag-ui`, headers: { authorization: 'Bearer another-token-of-16' } });
  check('HttpAgent: wrong token', (await run(wrong, 'x')).error?.status === 401);
  check('HttpAgent: no event is repaired', warnings.length === 0);
  if (warnings.length) console.log(warnings);
  await gateway.stop('HttpAgent');
};
