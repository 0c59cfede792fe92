"""CubePi for Python, with the scripted model that it ships."""

import measure
from cubepi import Agent, tool
from cubepi.providers.faux import FauxProvider, faux_assistant_message, faux_text, faux_tool_call


@tool
async def echo(value: str) -> str:
    """Says it again."""
    return value


class Peer:
    serves_all = False

    def __init__(self):
        self.events = 0
        self.faux = FauxProvider(token_size_min=1, token_size_max=1)
        self.model = self.faux.model("m")

    def agent(self):
        agent = Agent(model=self.model, tools=[echo])
        agent.subscribe(self.listen)
        return agent

    def listen(self, event, signal=None):
        self.events += 1

    def script(self, runs):
        first = faux_assistant_message([faux_text("Look"), faux_tool_call("echo", {"value": "a"}, id="c1")], stop_reason="tool_use")
        self.faux.set_responses([first, faux_assistant_message(measure.ANSWER)] * runs)

    def long(self, deltas):
        self.faux.set_responses([faux_assistant_message("x" * 4 * deltas)])

    async def run(self, agent):
        await agent.prompt("hi")


measure.main(Peer())
