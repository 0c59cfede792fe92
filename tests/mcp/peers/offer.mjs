// The offer that tests/mcp/peers/run_peers.py expects, for a server of either TypeScript SDK.
import { z } from 'zod';

const text = (value) => ({ content: [{ type: 'text', text: String(value) }] });
let cancelled = false;

/** `ask` is the function of the tool that asks for a name, and `shape` makes the argument of registerTool() from zod's types. */
export function offer(server, { ask, shape, progress, signal }) {
    server.registerTool('add', { description: 'Adds two numbers.', inputSchema: shape({ a: z.number(), b: z.number() }) }, async ({ a, b }) => text(a + b));
    server.registerTool('fail', { description: 'Fails.' }, async () => {
        throw new Error('it has failed');
    });
    server.registerTool('steps', { description: 'Reports two steps.' }, async (context) => {
        for (const step of [1, 2]) await progress(context, { progress: step, total: 2, message: `step ${step}` });
        return text('done');
    });
    server.registerTool('wait', { description: 'Waits until it is cancelled.' }, async (context) => {
        await new Promise((resolve) => signal(context).addEventListener('abort', resolve));
        cancelled = true;
        return text('never');
    });
    server.registerTool('was_cancelled', { description: 'States whether a call of wait was cancelled.' }, async () => text(cancelled ? 'yes' : 'no'));
    server.registerTool('ask', { description: 'Asks for a name.' }, ask);
    server.registerResource('note', 'peer://note', { mimeType: 'text/plain' }, async (uri) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'a note' }] }));
    server.registerPrompt('greet', { argsSchema: shape({ name: z.string() }) }, async ({ name }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}.` } }]
    }));
    return server;
}

export const question = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
export { text };
