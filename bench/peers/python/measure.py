"""Measurements of every Python peer: the "2+1" run, constructing an agent, bytes in use, one delta of a long answer.

Prints one JSON object.

A peer is an object with
    agent()          a new agent with its tool, ready for a prompt
    script(runs)     the model is to answer that many "2+1" runs; long(deltas): one answer of so many deltas
    await run(agent) one prompt; each event goes to one listener; returns what the caller must keep for the history
    events           how many events the listener got so far
    serves_all       one agent serves all sessions: a session is then the result of `run`, without the agent
"""

import asyncio
import gc
import json
import time
import tracemalloc

BATCHES = 30
ENOUGH = 3.0  # seconds of work in batches, five of them at least
RUNS = 40
AGENTS = 200
DELTAS = 10_000
ANSWER = "ten short deltas, of four letters each!!"
PIECES = [ANSWER[at:at + 4] for at in range(0, len(ANSWER), 4)]


class Clock:
    """Time since its construction: wall time, or the CPU time of this process if that is less, as on a busy machine."""

    def __init__(self):
        gc.collect()
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def seconds(self):
        return min(time.perf_counter() - self.wall, time.process_time() - self.cpu)


async def best_run(peer):
    """Microseconds of one run, and its events; the agents are new and created before the measurement starts."""
    best, worked, batches = float("inf"), 0.0, 0
    while batches < 5 or (batches < BATCHES and worked < ENOUGH):
        agents = [peer.agent() for _ in range(RUNS)]
        peer.script(RUNS)
        peer.events = 0
        clock = Clock()
        for agent in agents:
            await peer.run(agent)
        took = clock.seconds()
        best, worked, batches = min(best, took / RUNS), worked + took, batches + 1
    return best * 1e6, peer.events / RUNS


def best_construct(peer):
    best = float("inf")
    for _ in range(5):
        clock = Clock()
        for _ in range(RUNS):
            peer.agent()
        best = min(best, clock.seconds() / RUNS)
    return best * 1e6


async def bytes_in_use(peer):
    """Bytes of an idle agent, and of a session after one run with its history, as Python's allocator counts them."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    agents = [peer.agent() for _ in range(AGENTS)]
    gc.collect()
    idle = (tracemalloc.get_traced_memory()[0] - before) / AGENTS
    results = []
    for agent in agents:
        peer.script(1)
        results.append(await peer.run(agent))
    gc.collect()
    session = (tracemalloc.get_traced_memory()[0] - before) / AGENTS
    tracemalloc.stop()
    return idle, session - idle if peer.serves_all else session


async def best_delta(peer):
    best = float("inf")
    for _ in range(3):
        agent = peer.agent()
        peer.long(DELTAS)
        clock = Clock()
        await peer.run(agent)
        best = min(best, clock.seconds() / DELTAS)
    return best * 1e6


async def all_of(peer):
    peer.script(1)
    await peer.run(peer.agent())  # creates what is created at first use
    run, events = await best_run(peer)
    construct = best_construct(peer)
    delta = await best_delta(peer)
    idle, session = await bytes_in_use(peer)
    return {"run": run, "events": events, "construct": construct, "idle": idle, "session": session, "delta": delta}


def main(peer):
    print(json.dumps(asyncio.run(all_of(peer))))
