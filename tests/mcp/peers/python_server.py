"""A server of the official Python SDK with the offer that tests/mcp/peers/run_peers.py expects: python_server.py stdio | http PORT"""
import sys
from typing import Annotated

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("python-peer")
cancelled = []


class Name(BaseModel):
    name: str


def ask_name() -> Elicit[Name]:
    return Elicit("Your name?", Name)


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fails."""
    raise ToolError("it has failed")


@server.tool()
async def steps(ctx: Context) -> str:
    """Reports two steps."""
    for step in (1, 2):
        await ctx.report_progress(step, 2, f"step {step}")
    return "done"


@server.tool()
async def wait() -> str:
    """Waits until it is cancelled."""
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        cancelled.append(True)
        raise
    return "never"


@server.tool()
def was_cancelled() -> str:
    """States whether a call of wait was cancelled."""
    return "yes" if cancelled else "no"


@server.tool()
def ask(answer: Annotated[Name, Resolve(ask_name)]) -> str:
    """Asks for a name."""
    return f"Hello, {answer.name}"


@server.resource("peer://note", mime_type="text/plain")
def note() -> str:
    return "a note"


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
