"""Turns through Bub's channel manager: 1,000 sessions, one message in each, all at once, and a constant model. Prints JSON.

The channel does nothing but count what is sent. Bub records no messages: nothing survives the process.
"""

import asyncio
import json
import tempfile
from pathlib import Path

import measure
from bub import BubFramework, hookimpl
from bub.channels.base import Channel
from bub.channels.manager import ChannelManager
from bub.channels.message import ChannelMessage
from loguru import logger

SESSIONS = 1_000
ROUNDS = 30


class CountingChannel(Channel):
    name = "chat"

    def __init__(self, handler):
        self.handler = handler
        self.sent = 0
        self.all_sent = asyncio.Event()

    async def start(self, stop_event):
        pass

    async def stop(self):
        pass

    async def send(self, message):
        self.sent += 1
        if self.sent % SESSIONS == 0:
            self.all_sent.set()

    async def one_round(self):
        self.all_sent.clear()
        for chat in range(SESSIONS):
            await self.handler(ChannelMessage(session_id=f"chat:{chat}", channel="chat", content="hello", chat_id=str(chat)))
        await self.all_sent.wait()


class Constant:
    def __init__(self, framework):
        self.framework = framework

    @hookimpl
    def provide_channels(self, message_handler):
        self.channel = CountingChannel(message_handler)
        return [self.channel]

    @hookimpl
    def run_model(self, prompt, session_id, state):
        return "hello to you"

    @hookimpl
    async def dispatch_outbound(self, message):
        return await self.framework.dispatch_via_channel_router(message)


async def best_turn():
    with tempfile.TemporaryDirectory() as directory:
        framework = BubFramework(Path(directory) / "config.yml")
        plugin = Constant(framework)
        framework.plugin_manager.register(plugin, name="constant")
        manager = ChannelManager(framework, enabled_channels=["chat"], stream_output=False)
        serving = asyncio.create_task(manager.listen_and_run())
        best = float("inf")
        for _ in range(ROUNDS):
            clock = measure.Clock()
            await plugin.channel.one_round()
            best = min(best, clock.seconds() / SESSIONS)
        assert plugin.channel.sent == ROUNDS * SESSIONS, plugin.channel.sent
        serving.cancel()
        await asyncio.wait([serving])
        return best * 1e6


logger.remove()
print(json.dumps({"gateway": asyncio.run(best_turn())}))
