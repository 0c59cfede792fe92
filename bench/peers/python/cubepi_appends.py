"""Appends of CubePi to a PostgreSQL server of its own, alone and with 64 sessions at once. Prints JSON.

usage: cubepi_appends.py SCHEMA

SCHEMA is the SQL of CubePi's tables. The server has the settings of that of the benchmarks, and is reached through a Unix socket.
"""

import asyncio
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import asyncpg
from cubepi.checkpointer.postgres import PostgresCheckpointer
from cubepi.providers.base import TextContent, UserMessage

SETTINGS = ("listen_addresses=", "fsync=off", "full_page_writes=off", "max_connections=200", "shared_buffers=32MB",
            "max_locks_per_transaction=256", "lc_messages=C")
BATCHES = 5
APPENDS = 200  # of a batch
SESSIONS = 64
ROUNDS = 10  # of a batch of 64 sessions
TEXT = "a message of ordinary length, as users write them"


@contextlib.contextmanager
def server():
    """The directory of the socket of a new server, which ends with the block. It does not run as root."""
    programs = subprocess.run(["pg_config", "--bindir"], check=True, capture_output=True, text=True).stdout.strip()
    user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        quiet = {"cwd": directory, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **user}
        subprocess.run([f"{programs}/initdb", "-D", f"{directory}/data", "-A", "trust", "-U", "cubepi", "-E", "UTF8",
                        "--locale=C.UTF-8", "--no-sync"], check=True, **quiet)
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        process = subprocess.Popen([f"{programs}/postgres", "-D", f"{directory}/data", "-k", directory, *settings], **quiet)
        try:
            yield directory
        finally:
            process.send_signal(2)  # SIGINT: without waiting for clients
            process.wait()


async def connected(url):
    """A connection as soon as the server accepts one."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return await asyncpg.connect(url)
        except (OSError, asyncpg.CannotConnectNowError):
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


def message():
    return UserMessage(content=[TextContent(text=TEXT)], run_id="run-1")


async def best_of_batches(appends, batch):
    """Microseconds of one append in the fastest batch. Wall time: the work of the server counts, as in ours."""
    best = float("inf")
    for _ in range(BATCHES):
        begin = time.perf_counter()
        await batch()
        best = min(best, time.perf_counter() - begin)
    return best / appends * 1e6


async def measure(directory, schema):
    url = f"postgresql://cubepi@/postgres?host={directory}"
    connection = await connected(url)
    await connection.execute(pathlib.Path(schema).read_text())
    await connection.close()
    async with PostgresCheckpointer(url) as store:

        async def alone():
            for _ in range(APPENDS):
                await store.append("t", [message()])

        async def together():
            for _ in range(ROUNDS):
                await asyncio.gather(*(store.append(f"t{i}", [message()]) for i in range(SESSIONS)))

        return {"append": await best_of_batches(APPENDS, alone), "append64": await best_of_batches(ROUNDS * SESSIONS, together)}


with server() as where:
    print(json.dumps(asyncio.run(measure(where, sys.argv[1]))))
