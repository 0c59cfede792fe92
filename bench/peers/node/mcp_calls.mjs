// bench/mcp_calls.cpp with the official TypeScript SDK: mcp_calls.mjs server [PORT] | measure CALLS SERVERS SERVER_TO_ATTACH
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { z } from 'zod';

function makeServer() {
    const server = new McpServer({ name: 'add', version: '1' });
    server.registerTool('add', { description: 'Adds two numbers.', inputSchema: z.object({ a: z.number(), b: z.number() }) }, async ({ a, b }) => ({
        content: [{ type: 'text', text: String(a + b) }]
    }));
    return server;
}

async function connected(transport) {
    const client = new Client({ name: 'bench', version: '1' }, { versionNegotiation: { mode: 'auto' } });
    await client.connect(transport);
    return client;
}

async function timeOfACall(client, calls) {
    let begin = 0;
    const warmUp = Math.floor(calls / 10);
    for (let i = 0; i < calls + warmUp; ++i) {
        if (i === warmUp) begin = performance.now();
        await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } });
    }
    const us = ((performance.now() - begin) * 1000) / calls;
    await client.close();
    return us;
}

const [mode, first, second, program] = process.argv.slice(2);
const self = fileURLToPath(import.meta.url);
if (mode === 'server' && first === undefined) {
    serveStdio(makeServer);
} else if (mode === 'server') {
    const server = createServer(toNodeHandler(createMcpHandler(makeServer)));
    server.listen(Number(first), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
} else {
    const stdio = await timeOfACall(await connected(new StdioClientTransport({ command: process.execPath, args: [self, 'server'] })), Number(first));
    const child = spawn(process.execPath, [self, 'server', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [url] = await new Promise((resolve) => createInterface(child.stdout).once('line', (line) => resolve([line])));
    const http = await timeOfACall(await connected(new StreamableHTTPClientTransport(new URL(url))), Number(first));
    child.kill();
    // The servers to attach are those that our client attaches, so that only the clients differ.
    const begin = performance.now();
    const clients = await Promise.all(
        Array.from({ length: Number(second) }, async () => {
            const client = await connected(new StdioClientTransport({ command: program, args: ['server'] }));
            await client.listTools();
            return client;
        })
    );
    const attach = performance.now() - begin;
    await Promise.all(clients.map((client) => client.close()));
    console.log(JSON.stringify({ stdio, http, attach }));
    process.exit(0);
}
