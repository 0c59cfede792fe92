// A server of the TypeScript SDK 1 (@modelcontextprotocol/sdk), which has sessions: typescript_older_server.mjs stdio | http PORT
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { offer, question, text } from './offer.mjs';

function make() {
    const server = new McpServer({ name: 'typescript-older-peer', version: '1' });
    return offer(server, {
        shape: (types) => types,
        signal: (context) => context.signal,
        progress: async (context, params) => {
            const progressToken = context._meta?.progressToken;
            if (progressToken !== undefined) await context.sendNotification({ method: 'notifications/progress', params: { progressToken, ...params } });
        },
        ask: async () => {
            const answer = await server.server.elicitInput({ message: 'Your name?', requestedSchema: question });
            return text(`Hello, ${answer.content?.name}`);
        }
    });
}

const transports = new Map();
async function handle(request, response) {
    const id = request.headers['mcp-session-id'];
    let transport = transports.get(id);
    if (!transport && id) return response.writeHead(404).end();
    if (!transport) {
        transport = new StreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            onsessioninitialized: (made) => transports.set(made, transport)
        });
        await make().connect(transport);
    }
    await transport.handleRequest(request, response);
}

if (process.argv[2] === 'stdio') {
    await make().connect(new StdioServerTransport());
} else {
    createServer(handle).listen(Number(process.argv[3]), '127.0.0.1');
}
