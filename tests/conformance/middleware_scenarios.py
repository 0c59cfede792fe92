"""The conversations of middleware_in_cubepi.py: the same middleware, tools, prompts and answers of models in CubePi and in ours."""

from dataclasses import dataclass, field


def call(name, arguments, more=(), call_id="c"):
    blocks = [{"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}, *more]
    return {"content": blocks, "stop_reason": "tool_use"}


def text(words, **more):
    return {"content": words, **more}


def tool(name, result="ok", **properties):
    parameters = {"type": "object", "properties": properties}
    return {"name": name, "description": name, "parameters": parameters, "do": [{"return": {"text": result}}]}


@dataclass
class Conversation:
    """Each run: the prompt, the answers of the model, those of the model of the middleware. `differs`: the parts of a comparison
    (requests, messages, extra) in which CubePi and ours differ when each runs alone, and why."""

    runs: list
    middleware: list = field(default_factory=lambda: [{"todo_list": {}}, {"goal": {"max_evaluations": 3}}])
    tools: list = field(default_factory=lambda: [tool("work")])
    differs: dict = field(default_factory=dict)


# To-dos and goals.


def todos(*states):
    names = ("pending", "in_progress", "completed")
    return {"todos": [{"content": f"step {i}", "status": names[state]} for i, state in enumerate(states)]}


def write(*states):
    return call("write_todos", todos(*states))


def verdict(achieved, reason):
    return call("structured_output", {"achieved": achieved, "reason": reason})


WORK = call("work", {})
SECOND_WRITE = {"type": "tool_call", "id": "d", "name": "write_todos", "arguments": todos(2)}

TODOS_AND_GOALS = {
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

# Compaction. An exchange has about 150 estimated tokens.


def compaction(**options):
    return {"compaction": {"max_tokens_before_compact": 400, "keep_tail_tokens": 100, "min_compact_messages": 2, **options}}


def long(word, size=200):
    return (word + " ") * (size // (len(word) + 1))


def talk(first, last, summaries=(), size=200, **answer):
    """Returns runs of one prompt and one answer each; a run has a summary for its number in `summaries`."""
    return [
        (long(f"question-{i}", size), [text(long(f"answer-{i}", 100), **answer)], [text(f"SUMMARY-{i}")] if i in summaries else [])
        for i in range(first, last)
    ]


# For conversations with texts of the framework, which are not of the same length in both.
LARGE = compaction(max_tokens_before_compact=2650, keep_tail_tokens=700, prune_tool_outputs=False)
READ = tool("read", long("page", 300))
LOOK = tool("look", long("note", 300))


def reads(count, name="read"):
    return [call(name, {}, call_id=f"r{i}") for i in range(count)]


COMPACTION = {
    "compacted at a prompt": Conversation(talk(0, 6, range(6)), [compaction()], []),
    "compacted again and again": Conversation(talk(0, 12, range(12)), [compaction()], []),
    "compacted by reported tokens": Conversation(
        [*talk(0, 1, input_tokens=300), *talk(1, 6, range(1, 6), input_tokens=450)], [compaction(max_tokens_before_compact=580)], []
    ),
    "never long enough": Conversation(talk(0, 5), [compaction(max_tokens_before_compact=100000)], []),
    "tool results summarized": Conversation(
        [(long("question"), [*reads(1), text("read")], []), *talk(1, 5, range(1, 5))],
        [compaction(prune_tool_outputs=False)],
        [READ],
    ),
    "results preserved": Conversation(
        [(long("question"), [*reads(1), text("read")], []), *talk(1, 5, range(1, 5))],
        [compaction(preserved_tools=["read"])],
        [READ],
    ),
    "old results shortened": Conversation(
        [(long("question"), [*reads(3), text("read")], [text("SUMMARY-0")] * 3), *talk(1, 3, range(1, 3))],
        [compaction(max_tokens_before_compact=600)],
        [READ],
        differs={
            "requests": "old results are shortened first, and no summary is written if that is enough (D111)",
            "extra": "as above",
        },
    ),
    "compacted within a run": Conversation(
        [("go", [*reads(6), text("read")], [text("SUMMARY-0")] * 6), *talk(1, 4, range(1, 4))],
        [compaction(prune_tool_outputs=False)],
        [READ],
        differs={
            "requests": "CubePi loses a summary of messages of its own run at the next prompt: it refers to them before they have a run id",
            "extra": "as above",
        },
    ),
    "summary model fails": Conversation(
        [*talk(0, 3), *[(long(f"question-{i}"), [text("x")], []) for i in range(3, 8)]],
        [compaction()],
        [],
        differs={
            "requests": "an outline takes the place of a summary after three failures; CubePi writes one at each (D112)",
            "extra": "as above",
        },
    ),
    "compaction with a list": Conversation(
        [("a", [write(1, 0), write(2, 2), text("y")], []), *talk(1, 10, range(1, 10), size=1200)],
        [{"todo_list": {}}, LARGE],
        [],
    ),
}

# Limits of results. CubePi continues a thread with shortened results; it has no limits itself.

NO_LIMIT = {part: "CubePi has no limit of results" for part in ("requests", "messages")}
RESULT_LIMITS = {
    "result limited": Conversation(
        [("a", [*reads(1), text("x")], []), ("b", [text("y")], [])], [{"result_limit": {"max_chars": 40}}], [READ], differs=NO_LIMIT
    ),
    "result limited, then compacted": Conversation(
        [("a", [*reads(2), text("x")], []), *talk(1, 8, range(1, 8))],
        [{"result_limit": {"max_chars": 130}}, compaction(prune_tool_outputs=False)],
        [READ],
        differs={**NO_LIMIT, "extra": "as above: the thread is shorter"},
    ),
    "one tool excluded": Conversation(
        [("a", [*reads(1), *reads(1, "look"), text("x")], []), ("b", [text("y")], [])],
        [{"result_limit": {"max_chars": 40, "exclude_tool_names": ["look"]}}],
        [READ, LOOK],
        differs=NO_LIMIT,
    ),
}

# Sub-agents. They share the script of the model.


def delegate(prompt, kind="general-purpose", call_id="s"):
    fields = {"name": "n", "role": "r", "task": "t", "prompt": prompt, "subagent_type": kind}
    return call("subagent", fields, call_id=call_id)


def subagents(**types):
    return {"subagent": {"types": types, "tools": [tool("work")]}}


FAILED = {"content": "", "stop_reason": "error", "error_message": "the model failed"}
SUBAGENTS = {
    "sub-agent answers": Conversation([("a", [delegate("do"), text("found"), text("x")], []), ("b", [text("y")], [])], [subagents()], []),
    "sub-agent works": Conversation([("a", [delegate("do"), WORK, text("found"), text("x")], []), ("b", [text("y")], [])], [subagents()], []),
    "sub-agent of a type": Conversation(
        [("a", [delegate("do", "reader"), *reads(1), text("found"), text("x")], [])] * 2,
        [subagents(reader={"system_prompt": "Read.", "tools": [READ]})],
        [],
    ),
    "type unknown": Conversation(
        [("a", [delegate("do", "unknown"), text("found"), text("x")], []), ("b", [text("y")], [])],
        [subagents()],
        [],
        differs={part: "an unknown type is an error that lists the types; CubePi takes general-purpose" for part in ("requests", "messages")},
    ),
    "sub-agent fails": Conversation([("a", [delegate("do"), FAILED, text("x")], []), ("b", [text("y")], [])], [subagents()], []),
    "sub-agents in turn": Conversation(
        [("a", [delegate("one"), text("1"), delegate("two", call_id="s2"), text("2"), text("x")], []), ("b", [delegate("three"), text("3"), text("y")], [])],
        [subagents()],
        [],
    ),
}

# Deferred tools.


def deferred(strategy="dispatch"):
    groups = [
        {"group_id": "files", "display_name": "Files", "description": "files", "tools": [READ, tool("list")]},
        {"group_id": "net", "display_name": "Net", "description": "network", "tools": [tool("fetch")]},
    ]
    return {"deferred_tools": {"groups": groups, "strategy": strategy}}


def load(group, names=None):
    return call("load_tools", {"group_id": group, **({"tool_names": names} if names else {})}, call_id="l")


def dispatch(name, **arguments):
    return call("deferred_tool_call", {"tool_name": name, "arguments": arguments}, call_id="d")


DEFERRED_TOOLS = {
    "group loaded": Conversation([("a", [load("files"), dispatch("read"), text("x")], []), ("b", [dispatch("list"), text("y")], [])], [deferred()], []),
    "called without loading": Conversation([("a", [dispatch("fetch"), text("x")], []), ("b", [dispatch("fetch"), text("y")], [])], [deferred()], []),
    "loaded in parts": Conversation(
        [("a", [load("files", ["list"]), text("x")], []), ("b", [load("files", ["read"]), text("y")], []), ("c", [load("files"), load("files"), text("z")], [])],
        [deferred()],
        [],
    ),
    "unknown names": Conversation(
        [("a", [load("none"), dispatch("none"), call("deferred_tool_call", {"tool_name": "read", "arguments": 1}), text("x")], [])] * 2, [deferred()], []
    ),
    "injected": Conversation(
        [("a", [load("files"), *reads(1), text("x")], []), ("b", [*reads(1), text("y")], []), ("c", [load("net"), text("z")], [])], [deferred("inject")], []
    ),
    "injected in parts": Conversation(
        [("a", [load("files", ["list"]), text("x")], []), ("b", [call("list", {}), load("files", ["read"]), *reads(1), text("y")], [])],
        [deferred("inject")],
        [],
    ),
}

# Several at once.

TOGETHER = {
    "everything": Conversation(
        [
            ("/goal finish", [write(1, 0), delegate("do"), text("found"), load("files"), dispatch("read"), write(2, 2), text("done")], [verdict(True, "yes")]),
            *talk(1, 10, range(1, 10), size=1200),
        ],
        [{"todo_list": {}}, {"goal": {"max_evaluations": 3}}, subagents(), deferred(), LARGE],
        [],
    ),
}

SCENARIOS = {
    **{name: Conversation(runs) for name, runs in TODOS_AND_GOALS.items()},
    **COMPACTION,
    **RESULT_LIMITS,
    **SUBAGENTS,
    **DEFERRED_TOOLS,
    **TOGETHER,
}
