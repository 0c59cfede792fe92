// telegram-test-api on a free port of 127.0.0.1, with one user of a private chat.
//   node telegram_server.mjs DIRECTORY_WITH_NODE_MODULES
// prints {"url": ...}. For each line {"say": TEXT} of its standard input the user sends the text, and the bot's new messages are
// printed as a line. It exits at the end of its standard input.
import { createRequire } from 'node:module';
import net from 'node:net';
import path from 'node:path';
import readline from 'node:readline';

const require = createRequire(path.resolve(process.argv[2], 'package.json'));
const TelegramServer = require('telegram-test-api');

const free = net.createServer();
const port = await new Promise((resolve) => {
    free.listen(0, '127.0.0.1', () => resolve(free.address().port));
});
await new Promise((resolve) => free.close(resolve));

const server = new TelegramServer({ port, host: '127.0.0.1' });
await server.start();
console.log(JSON.stringify({ url: server.config.apiURL }));

const client = server.getClient('42:token-of-the-test', { timeout: 60000 });
for await (const line of readline.createInterface({ input: process.stdin })) {
    await client.sendMessage(client.makeMessage(JSON.parse(line).say));
    const updates = await client.getUpdates();
    const messages = updates.result.map(({ message }) => ({ text: message.text, entities: message.entities }));
    console.log(JSON.stringify(messages));
}
process.exit(0);
