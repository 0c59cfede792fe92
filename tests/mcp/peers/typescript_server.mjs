// A server of the TypeScript SDK 2 (@modelcontextprotocol/server): typescript_server.mjs stdio | http PORT
import { createServer } from 'node:http';
import { acceptedContent, createMcpHandler, inputRequired, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { z } from 'zod';
import { offer, question, text } from './offer.mjs';

const make = () =>
    offer(new McpServer({ name: 'typescript-peer', version: '2' }), {
        shape: (types) => z.object(types),
        signal: (context) => context.mcpReq.signal,
        progress: async (context, params) => {
            const progressToken = context.mcpReq._meta?.progressToken;
            if (progressToken !== undefined) await context.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, ...params } });
        },
        ask: async (context) => {
            const answer = acceptedContent(context.mcpReq.inputResponses, 'name');
            if (answer) return text(`Hello, ${answer.name}`);
            return inputRequired({ inputRequests: { name: inputRequired.elicit({ message: 'Your name?', requestedSchema: question }) } });
        }
    });

if (process.argv[2] === 'stdio') {
    serveStdio(make);
} else {
    createServer(toNodeHandler(createMcpHandler(make))).listen(Number(process.argv[3]), '127.0.0.1');
}
