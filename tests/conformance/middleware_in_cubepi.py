"""Runs the conversations of middleware_scenarios.py in CubePi and in ours, in turns on one SQLite file; compares what the models
received, the stored messages, and `extra`.

usage: middleware_in_cubepi.py RUNNER DIRECTORY; see tools/check-interchange

Not compared, because our texts for the model are our own words: system prompts, messages of the framework, errors, and the notes
in place of shortened results. Of a compaction: which summaries and which messages a request has. Two corrections of CubePi that
keep the cached prefix are left out of the comparison: the last message of a request, in which CubePi repeats the to-dos (D117), and the
prefix `/goal `, which CubePi sends again from the next prompt on (D119). Other differences are in the table, with their reasons.
"""

import asyncio
import json
import logging
import pathlib
import re
import subprocess
import sys

from cubepi import Agent
from cubepi.agent.types import AgentTool, AgentToolResult
from cubepi.checkpointer.sqlite import SQLiteCheckpointer
from cubepi.deferred import DeferredToolGroup
from cubepi.deferred.middleware import DeferredToolsMiddleware
from cubepi.middleware import CompactionMiddleware, GoalMiddleware, SubagentMiddleware, SubagentSpec, TodoListMiddleware
from cubepi.providers.base import AssistantMessage, TextContent, ToolCall, Usage
from cubepi.providers.faux import FauxProvider
from pydantic import BaseModel

from middleware_scenarios import SCENARIOS

PARTS = ("requests", "messages", "extra")


class NoArguments(BaseModel):
    pass


# CubePi.


def message(form):
    content = form["content"]
    blocks = [TextContent(text=content)] if isinstance(content, str) else [ToolCall(**block) for block in content]
    return AssistantMessage(content=blocks, stop_reason=form.get("stop_reason", "stop"), error_message=form.get("error_message"))


class Model(FauxProvider):
    """Records requests, and reports the usage of the script."""

    def __init__(self, script):
        super().__init__(provider_id="faux")
        self.set_responses([message(form) for form in script])
        self._tokens = [form.get("input_tokens", 0) for form in script]
        self.requests = []

    async def stream(self, model, messages, *, system_prompt="", tools=None, **more):
        self.requests.append(request_form([message_form(one) for one in messages], [one.name for one in tools or ()]))
        return await super().stream(model, messages, system_prompt=system_prompt, tools=tools, **more)

    def _compute_cache_usage(self, *_):
        return Usage(input_tokens=self._tokens.pop(0), output_tokens=1)


def make_tool(form):
    result = form["do"][0]["return"]["text"]

    async def execute(tool_call_id, args, **_):
        return AgentToolResult(content=[TextContent(text=result)])

    return AgentTool(name=form["name"], description=form["description"], parameters=NoArguments, execute=execute)


def make_tools(forms):
    return [make_tool(form) for form in forms]


def make_compaction(options, helper):
    options = dict(options)
    preserved = options.pop("preserved_tools", [])

    def compressor(result):
        return result.content[0].text if result.tool_name in preserved else None

    return CompactionMiddleware(summary_model=helper, tool_result_compressor=compressor if preserved else None, **options)


def make_subagents(options, model):
    types = {
        name: SubagentSpec(name=name, description=name, system_prompt=form["system_prompt"], tools=make_tools(form["tools"]))
        for name, form in options["types"].items()
    }
    return SubagentMiddleware(subagents=types, default_model=model, shared_tools=make_tools(options["tools"]))


def group_of(form):
    async def loader():
        return make_tools(form["tools"])

    names = [one["name"] for one in form["tools"]]
    return DeferredToolGroup(form["group_id"], form["display_name"], form["description"], names, loader)


