// The official SDK of OpenAI for Python as a client of a gateway: python_client.py.
import path from 'node:path';
import { calls, check, run, start, token } from './gateway.mjs';

export const judge = async ({ program, python, directory }) => {
  const gateway = await start(program, ['One.', 'Two.', 'Three.', 'Four.', calls({ clock: {} }), 'It is noon.', calls({ clock: {} }), 'Noon again.']);
  const tried = await run(python, [path.join(directory, 'python_client.py'), gateway.url], { env: { CUBEPI_HTTP_TOKEN: token } });
  for (const line of tried.output.trim().split('\n')) {
    const [good, name] = line.split(': ');
    if (name) check(`SDK for Python: ${name}`, good === 'ok');
  }
  check('SDK for Python: status', tried.status === 0);
  if (tried.status) console.log(tried.output);
  await gateway.stop('SDK for Python');
};
