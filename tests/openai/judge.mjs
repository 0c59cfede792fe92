// Tries a gateway with clients of OpenAI's protocols. Usage: node judge.mjs CUBEPI PYTHON CODEX
import path from 'node:path';
import { failures } from './gateway.mjs';

const [program, python, codex] = process.argv.slice(2);
const directory = import.meta.dirname;
for (const name of ['sdk_client', 'python_client', 'ai_client', 'ag_ui_client', 'open_responses', 'codex_client']) {
  const { judge } = await import(path.join(directory, `${name}.mjs`));
  await judge({ program, python, codex, directory });
}
process.exit(failures() ? 1 : 0);
