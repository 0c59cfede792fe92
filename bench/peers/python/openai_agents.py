"""OpenAI Agents for Python, with the least model that its interface allows, tracing off."""

import agents
import measure
from agents.models.interface import Model
from openai.types import responses

agents.set_tracing_disabled(True)


@agents.function_tool
def echo(value: str) -> str:
    """Says it again."""
    return value


def text_item(text):
    part = responses.ResponseOutputText(annotations=[], text=text, type="output_text")
    return responses.ResponseOutputMessage(id="m1", content=[part], role="assistant", status="completed", type="message")


def completed(output):
    response = responses.Response(
        id="r1", created_at=0, model="m", object="response", output=output, parallel_tool_calls=True, tool_choice="auto", tools=[])
    return responses.ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")


def text_delta(text):
    return responses.ResponseTextDeltaEvent(
        content_index=0, delta=text, item_id="m1", logprobs=[], output_index=0, sequence_number=0, type="response.output_text.delta")


class Scripted(Model):
    deltas = measure.PIECES
    tool = True

    async def get_response(self, *arguments, **options):
        raise NotImplementedError

    async def stream_response(self, system_instructions, input, *arguments, **options):
        if self.tool and isinstance(input, list) and input[-1].get("type") != "function_call_output":
            call = responses.ResponseFunctionToolCall(arguments='{"value": "a"}', call_id="c1", name="echo", type="function_call")
            yield text_delta("Look")
            yield responses.ResponseFunctionCallArgumentsDeltaEvent(
                delta=call.arguments, item_id="c1", output_index=1, sequence_number=0, type="response.function_call_arguments.delta")
            yield completed([text_item("Look"), call])
            return
        for piece in self.deltas:
            yield text_delta(piece)
        yield completed([text_item("".join(self.deltas))])


class Peer:
    serves_all = True

    def __init__(self):
        self.events = 0
        self.model = Scripted()

    def agent(self):
        return agents.Agent(name="a", model=self.model, tools=[echo])

    def script(self, runs):
        self.model.tool, self.model.deltas = True, measure.PIECES

    def long(self, deltas):
        self.model.tool, self.model.deltas = False, ["xxxx"] * deltas

    async def run(self, agent):
        result = agents.Runner.run_streamed(agent, "hi")
        async for _ in result.stream_events():
            self.events += 1
        return result.to_input_list()


measure.main(Peer())
