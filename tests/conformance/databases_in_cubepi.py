"""Reads a thread of ours with CubePi's own checkpointer and continues it; see tools/check-interchange.

usage: databases_in_cubepi.py postgres|mysql SOCKET DATABASE

SOCKET is the directory of PostgreSQL's socket, or MySQL's socket. The caller checks what this program has written.
"""

import asyncio
import sys

from cubepi.providers.base import AssistantMessage, TextContent, ToolCall, ToolResultMessage, UserMessage

THREAD = "interchange"


def expect(condition, what):
    if not condition:
        sys.exit(f"databases_in_cubepi: expected {what}")


async def forward(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except asyncio.CancelledError:
        pass  # the program ends
    writer.close()


async def serve(path):
    """Forwards connections of a port on loopback to the socket, because CubePi's client of MySQL takes a host and a port."""

    async def accept(reader, writer):
        from_server, to_server = await asyncio.open_unix_connection(path)
        await asyncio.gather(forward(reader, to_server), forward(from_server, writer), return_exceptions=True)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


async def use(store):
    async with store:
        data = await store.load(THREAD)
        expect(data is not None, "a thread")
        roles = [message.role for message in data.messages]
        expect(roles == ["user", "assistant", "tool_result"], f"three messages of ours, not {roles}")
        user, assistant, result = data.messages
        expect(isinstance(user, UserMessage) and user.content[0].text == "Größe \U0001f600?", "the text of the prompt")
        expect(user.run_id == "ours", "the run of a message")
        expect(isinstance(assistant, AssistantMessage), "an answer")
        call = assistant.content[-1]
        expect(isinstance(call, ToolCall) and call.name == "look" and call.arguments == {"b": 1, "a": [2]}, f"the call, not {call!r}")
        expect(isinstance(result, ToolResultMessage) and result.tool_call_id == call.id, "the result of the call")
        expect(data.extra.get("note") == {"z": 1}, "the extra")
        request = await store.load_pending_request(THREAD)
        expect(request is not None and request.question_id == "q1", "the pending request")
        await store.save_pending_request(THREAD, None)
        await store.claim_run(THREAD, "theirs")
        text = [TextContent(text="from CubePi")]
        await store.append(THREAD, [UserMessage(content=text, run_id="theirs", metadata={"k": "v"})])
        await store.mark_run_complete(THREAD, "theirs")
        await store.save_extra(THREAD, {"theirs": True})


async def main():
    kind, socket, database = sys.argv[1:]
    if kind == "postgres":
        from cubepi.checkpointer.postgres import PostgresCheckpointer

        await use(PostgresCheckpointer(f"postgresql://cubepi@/{database}?host={socket}"))
        return
    from cubepi.checkpointer.mysql import MySQLCheckpointer

    server, port = await serve(socket)
    await use(MySQLCheckpointer(f"mysql://cubepi@127.0.0.1:{port}/{database}"))
    server.close()


asyncio.run(main())
