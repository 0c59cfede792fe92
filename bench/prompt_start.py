#!/usr/bin/env python3
"""bench/prompt_start.py CUBEPI [STARTS]: time and memory of a chat until its prompt, with a long history.

Starts `CUBEPI chat --offline` at a pseudo-terminal of 80x24, in a home directory of its own: once in a new session, and once with
--continue in a session whose tape has a gigabyte. The sandbox of commands is that of the configuration, which is on by default. Prints
for each, as the median and the largest of STARTS (default: 21), the milliseconds from the start to the status line below the prompt, the
processor time of the program until then, which other work on the machine does not change much, the proportional memory (PSS) of the program and its child processes a second later, and the largest resident memory (RSS) of the program.
The budget is 40 ms and 25 MB. Of a file that was not read before, the first start reads it from the disk: it is not counted.
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time

GIGABYTE = 1_000_000_000
PROMPT = b"mode ask"


def lines_of_tape(path):
    return path.read_text().splitlines()


def lengthen(tape):
    """Repeats the messages of the tape, with rising ids and positions, until it has a gigabyte."""
    head = lines_of_tape(tape)
    pattern = [json.loads(line) for line in head if json.loads(line)["kind"] in ("message", "event")]
    last = json.loads(head[-1])["id"]
    position = sum(len(json.loads(line).get("meta", {}).get("cubepi", {}).get("messages", [])) for line in head)
    size = tape.stat().st_size
    filler = "The keeper writes down wind and weather. " * 200
    with tape.open("a") as file:
        while size < GIGABYTE:
            for entry in pattern:
                last += 1
                entry["id"] = last
                stored = entry.get("meta", {}).get("cubepi")
                if stored:
                    position += len(stored["messages"])
                    stored["position"] = position
                    for message in stored["messages"]:
                        message["id"] = f"m{last}"
                        message["content"] = [{"type": "text", "text": filler}]
                    entry["payload"]["content"] = filler
                line = json.dumps(entry, ensure_ascii=False) + "\n"
                file.write(line)
                size += len(line)
    index = tape.with_name(tape.name + ".index")
    index.unlink(missing_ok=True)


def memory_kb(pid, name, file):
    for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return 0


def children_of(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children_of(int(child))]
    return found


def processor_ms(pid):
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()) / 1e6


def start(arguments, home, directory):
    """One start: milliseconds and processor time until the prompt, PSS and peak RSS in MB."""
    began = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(directory)
        os.execve(arguments[0], arguments, {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shown = b""
    while PROMPT not in re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown):
        ready, _, _ = select.select([terminal], [], [], 60)
        if not ready:
            raise SystemExit("prompt_start: no prompt after a minute:\n" + shown.decode(errors="replace"))
        shown += os.read(terminal, 65536)
    passed = (time.perf_counter() - began) * 1e3
    processor = processor_ms(pid)
    until = time.monotonic() + 1
    while (left := until - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            os.read(terminal, 65536)
    processes = [pid, *children_of(pid)]
    pss = sum(memory_kb(one, "Pss", "smaps_rollup") for one in processes) / 1024
    peak = memory_kb(pid, "VmHWM", "status") / 1024
    os.write(terminal, b"\x04")
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass
    os.waitpid(pid, 0)
    os.close(terminal)
    return passed, processor, pss, peak


def measure(title, arguments, home, directory, starts):
    start(arguments, home, directory)
    seen = [start(arguments, home, directory) for _ in range(starts)]
    for name, unit, values in zip(("time to the prompt", "processor time", "PSS", "peak RSS"), ("ms", "ms", "MB", "MB"), zip(*seen)):
        print(f"{title:<22} {name:<20} {statistics.median(values):8.1f} {max(values):8.1f} {unit}", flush=True)


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        raise SystemExit(__doc__)
    cubepi = str(pathlib.Path(sys.argv[1]).resolve())
    starts = int(sys.argv[2]) if len(sys.argv) > 2 else 21
    root = pathlib.Path(tempfile.mkdtemp(prefix="cubepi-prompt-", dir="/var/tmp"))
    try:
        home, directory = root / "home", root / "work"
        home.mkdir()
        directory.mkdir()
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        for prompt in ("What does the keeper write?", "And then?"):
            subprocess.run([cubepi, "run", "--offline", "-s", "log", prompt], cwd=directory, env=environment, check=True,
                           stdin=subprocess.DEVNULL, capture_output=True)
        tape = next((home / ".bub/tapes").glob("*.jsonl"))
        print(f"{'':<22} {'':<20} {'median':>8} {'largest':>8}")
        measure("new session", [cubepi, "chat", "--offline", "--no-save"], home, directory, starts)
        lengthen(tape)
        measure("history of 1 GB", [cubepi, "chat", "--offline", "--continue"], home, directory, starts)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
