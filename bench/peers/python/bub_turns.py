"""One turn of Bub's pipeline: three plugins with load_state, save_state and render_outbound, and a constant model. Prints JSON."""

import asyncio
import json
import tempfile
from pathlib import Path

import measure
from bub import BubFramework, hookimpl
from bub.streaming import AsyncStreamEvents, StreamEvent
from loguru import logger

TURNS = 300
BATCHES = 30


class ThreeHooks:
    def __init__(self, name):
        self.name = name

    @hookimpl
    def load_state(self, message, session_id):
        return {self.name: 1}

    @hookimpl
    def save_state(self, session_id, state, message, model_output):
        pass

    @hookimpl
    def render_outbound(self, message, session_id, state, model_output):
        return [{"content": model_output, "session_id": session_id}]


class TextModel:
    @hookimpl
    def run_model(self, prompt, session_id, state):
        return "constant"


class StreamModel:
    @hookimpl
    def run_model_stream(self, prompt, session_id, state):
        async def events():
            yield StreamEvent("text", {"delta": "constant"})

        return AsyncStreamEvents(events())


async def best_turn(streamed):
    with tempfile.TemporaryDirectory() as directory:
        framework = BubFramework(Path(directory) / "config.yml")
        for name in "abc":
            framework.plugin_manager.register(ThreeHooks(name), name=name)
        framework.plugin_manager.register(StreamModel() if streamed else TextModel(), name="model")
        best = float("inf")
        for _ in range(BATCHES):
            clock = measure.Clock()
            for _ in range(TURNS):
                inbound = {"content": "hello", "channel": "cli", "chat_id": "chat"}
                turn = await framework.process_inbound(inbound, stream_output=streamed)
            best = min(best, clock.seconds() / TURNS)
        assert turn.model_output == "constant" and len(turn.outbounds) == 3, turn
        return best * 1e6


logger.remove()
print(json.dumps({"turn": asyncio.run(best_turn(False)), "streamed": asyncio.run(best_turn(True))}))
