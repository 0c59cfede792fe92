# The official SDK of OpenAI for Python as a client of a gateway, whose script is in python_client.mjs. Usage: python_client.py URL
import os
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key=os.environ["CUBEPI_HTTP_TOKEN"])
model = "cubepi"
failed = False


def check(name, good):
    global failed
    print(f"{'ok' if good else 'FAILED'}: {name}")
    failed = failed or not good


messages = [{"role": "user", "content": "hello"}]
check("models.list", [one.id for one in client.models.list()] == [model])
answer = client.chat.completions.create(model=model, messages=messages)
check("chat.completions.create", answer.choices[0].message.content == "One." and answer.usage.total_tokens > 0)
text, usage = "", None
for chunk in client.chat.completions.create(model=model, messages=messages, stream=True, stream_options={"include_usage": True}):
    text += "".join(choice.delta.content or "" for choice in chunk.choices)
    usage = chunk.usage or usage
check("chat.completions.create, streamed", text == "Two." and usage is not None and usage.total_tokens > 0)
first = client.responses.create(model=model, input="hello")
check("responses.create", first.output_text == "Three.")
with client.responses.stream(model=model, input="next", previous_response_id=first.id) as stream:
    types = [event.type for event in stream]
    check("responses.stream", stream.get_final_response().output_text == "Four." and "response.output_text.delta" in types)

clock = {"name": "clock", "description": "Tells the time.", "parameters": {"type": "object", "properties": {}}}
tools = [{"type": "function", "strict": False, **clock}]
asked = client.responses.create(model=model, input="time?", tools=tools)
call = asked.output[0]
check("function_call", call.type == "function_call" and call.name == "clock")
output = {"type": "function_call_output", "call_id": call.call_id, "output": "noon"}
told = client.responses.create(model=model, input=[output], previous_response_id=asked.id, tools=tools)
check("function_call_output", told.output_text == "It is noon.")
try:
    client.responses.create(model=model, input=[output], previous_response_id=asked.id, tools=tools)
    check("late output", False)
except openai.BadRequestError as error:
    check("late output", "received before" in str(error))
chat_tools = [{"type": "function", "function": clock}]
called = client.chat.completions.create(model=model, messages=messages, tools=chat_tools)
message = called.choices[0].message
check("tool_calls", called.choices[0].finish_reason == "tool_calls" and message.tool_calls[0].function.name == "clock")
messages += [message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "noon"}]
told = client.chat.completions.create(model=model, messages=messages, tools=chat_tools)
check("role tool", told.choices[0].message.content == "Noon again.")
sys.exit(failed)
