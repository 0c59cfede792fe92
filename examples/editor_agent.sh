#!/bin/sh
# An editor with a file that is not saved, whose user allows the call.
set -eu
exec python3 - "$1" << 'END'
import json, subprocess, sys

agent = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
shown = ""


def send(message):
    agent.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    agent.stdin.flush()


def ask(number, method, params):
    global shown
    send({"id": number, "method": method, "params": params})
    while True:
        message = json.loads(agent.stdout.readline())
        if message.get("id") == number and "method" not in message:
            return message["result"]
        if message["method"] == "session/request_permission":
            send({"id": message["id"], "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}})
        elif message["method"] == "fs/read_text_file":
            send({"id": message["id"], "result": {"content": "not saved"}})
        elif message["params"]["update"]["sessionUpdate"] in ("agent_message_chunk", "tool_call_update"):
            shown += json.dumps(message["params"]["update"].get("content"))


made = ask(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": True}}})
assert made["agentInfo"]["name"] == "example", made
session = ask(2, "session/new", {"cwd": "/project", "mcpServers": []})["sessionId"]
end = ask(3, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "Read it"}]})
assert end["stopReason"] == "end_turn", end
assert "not saved" in shown and "I have read it." in shown, shown
agent.stdin.close()
sys.exit(agent.wait())
END
