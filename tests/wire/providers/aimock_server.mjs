// @copilotkit/aimock on an ephemeral port of 127.0.0.1, with the answers for aimock_*_test.cpp.
//   node aimock_server.mjs DIRECTORY_WITH_NODE_MODULES
// prints {"url": ...}. It exits at the end of its standard input.
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const entry = path.join(process.argv[2], 'node_modules/@copilotkit/aimock/dist/index.js');
const { LLMock } = await import(pathToFileURL(entry).href);

const mock = new LLMock({ port: 0, host: '127.0.0.1' });
mock.addFixtures([
    { match: { userMessage: 'hello' }, response: { content: 'Hello from the mock, nice to meet you.' } },
    { match: { userMessage: 'think' }, response: { content: 'Yes.', reasoning: 'Let me see.' } },
    {
        match: { userMessage: 'weather', hasToolResult: false },
        response: { toolCalls: [{ name: 'weather', arguments: '{"city":"Paris"}', id: 'call_w' }] },
    },
    { match: { userMessage: 'weather', hasToolResult: true }, response: { content: 'It is 21.5 degrees.' } },
    {
        match: { userMessage: 'both' },
        response: {
            content: 'Doing both.',
            toolCalls: [
                { name: 'weather', arguments: '{"city":"Paris"}', id: 'call_1' },
                { name: 'weather', arguments: '{"city":"Oslo"}', id: 'call_2' },
            ],
        },
    },
    {
        match: { userMessage: 'limited' },
        response: { error: { message: 'Slow down', type: 'rate_limit_error', code: 'rate_limit_exceeded' }, status: 429, retryAfter: 7 },
    },
    { match: { userMessage: 'broken' }, response: { error: { message: 'It broke', type: 'server_error' }, status: 500 } },
    {
        match: { userMessage: 'teapot', endpoint: 'image' },
        response: { images: [{ b64Json: 'QUJD', revisedPrompt: 'A nice teapot' }, { url: 'https://cdn.example/2.png' }] },
    },
    {
        match: { userMessage: 'no paint', endpoint: 'image' },
        response: { error: { message: 'Slow down', type: 'rate_limit_error', code: 'rate_limit_exceeded' }, status: 429 },
    },
    { match: { userMessage: 'spilt', endpoint: 'image' }, response: { error: { message: 'It broke', type: 'server_error' }, status: 500 } },
    { match: { userMessage: 'cut' }, response: { content: 'a'.repeat(400) }, chunkSize: 10, latency: 5, truncateAfterChunks: 8 },
]);
// A connection that breaks after each of the answer's events.
for (let n = 1; n <= 24; ++n) {
    mock.addFixtures([
        { match: { userMessage: `torn text ${n}.` }, response: { content: 'abcdefghi '.repeat(6) }, chunkSize: 10, latency: 3, truncateAfterChunks: n },
        {
            match: { userMessage: `torn call ${n}.` },
            response: { content: 'Looking.', toolCalls: [{ name: 'weather', arguments: '{"city":"Paris, France"}', id: 'call_b' }] },
            chunkSize: 4,
            latency: 3,
            truncateAfterChunks: n,
        },
    ]);
}
await mock.start();
process.stdout.write(JSON.stringify({ url: mock.url }) + '\n');
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