async def make_deferred(options, extra, extra_ref, tools, agent):
    """Resumes as CubePi's guide says: what an earlier run has loaded is loaded before the first request."""
    resumed = await DeferredToolsMiddleware.prepare_resumed_state(
        [group_of(form) for form in options["groups"]], extra.get("expanded_groups", {}), strategy=options["strategy"]
    )
    tools.extend(resumed.pre_loaded_tools)
    return DeferredToolsMiddleware(
        groups=resumed.remaining_groups,
        extra_ref=extra_ref,
        strategy=options["strategy"],
        resumed_loader_cache=resumed.loader_cache,
        on_tools_expanded=lambda more: agent().state.tools.extend(more),
    )


async def in_cubepi(database, conversation, run):
    prompt, script, helper_script = run
    made = None
    provider = Model(script)
    model, helper = provider.model("faux-1"), Model(helper_script).model("helper-1")
    tools = make_tools(conversation.tools)
    middleware = []
    async with SQLiteCheckpointer(str(database)) as store:
        stored = await store.load("t")
        extra = stored.extra if stored else {}
        extra_ref = lambda: made._extra  # noqa: E731
        for spec in conversation.middleware:
            ((kind, options),) = spec.items()
            if kind == "todo_list":
                middleware.append(TodoListMiddleware(extra_ref=extra_ref))
            elif kind == "goal":
                middleware.append(GoalMiddleware(helper, **options))
            elif kind == "compaction":
                middleware.append(make_compaction(options, helper))
            elif kind == "subagent":
                middleware.append(make_subagents(options, model))
            elif kind == "deferred_tools":
                middleware.append(await make_deferred(options, extra, extra_ref, tools, lambda: made))
        made = Agent(model=model, tools=tools, checkpointer=store, thread_id="t", middleware=middleware)
        await made.prompt(prompt)
    return provider.requests


# Ours.


def in_ours(database, conversation, run, runner):
    prompt, script, helper_script = run
    scenario = {
        "middleware": conversation.middleware,
        "tools": conversation.tools,
        "faux": {"usage": False},
        "script": script,
        "helper_script": helper_script,
        "run": [{"prompt": prompt}],
    }
    file = database.with_suffix(".json")
    file.write_text(json.dumps(scenario))
    done = subprocess.run([runner, "--keep", database, file], check=True, capture_output=True, text=True)
    result = json.loads(done.stdout)
    for request in result["calls"]:
        if not request["legal"]:
            sys.exit(f"{file}: a request is illegal: {request['messages']}")
    return [request_form(request["messages"], request["tools"]) for request in result["calls"]]


# The normal form.


def content_form(blocks):
    blocks = [block.model_dump(exclude={"type"}) | {"type": block.type} for block in blocks]
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


def message_form(one):
    """Returns the form of the runner's `calls` (README.md, 3.4)."""
    form = {"role": one.role, "content": content_form(one.content)}
    if one.role == "tool_result":
        form |= {"id": one.tool_call_id, "tool": one.tool_name} | ({"is_error": True} if one.is_error else {})
    if one.role == "user" and "synthetic_source" in one.metadata:
        form["synthetic"] = one.metadata["synthetic_source"]
    return form


def summaries_in(words):
    return re.findall(r"SUMMARY-\d+", words)


def load_form(words):
    result = json.loads(words)
    schemas = result.pop("schemas", None)
    if result.pop("error", None):
        return "<error>"
    return result | {"schemas": schemas and [schema["name"] for schema in schemas]}


def masked(form, in_request=False):
    """Returns a message without texts that are the framework's own words."""
    form = dict(form)
    content = form["content"]
    if form.get("synthetic") == "compaction_summary":
        form["content"] = summaries_in(content)
    elif "synthetic" in form or form.get("is_error"):
        form["content"] = "<text>"
    elif form["role"] == "user" and in_request and isinstance(content, str):
        form["content"] = content.removeprefix("/goal ")
    elif form.get("tool") == "load_tools":
        form["content"] = load_form(content)
    elif form.get("tool") == "write_todos":
        form["content"] = json.loads(content)["todos"]
    elif form["role"] == "tool_result" and isinstance(content, str) and re.fullmatch(r"\[.*(chars|preserved|here)\]", content):
        form["content"] = "<shortened>"
    return form


