"""three_gateways_test.py PROGRAM: runs examples/three_gateways.sh with this `cubepi`, and kills two of the gateways."""
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "examples" / "three_gateways.sh"


def free_ports():
    """The first of seven ports that are free. The kernel does not assign these to others."""
    while True:
        first = random.randrange(20000, 32000)
        sockets = [socket.socket() for _ in range(7)]
        try:
            for number, one in enumerate(sockets):
                one.bind(("127.0.0.1", first + number))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()


def send(url, token, key, body=None):
    request = urllib.request.Request(url, body, {"Authorization": f"Bearer {token}", "Idempotency-Key": key})
    with urllib.request.urlopen(request) as response:
        return response.status, json.load(response)


def post(url, token, key):
    """As a client does, repeats a request that a gateway has not answered."""
    while True:
        try:
            return send(url, token, key, b'{"session": "s1", "user": "ann", "text": "Hello"}')[1]
        except urllib.error.HTTPError as error:
            if error.code not in (502, 503, 504):
                raise
        time.sleep(0.1)


environment = os.environ | {"CUBEPI": sys.argv[1], "PORT": str(free_ports())}
script = subprocess.Popen([str(SCRIPT), "--offline"], env=environment, stdout=subprocess.PIPE, text=True)
try:
    shown = ""
    while "Ctrl-C" not in shown:
        line = script.stdout.readline()
        if not line:
            sys.exit("the script has ended: " + shown)
        shown += line
    print(shown, flush=True)
    token = re.search("TOKEN=([0-9a-f]{32})\n", shown)[1]
    url = re.search("http://[^ ]+", shown)[0]
    processes = [int(word) for word in re.search("kill -9 .* one of ([0-9 ]+);", shown)[1].split()]
    directory = pathlib.Path(re.search("Their logs are in (.*)\\. ", shown)[1])
    assert len(processes) == 3 and directory.is_dir()
    assert post(url, token, "m1")["outputs"]
    # Otherwise the others wait for the lease of a gateway that has not recorded the end of the turn.
    while send(url + "/m1?user=ann", token, "m1")[0] != 200:
        time.sleep(0.1)
    for process in processes[:2]:
        os.kill(process, signal.SIGKILL)
    answers = [post(url, token, key) for key in ("m1", "m2")]
    assert all(answer["outputs"] for answer in answers), answers
    script.send_signal(signal.SIGINT)
    assert script.wait() == 130
    assert not directory.exists()
    for number in range(7):
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", int(environment["PORT"]) + number))
finally:
    script.terminate()
    script.wait()
