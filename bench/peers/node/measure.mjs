// Measurements of every Node peer: the "2+1" run, constructing an agent, bytes in use, one delta of a long answer. Prints one
// JSON object.
// Run with --expose-gc. A peer has
//   agent()         a new agent with its tool, ready for a prompt
//   script(runs)    the model is to answer that many "2+1" runs; long(deltas): one answer of so many deltas
//   run(agent)      one prompt; each event goes to one listener; resolves to what the caller must keep for the history
//   events          how many events the listener got so far
//   servesAll       one agent serves all sessions: a session is then the result of `run`, without the agent

const batches = 30;
const enough = 3; // seconds of work in batches, five of them at least; the first ones warm the compiler up
const runs = 100;
const sessions = 500;
const deltas = 10_000;
export const answer = "ten short deltas, of four letters each!!";

/// Starts a measurement: wall time, or the CPU time of this process if that is less, as on a busy machine.
function clock() {
  globalThis.gc();
  const wall = process.hrtime.bigint();
  const cpu = process.cpuUsage();
  return () => {
    const used = process.cpuUsage(cpu);
    return Math.min(Number(process.hrtime.bigint() - wall) * 1e-9, (used.user + used.system) * 1e-6);
  };
}

async function heap() {
  await new Promise((resolve) => setTimeout(resolve, 10)); // lets pending tasks run first
  globalThis.gc();
  globalThis.gc();
  return process.memoryUsage().heapUsed;
}

async function bestRun(peer) {
  let best = Infinity;
  for (let batch = 0, worked = 0; batch < 5 || (batch < batches && worked < enough); ++batch) {
    const agents = Array.from({ length: runs }, () => peer.agent());
    peer.script(runs);
    peer.events = 0;
    const seconds = clock();
    for (const agent of agents) await peer.run(agent);
    const took = seconds();
    worked += took;
    best = Math.min(best, took / runs);
  }
  return [best * 1e6, peer.events / runs];
}

function bestConstruct(peer) {
  let best = Infinity;
  let kept;
  for (let batch = 0; batch < batches; ++batch) {
    const seconds = clock();
    for (let i = 0; i < runs; ++i) kept = peer.agent();
    best = Math.min(best, seconds() / runs);
  }
  return kept ? best * 1e6 : NaN;
}

async function keptBytes(peer) {
  const before = await heap();
  const agents = Array.from({ length: sessions }, () => peer.agent());
  const idle = ((await heap()) - before) / sessions;
  const kept = [];
  for (const agent of agents) {
    peer.script(1);
    kept.push(await peer.run(agent));
  }
  const session = ((await heap()) - before) / sessions;
  if (agents.length + kept.length !== 2 * sessions) throw new Error("lost sessions");
  return [idle, peer.servesAll ? session - idle : session];
}

async function bestDelta(peer) {
  let best = Infinity;
  for (let batch = 0; batch < 3; ++batch) {
    const agent = peer.agent();
    peer.long(deltas);
    const seconds = clock();
    await peer.run(agent);
    best = Math.min(best, seconds() / deltas);
  }
  return best * 1e6;
}

export async function measure(peer) {
  peer.script(1);
  await peer.run(peer.agent());
  const [run, events] = await bestRun(peer);
  const construct = bestConstruct(peer);
  const delta = await bestDelta(peer);
  await keptBytes(peer);
  // Twice, so that objects created once for all agents are not counted.
  const [idle, session] = await keptBytes(peer);
  console.log(JSON.stringify({ run, events, construct, idle, session, delta }));
}