def request_form(messages, tools):
    return {
        "tools": sorted(tools),
        "messages": [masked(one, in_request=True) for one in messages if one.get("synthetic") != "todo_list_view" and one["content"] != []],
    }


def extra_form(extra):
    """Returns the state without values that mean the same as absent ones."""
    form = {key: value for key, value in extra.items() if value}
    # Additions of ours, and counts of an estimate.
    for key in ("compaction_view", "compaction_low_savings_count"):
        form.pop(key, None)
    if "todo_guard_blocked" in form:
        form["todo_guard_blocked"] = form["todo_guard_blocked"] | {"message": "<text>"}
    if record := form.get("compaction"):
        form["compaction"] = {
            "summaries": summaries_in(record["summary"]),
            "is_fallback": record["is_fallback"],
            "refs": len(record["summarized_message_refs"]),
            "preserved": record["preserved_tool_results"],
        }
    return form


# The comparison.


async def load(database):
    async with SQLiteCheckpointer(str(database)) as store:
        return await store.load("t")


def has_summary(request):
    return any(one.get("synthetic") == "compaction_summary" for one in request["messages"])


async def play(database, conversation, order, runner):
    """Returns the parts that are compared, and the runs that have ignored the summary of the other implementation."""
    requests, ignored = [], []
    record, writer = None, None
    for i, run in enumerate(conversation.runs):
        who = order[i % len(order)]
        if who == "C":
            requests.append(await in_cubepi(database, conversation, run))
        else:
            requests.append(in_ours(database, conversation, run, runner))
        if record and writer != who and not has_summary(requests[-1][0]):
            ignored.append(i)
        stored = await load(database)
        if stored.extra.get("compaction") != record:
            record, writer = stored.extra.get("compaction"), who
    messages = [masked(message_form(one)) for one in stored.messages]
    return {"requests": requests, "messages": messages, "extra": extra_form(stored.extra), "ignored": ignored}


def first_difference(left, right):
    """Returns the first place where two JSON values differ, as text."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            if left.get(key) != right.get(key):
                return f".{key}{first_difference(left.get(key), right.get(key))}"
    if isinstance(left, list) and isinstance(right, list):
        for i, (one, other) in enumerate(zip(left, right)):
            if one != other:
                return f"[{i}]{first_difference(one, other)}"
        return f": {len(left)} and {len(right)} items; {json.dumps((left + right)[min(len(left), len(right)):][:1])[:300]}"
    return f": {json.dumps(left)[:300]} and {json.dumps(right)[:300]}"


async def check(name, conversation, directory, runner):
    """Returns the differences that are faults, as texts."""
    faults = []
    played = {}
    for order in ("C", "O", "CO", "OC"):
        database = directory / f"{re.sub('[^a-z]+', '-', name)}-{order}.sqlite"
        played[order] = await play(database, conversation, order, runner)
        if played[order]["ignored"]:
            faults.append(f"{name}, {order}: runs without the summary of the other implementation: {played[order]['ignored']}")
    for part in PARTS:
        if part in conversation.differs:
            if played["O"][part] == played["C"][part]:
                faults.append(f"{name}: {part} are equal, but differ according to the table")
            continue
        for order in ("O", "CO", "OC"):
            if played[order][part] != played["C"][part]:
                place = first_difference(played["C"][part], played[order][part])
                faults.append(f"{name}: CubePi alone and {order} differ: {part}{place}")
    return faults


async def main():
    logging.disable(logging.WARNING)  # of summaries that fail as intended
    runner, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    only = sys.argv[3:]
    directory.mkdir(parents=True, exist_ok=True)
    faults = []
    for name, conversation in SCENARIOS.items():
        if not only or name in only:
            faults += await check(name, conversation, directory, runner)
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(SCENARIOS)} conversations have the same requests, messages and state, alone and in turns with CubePi, except:")
    for name, conversation in SCENARIOS.items():
        for part, reason in conversation.differs.items():
            print(f"  {name}: {part}: {reason}")


asyncio.run(main())
