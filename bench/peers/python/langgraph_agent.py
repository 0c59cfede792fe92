"""LangGraph's prebuilt agent, with the least model that its interface allows; no checkpointer: the caller keeps the messages."""

import measure
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool


@tool
async def echo(value: str) -> str:
    """Says it again."""
    return value


def piece(text, calls=()):
    return ChatGenerationChunk(message=AIMessageChunk(content=text, tool_call_chunks=list(calls)))


class Scripted(BaseChatModel):
    deltas: list = measure.PIECES
    call: bool = True

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, *arguments, **options):
        raise NotImplementedError

    async def _astream(self, messages, stop=None, run_manager=None, **options):
        if self.call and not isinstance(messages[-1], ToolMessage):
            yield piece("Look")
            yield piece("", [{"name": "echo", "args": '{"value": "a"}', "id": "c1", "index": 0, "type": "tool_call_chunk"}])
            return
        for text in self.deltas:
            yield piece(text)


class Peer:
    serves_all = True

    def __init__(self):
        self.events = 0
        self.model = Scripted()

    def agent(self):
        return create_agent(self.model, [echo])

    def script(self, runs):
        self.model.call, self.model.deltas = True, measure.PIECES

    def long(self, deltas):
        self.model.call, self.model.deltas = False, ["xxxx"] * deltas

    async def run(self, agent):
        last = None
        async for mode, event in agent.astream({"messages": [("user", "hi")]}, stream_mode=["messages", "values"]):
            self.events += 1
            if mode == "values":
                last = event
        return last


measure.main(Peer())
