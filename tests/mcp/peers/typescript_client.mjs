// A client of the TypeScript SDK 2: typescript_client.mjs PLAN MODE URL [TOKEN] | PROGRAM ARGUMENT... (MODE: "auto" or "legacy")
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { answer, attempt, headers } from './attempt.mjs';

const [plan, mode, ...place] = process.argv.slice(2);
const client = new Client(
    { name: 'typescript-peer', version: '2' },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } }
);
client.setRequestHandler('elicitation/create', async (request) => answer(request.params));
await client.connect(
    place[0].startsWith('http')
        ? new StreamableHTTPClientTransport(new URL(place[0]), { requestInit: headers(place[1]) })
        : new StdioClientTransport({ command: place[0], args: place.slice(1) })
);
const results = await attempt(client, JSON.parse(plan), (name, args, options) => client.callTool({ name, arguments: args }, options));
console.log(JSON.stringify({ revision: client.getNegotiatedProtocolVersion?.() ?? '', ...results }));
await client.close();
process.exit(0);
