// codex as a client of a gateway: its own tools run a command, and a second prompt continues its conversation.
import fs from 'node:fs';
import path from 'node:path';
import { calls, check, model, run, start, token } from './gateway.mjs';

export const judge = async ({ program, codex }) => {
  const command = { cmd: 'echo made > made.txt; cat made.txt' };
  const gateway = await start(program, [calls({ exec_command: command }), 'It is made.', 'It was made.']);
  const home = path.join(gateway.home, 'codex');
  const work = path.join(gateway.home, 'work');
  fs.mkdirSync(home);
  fs.mkdirSync(work);
  fs.writeFileSync(
    path.join(home, 'config.toml'),
    `model = "${model}"\nmodel_provider = "gateway"\n[model_providers.gateway]\nname = "CubePi"\nbase_url = "${gateway.url}"\n` +
      'env_key = "CUBEPI_HTTP_TOKEN"\nwire_api = "responses"\nrequest_max_retries = 0\nstream_max_retries = 0\n',
  );
  const options = { cwd: work, env: { PATH: process.env.PATH, HOME: gateway.home, CODEX_HOME: home, CUBEPI_HTTP_TOKEN: token } };
  // The command is the one above: codex does not need its own sandbox for it.
  const flags = ['--json', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox'];
  const first = await run(process.execPath, [codex, 'exec', ...flags, 'make it'], options);
  const made = path.join(work, 'made.txt');
  check('codex: its tool runs', fs.existsSync(made) && fs.readFileSync(made, 'utf8') === 'made\n');
  check('codex: answer', first.status === 0 && first.output.includes('"text":"It is made."'));
  const next = await run(process.execPath, [codex, 'exec', 'resume', '--last', ...flags, 'and now?'], options);
  check('codex: next prompt', next.status === 0 && next.output.includes('"text":"It was made."'));
  if (first.status || next.status) console.log(first.output, next.output);
  await gateway.stop('codex');
};
