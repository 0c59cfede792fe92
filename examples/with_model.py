"""with_model.py ANSWERS PROGRAM: runs a program with a scripted server of OpenAI's Chat Completions, and exits as it does.

ANSWERS is a JSON list with one element for each request: a string is the text of the answer; {"call": NAME, "arguments": {...}}
is a call of a tool; null is a text without an end. The program finds the server by OPENAI_API_KEY and OPENAI_BASE_URL. Exits with
status 2 if the number of requests is not the number of answers.
"""
import http.server
import json
import os
import subprocess
import sys
import threading
import time

answers = json.loads(sys.argv[1])
requests = []


def deltas(answer):
    """The deltas of an answer, and its reason to stop."""
    if isinstance(answer, str):
        return [{"content": word + " "} for word in answer.split()], "stop"
    function = {"name": answer["call"], "arguments": json.dumps(answer["arguments"])}
    return [{"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}], "tool_calls"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        answer = answers[len(requests) - 1] if len(requests) <= len(answers) else "That was the last answer."
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        if answer is None:
            self.never_end()
            return
        parts, reason = deltas(answer)
        for delta in parts:
            self.send(delta, None)
        self.send({}, reason)
        self.wfile.write(b"data: [DONE]\n\n")

    def never_end(self):
        try:
            while True:
                self.send({"content": "."}, None)
                time.sleep(0.01)
        except OSError:
            pass  # the program has closed the connection

    def send(self, delta, reason):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        self.wfile.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
        self.wfile.flush()

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
environment = os.environ | {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1",
                            "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
status = subprocess.run([sys.argv[2]], env=environment, check=False).returncode
if len(requests) != len(answers):
    print(f"{len(requests)} requests for {len(answers)} answers", file=sys.stderr)
    status = 2
sys.exit(status)
