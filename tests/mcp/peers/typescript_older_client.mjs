// A client of the TypeScript SDK 1, which opens a session: typescript_older_client.mjs PLAN MODE URL [TOKEN] | PROGRAM ARGUMENT... (MODE is ignored)
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { answer, attempt, headers } from './attempt.mjs';

const [plan, , ...place] = process.argv.slice(2);
const client = new Client({ name: 'typescript-older-peer', version: '1' }, { capabilities: { elicitation: { form: {} } } });
client.setRequestHandler(ElicitRequestSchema, async (request) => answer(request.params));
let revision = '';
const transport = place[0].startsWith('http')
    ? new StreamableHTTPClientTransport(new URL(place[0]), { requestInit: headers(place[1]) })
    : new StdioClientTransport({ command: place[0], args: place.slice(1) });
const setVersion = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
    revision = version;
    setVersion?.(version);
};
await client.connect(transport);
const results = await attempt(client, JSON.parse(plan), (name, args, options) => client.callTool({ name, arguments: args }, undefined, options));
console.log(JSON.stringify({ revision, ...results }));
await client.close();
process.exit(0);
