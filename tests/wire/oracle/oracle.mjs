// The vendors' own SDKs as oracles: decodes the same bytes with them.
//   node oracle.mjs DIRECTORY_WITH_NODE_MODULES
// prints {"ready": true}, then answers each line {"provider", "status", "headers", "body", "cut"} by a line {"message"} (what
// the SDK assembled) or {"error"} (how it failed). It exits at the end of its standard input.
import path from 'node:path';
import readline from 'node:readline';
import { pathToFileURL } from 'node:url';

const load = (entry) => import(pathToFileURL(path.join(process.argv[2], 'node_modules', entry)).href);
const { default: Anthropic } = await load('@anthropic-ai/sdk/index.mjs');
const { default: OpenAI } = await load('openai/index.mjs');

/// A fetch that returns the recorded answer in small pieces, and breaks at the end of an interrupted one.
function recorded({ status = 200, headers = {}, body, cut = false }) {
    const bytes = new TextEncoder().encode(body);
    return async () => {
        let at = 0;
        const stream = new ReadableStream({
            pull(controller) {
                if (at < bytes.length) {
                    controller.enqueue(bytes.slice(at, (at += 61)));
                } else if (cut) {
                    controller.error(new TypeError('terminated'));
                } else {
                    controller.close();
                }
            },
        });
        return new Response(stream, { status, headers: { 'content-type': 'text/event-stream', ...headers } });
    };
}

const asked = { model: 'm', messages: [{ role: 'user', content: 'x' }] };
const oracles = {
    anthropic: (options) => new Anthropic(options).messages.stream({ ...asked, max_tokens: 1 }).finalMessage(),
    'openai-chat': (options) => new OpenAI(options).chat.completions.stream(asked).finalChatCompletion(),
    'openai-responses': (options) => new OpenAI(options).responses.stream({ model: 'm', input: 'x' }).finalResponse(),
};

async function answer(line) {
    const recording = JSON.parse(line);
    try {
        const options = { apiKey: 'sk-test', maxRetries: 0, logLevel: 'off', fetch: recorded(recording) };
        return { message: await oracles[recording.provider](options) };
    } catch (error) {
        return { error: `${error.constructor.name}: ${error.message}` };
    }
}

// Unhandled rejections of the SDKs must not end this program.
process.on('unhandledRejection', () => {});
process.stdout.write(JSON.stringify({ ready: true }) + '\n');
for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(JSON.stringify(await answer(line)) + '\n');
}
