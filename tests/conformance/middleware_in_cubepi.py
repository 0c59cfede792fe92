"""Runs the same conversations in CubePi and in ours, in turns on one SQLite file; both must end with the same `extra`.

usage: middleware_in_cubepi.py RUNNER DIRECTORY; see tools/check-interchange
"""

import asyncio
import json
import pathlib
import subprocess
import sys

from cubepi import Agent
from cubepi.agent.types import AgentTool, AgentToolResult
from cubepi.checkpointer.sqlite import SQLiteCheckpointer
from cubepi.middleware import GoalMiddleware, TodoListMiddleware
from cubepi.providers.base import AssistantMessage, TextContent, ToolCall
from cubepi.providers.faux import FauxProvider
from pydantic import BaseModel


def call(name, arguments, more=()):
    blocks = [{"type": "tool_call", "id": "c", "name": name, "arguments": arguments}, *more]
    return {"content": blocks, "stop_reason": "tool_use"}


def todos(*states):
    names = ("pending", "in_progress", "completed")
    return {"todos": [{"content": f"step {i}", "status": names[state]} for i, state in enumerate(states)]}


def write(*states):
    return call("write_todos", todos(*states))


def verdict(achieved, reason):
    return call("structured_output", {"achieved": achieved, "reason": reason})


def text(words):
    return {"content": words}


WORK = call("work", {})
SECOND_WRITE = {"type": "tool_call", "id": "d", "name": "write_todos", "arguments": todos(2)}

# Each run: the prompt, the answers of the model, the answers of the evaluator.
SCENARIOS = {
    "list finished": [("a", [write(1, 0), WORK, write(2, 2), text("done")], []), ("b", [text("hello")], [])],
    "three items": [("a", [write(1, 0, 0), write(2, 2, 2), text("done")], [])],
    "invalid lists": [("a", [write(1, 0), write(), write(1, 1), write(0, 0), write(2, 2), text("x")], [])],
    "parallel calls": [("a", [write(1), call("write_todos", todos(1, 0), [SECOND_WRITE]), write(2), text("x")], [])],
    "corrected once": [("a", [write(1), text("x"), write(2), text("y")], []), ("b", [text("z")], [])],
    "blocked": [("a", [write(1), *map(text, "wxyz")], []), ("b", [text("on")], []), ("c", [write(1), write(2), text("x")], [])],
    "corrections left": [("a", [write(1), text("x"), WORK, text("y"), text("z"), write(2), text("x")], [])],
    "stale": [("a", [write(1), *[WORK] * 7, text("x"), text("y"), text("z"), text("0")], []), ("b", [WORK, text("on")], [])],
    "stale ended": [("a", [write(1), *[WORK] * 6, write(2), WORK, text("x")], [])],
    "goal achieved": [("/goal finish", [text("begun"), text("done")], [verdict(False, "no"), verdict(True, "yes")]), ("b", [text("x")], [])],
    "goal exhausted": [("/goal finish", [text("1"), text("2"), text("3")], [verdict(False, str(i)) for i in range(3)]), ("b", [text("x")], [])],
    "second goal": [("/goal one", [text("1")], [verdict(True, "a")]), ("/goal two", [text("2"), text("3")], [verdict(False, "b"), verdict(True, "c")])],
    "goal with work": [("/goal finish", [write(1), WORK, write(2), text("done")], [verdict(True, "yes")])],
}


class NoArguments(BaseModel):
    pass


async def work(tool_call_id, args, **_):
    return AgentToolResult(content=[TextContent(text="ok")])


def message(form):
    content = form["content"]
    blocks = [TextContent(text=content)] if isinstance(content, str) else [ToolCall(**block) for block in content]
    return AssistantMessage(content=blocks, stop_reason=form.get("stop_reason", "stop"))


def model(name, script):
    provider = FauxProvider(provider_id="faux")
    provider.set_responses([message(form) for form in script])
    return provider.model(name)


async def in_cubepi(database, run):
    prompt, script, verdicts = run
    async with SQLiteCheckpointer(str(database)) as store:
        middleware = [
            TodoListMiddleware(extra_ref=lambda: agent._extra),
            GoalMiddleware(model("helper-1", verdicts), max_evaluations=3),
        ]
        tools = [AgentTool(name="work", description="", parameters=NoArguments, execute=work)]
        agent = Agent(model=model("faux-1", script), tools=tools, checkpointer=store, thread_id="t", middleware=middleware)
        await agent.prompt(prompt)


def in_ours(database, run, runner):
    prompt, script, verdicts = run
    scenario = {
        "middleware": [{"todo_list": {}}, {"goal": {"max_evaluations": 3}}],
        "tools": [{"name": "work", "do": [{"return": "ok"}]}],
        "script": script,
        "helper_script": verdicts,
        "run": [{"prompt": prompt}],
    }
    file = database.with_suffix(".json")
    file.write_text(json.dumps(scenario))
    subprocess.run([runner, "--keep", database, file], check=True)


async def extra_after(database, runs, order, runner):
    """Returns the state after the runs, without values that mean the same as absent ones."""
    for i, run in enumerate(runs):
        if order[i % len(order)] == "C":
            await in_cubepi(database, run)
        else:
            in_ours(database, run, runner)
    async with SQLiteCheckpointer(str(database)) as store:
        return {key: value for key, value in (await store.load("t")).extra.items() if value}


async def main():
    runner, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    for name, runs in SCENARIOS.items():
        states = {}
        for order in ("C", "O", "CO", "OC"):
            database = directory / f"{name.replace(' ', '-')}-{order}.sqlite"
            states[order] = await extra_after(database, runs, order, runner)
        for order, state in states.items():
            # Our texts for the model are our own words.
            if "todo_guard_blocked" in state:
                state["todo_guard_blocked"]["message"] = ""
            if state != states["C"]:
                sys.exit(f"{name}, {order}: {state}, CubePi alone: {states['C']}")
    print(f"{len(SCENARIOS)} conversations with to-dos and goals end with the same state, in turns with CubePi in both orders")


asyncio.run(main())
