"""A client of the official Python SDK: python_client.py PLAN MODE URL [TOKEN] | PROGRAM ARGUMENT... tries a server and prints the results as JSON.

MODE is "auto" (2026-07-28 if the server speaks it) or "legacy". PLAN is explained in run_peers.py.
"""
import asyncio
import json
import sys

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import ElicitResult

plan, mode, place = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3:]
results = {}


async def answer(_context, params):
    properties = params.requested_schema.get("properties", {})
    content = {"name": "Ann"} if "name" in properties else {}
    for name, schema in properties.items():
        values = schema.get("enum") or [one["const"] for one in schema.get("oneOf", [])]
        if name not in content and values:
            content[name] = values[0]
        elif schema.get("type") == "boolean":
            content[name] = True
    return ElicitResult(action="accept", content=content)


def text(result):
    return " ".join(getattr(block, "text", "") for block in result.content)


async def call(client, feature, **options):
    name, arguments = plan[feature][:2]
    return await client.call_tool(name, arguments, **options)


async def try_list(client):
    assert (await client.list_tools()).tools


async def try_call(client):
    result = await call(client, "call")
    assert not result.is_error and plan["call"][2] in text(result), result


async def try_error(client):
    result = await call(client, "error")
    assert result.is_error, result
    try:
        result = await client.call_tool("no_such_tool", {})
        assert result.is_error, result
    except Exception as error:  # an error response, which the SDK raises
        assert "no_such_tool" in str(error), error


async def try_progress(client):
    seen = []

    async def note(progress, total, message):
        seen.append((progress, total, message))

    await call(client, "progress", progress_callback=note)
    assert len(seen) >= 2, seen


async def try_resources(client):
    assert (await client.list_resources()).resources
    assert (await client.read_resource(plan["resources"])).contents


async def try_prompts(client):
    assert (await client.list_prompts()).prompts
    assert (await client.get_prompt(*plan["prompts"])).messages


async def try_elicitation(client):
    result = await call(client, "elicitation")
    assert not result.is_error and plan["elicitation"][2] in text(result), result


async def try_cancellation(client):
    waiting = asyncio.create_task(call(client, "cancellation"))
    await asyncio.sleep(0.3)
    waiting.cancel()
    try:
        await waiting
    except asyncio.CancelledError:
        pass
    for _ in range(50):
        result = await client.call_tool(plan["cancellation"][2], {})
        if "yes" in text(result):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the server has not noticed")


async def main():
    if not place[0].startswith("http"):
        server = stdio_client(StdioServerParameters(command=place[0], args=place[1:]))
    elif len(place) == 1:
        server = place[0]
    else:
        server = streamable_http_client(place[0], http_client=create_mcp_http_client(headers={"Authorization": f"Bearer {place[1]}"}))
    async with Client(server, mode=mode, elicitation_callback=answer) as client:
        results["revision"] = client.protocol_version
        for feature in ("list", "call", "error", "progress", "resources", "prompts", "elicitation", "cancellation"):
            if feature not in plan:
                continue
            try:
                async with asyncio.timeout(10):
                    await globals()[f"try_{feature}"](client)
                results[feature] = "ok"
            except Exception as error:
                results[feature] = f"{type(error).__name__}: {error}"[:300]


asyncio.run(main())
print(json.dumps(results))
