"""bench/mcp_calls.cpp with the official Python SDK: mcp_calls.py server [PORT] | measure CALLS SERVERS SERVER_TO_ATTACH"""
import asyncio
import json
import socket
import subprocess
import sys
import time


def serve(arguments):
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("add")

    @server.tool()
    def add(a: int, b: int) -> str:
        """Adds two numbers."""
        return str(a + b)

    if arguments:
        server.run("streamable-http", host="127.0.0.1", port=int(arguments[0]))
    else:
        server.run("stdio")


async def time_of_a_call(client, calls):
    warm_up = calls // 10
    begin = 0
    for i in range(calls + warm_up):
        if i == warm_up:
            begin = time.perf_counter()
        await client.call_tool("add", {"a": 2, "b": 3})
    return (time.perf_counter() - begin) * 1e6 / calls


async def measure(calls, servers, program):
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=[__file__, "server"]))) as client:
        stdio = await time_of_a_call(client, calls)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    child = subprocess.Popen([sys.executable, __file__, "server", str(port)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            http = await time_of_a_call(client, calls)
    finally:
        child.kill()
        child.wait()

    async def attach(ready, done):
        async with Client(stdio_client(StdioServerParameters(command=program, args=["server"]))) as client:
            await client.list_tools()
            ready.release()
            await done.wait()

    # The servers to attach are those that our client attaches, so that only the clients differ.
    ready, done = asyncio.Semaphore(0), asyncio.Event()
    begin = time.perf_counter()
    tasks = [asyncio.create_task(attach(ready, done)) for _ in range(servers)]
    for _ in range(servers):
        await ready.acquire()
    attached = (time.perf_counter() - begin) * 1e3
    done.set()
    await asyncio.gather(*tasks)
    return {"stdio": stdio, "http": http, "attach": attached}


if sys.argv[1] == "server":
    serve(sys.argv[2:])
else:
    print(json.dumps(asyncio.run(measure(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))))
