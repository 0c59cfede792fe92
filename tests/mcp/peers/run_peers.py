#!/usr/bin/env python3
"""Tries our client and server with those of others for tools/check-mcp-peers: run_peers.py PROGRAMS PACKAGES PYTHON.

PROGRAMS has cubepi and cubepi_mcp_peer, PACKAGES the scripts of this directory next to node_modules, and PYTHON is an interpreter with the
official SDK. Each row is one pair of client and server over one transport. A plan names the tools: [NAME, ARGUMENTS, TEXT IN THE RESULT], for
`cancellation` the third is a tool that says "yes" once the server has noticed.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
FEATURES = ("list", "call", "error", "progress", "cancellation", "resources", "prompts", "elicitation")
PLAN = {"list": True, "call": ["add", {"a": 2, "b": 3}, "5"], "error": ["fail", {}], "progress": ["steps", {}],
        "cancellation": ["wait", {}, "was_cancelled"], "resources": "peer://note", "prompts": ["greet", {"name": "Ann"}],
        "elicitation": ["ask", {}, "Hello, Ann"]}
# Its tools; nothing tells whether a call was cancelled.
EVERYTHING = {"list": True, "call": ["get-sum", {"a": 2, "b": 3}, "5"], "error": ["get-sum", {"a": "x"}],
              "progress": ["trigger-long-running-operation", {"duration": 0.2, "steps": 4}], "resources": "",
              "prompts": ["args-prompt", {"city": "Rome"}], "elicitation": ["trigger-elicitation-request", {}, "Ann"]}
TOKEN = "0123456789abcdef0123456789abcdef"
# The program: writing a file is asked about, which is the elicitation.
PROGRAM = {"list": True, "call": ["read", {"path": "note.txt"}, "a note"], "error": ["read", {"path": "missing.txt"}],
           "elicitation": ["write", {"path": "made.txt", "content": "made"}, "made.txt"]}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Peers:
    def __init__(self, programs, packages, python):
        self.ours = str(programs / "cubepi_mcp_peer")
        self.cubepi = str(programs / "cubepi")
        self.packages = packages
        self.python = str(python)
        self.rows = []
        self.home = tempfile.TemporaryDirectory()
        self.workspace = pathlib.Path(self.home.name) / "workspace"
        self.workspace.mkdir()
        (self.workspace / "note.txt").write_text("a note\n")
        # The settings and tokens of the user have no part in this.
        self.environment = {**os.environ, "HOME": self.home.name, "XDG_CONFIG_HOME": self.home.name + "/.config",
                            "XDG_DATA_HOME": self.home.name + "/.local"}

    def node(self, script):
        return ["node", str(self.packages / script)]

    def python_script(self, script):
        return [self.python, str(HERE / script)]

    def run(self, command, limit=90):
        return subprocess.run(command, cwd=self.workspace, env=self.environment, capture_output=True, text=True, timeout=limit,
                              stdin=subprocess.DEVNULL, check=False)

    def row(self, peer, role, transport, command):
        """Runs a client and notes what it prints: JSON with the revision, and "ok" or a failure for each feature."""
        try:
            done = self.run(command)
            results = json.loads(done.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            results = {"failed": "no end within 90 s"}
        except (IndexError, ValueError):
            results = {"failed": (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}")[-400:]}
        self.note(peer, role, transport, results)

    def note(self, peer, role, transport, results):
        self.rows.append((peer, role, transport, results))
        marks = " ".join(f"{name}={'ok' if results[name] == 'ok' else 'FAILED'}" for name in FEATURES if name in results)
        print(f"{peer}, {role}, {transport}, {results.get('revision', '-')}: {marks}", flush=True)
        for name, result in results.items():
            if name in (*FEATURES, "failed") and result != "ok":
                print(f"    {name}: {result}", flush=True)

    @contextlib.contextmanager
    def served(self, command, url):
        """A server that listens on the port of `url` while the block runs."""
        log = tempfile.TemporaryFile("w+")
        process = subprocess.Popen(command, cwd=self.workspace, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True)
        try:
            port = int(url.split(":")[2].split("/")[0])
            for _ in range(300):
                with socket.socket() as one:
                    if one.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if process.poll() is not None:
                    log.seek(0)
                    raise RuntimeError(f"{command[1]} has ended: {log.read()[-500:]}")
                time.sleep(0.1)
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    # Our client.

    def try_servers(self):
        everything = self.node("node_modules/@modelcontextprotocol/server-everything/dist/index.js")
        for peer, server, revisions in (
                ("mcp 2.3.0, Python", self.python_script("python_server.py"), ("", "2025-11-25", "2025-06-18")),
                ("server 2.4.0, TypeScript", self.node("typescript_server.mjs"), ("", "2025-11-25", "2025-06-18")),
                ("sdk 1.32.2, TypeScript", self.node("typescript_older_server.mjs"), ("", "2025-06-18"))):
            for revision in revisions:
                self.row(peer, "server", "stdio", [self.ours, "client", json.dumps(PLAN), revision, *server, "stdio"])
            port = free_port()
            url = f"http://127.0.0.1:{port}/mcp"
            with self.served([*server, "http", str(port)], url):
                for revision in revisions:
                    plan = dict(PLAN)
                    if "server 2.4.0" in peer:
                        # Over HTTP, its handler has no sessions in the earlier era, so it can neither ask nor find a call to cancel.
                        if revision:
                            del plan["elicitation"], plan["cancellation"]
                    self.row(peer, "server", "HTTP", [self.ours, "client", json.dumps(plan), revision, url])
            self.program_as_client(peer, server)
        self.row("everything 2026.8.31", "server", "stdio", [self.ours, "client", json.dumps(EVERYTHING), "", *everything, "stdio"])
        port = free_port()
        url = f"http://127.0.0.1:{port}/mcp"
        with self.served(["env", f"PORT={port}", *everything, "streamableHttp"], url):
            self.row("everything 2026.8.31", "server", "HTTP", [self.ours, "client", json.dumps(EVERYTHING), "", url])

    def program_as_client(self, peer, server):
        """cubepi mcp add, check, call, as a user types them."""
        results = {}
        self.run([self.cubepi, "mcp", "remove", "peer"])
        added = self.run([self.cubepi, "mcp", "add", "peer", "--", *server, "stdio"])
        checked = self.run([self.cubepi, "mcp", "check", "peer"])
        results["revision"] = checked.stdout.partition("protocol ")[2][:10]
        results["list"] = "ok" if added.returncode == checked.returncode == 0 and "mcp__peer__add" in checked.stdout else \
            (added.stderr + checked.stdout + checked.stderr)[-300:]
        called = self.run([self.cubepi, "mcp", "call", "peer", "add", '{"a": 2, "b": 3}'])
        results["call"] = "ok" if called.returncode == 0 and "5" in called.stdout else (called.stdout + called.stderr)[-300:]
        failed = self.run([self.cubepi, "mcp", "call", "peer", "fail"])
        results["error"] = "ok" if failed.returncode == 1 and "it has failed" in failed.stdout + failed.stderr else \
            f"{failed.returncode}: {failed.stdout}{failed.stderr}"[-300:]
        self.note(peer, "server", "stdio, cubepi mcp", results)

    # Our server.

    def clients(self):
        yield "mcp 2.3.0, Python", [*self.python_script("python_client.py"), "{plan}", "auto"]
        yield "mcp 2.3.0, Python", [*self.python_script("python_client.py"), "{plan}", "legacy"]
        yield "client 2.4.0, TypeScript", [*self.node("typescript_client.mjs"), "{plan}", "auto"]
        yield "client 2.4.0, TypeScript", [*self.node("typescript_client.mjs"), "{plan}", "legacy"]
        yield "sdk 1.32.2, TypeScript", [*self.node("typescript_older_client.mjs"), "{plan}", "legacy"]

    def try_clients(self):
        port = free_port()
        url = f"http://127.0.0.1:{port}/mcp"
        with self.served([self.ours, "server", str(port)], url):
            for peer, client in self.clients():
                for transport, place, plan in (("stdio", [self.ours, "server"], PLAN), ("HTTP", [url], PLAN),
                                               ("stdio, cubepi mcp", [self.cubepi, "mcp", "serve"], PROGRAM)):
                    command = [json.dumps(plan) if word == "{plan}" else word for word in client]
                    self.row(peer, "client", transport, [*command, *place])
            self.inspector("HTTP", [url, "--transport", "http"], PLAN)
        port = free_port()
        url = f"http://127.0.0.1:{port}/mcp"
        self.environment["CUBEPI_MCP_TOKEN"] = TOKEN
        with self.served([self.cubepi, "mcp", "serve", "--listen", f"127.0.0.1:{port}"], url):
            for peer, client in self.clients():
                command = [json.dumps(PROGRAM) if word == "{plan}" else word for word in client]
                self.row(peer, "client", "HTTP, cubepi mcp", [*command, url, TOKEN])
        self.inspector("stdio", [self.ours, "server"], PLAN)
        self.inspector("stdio, cubepi mcp", [self.cubepi, "mcp", "serve"], PROGRAM)

    def inspector(self, transport, place, plan):
        """The command-line mode of the inspector: one process for each request."""
        launcher = self.node("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")

        def ask(*arguments):
            done = self.run([*launcher, "--cli", *place, *arguments])
            try:
                return done.returncode, json.loads(done.stdout)
            except ValueError:
                return done.returncode, {"text": (done.stdout + done.stderr)[-300:]}

        def pairs(arguments):
            return [part for name, value in arguments.items() for part in ("--tool-arg", f"{name}={value}")]

        results = {}
        status, seen = ask("--method", "tools/list")
        results["list"] = "ok" if status == 0 and seen.get("tools") else str(seen)
        name, arguments, text = plan["call"]
        status, seen = ask("--method", "tools/call", "--tool-name", name, *pairs(arguments))
        results["call"] = "ok" if status == 0 and text in json.dumps(seen) else str(seen)
        name, arguments = plan["error"]
        status, seen = ask("--method", "tools/call", "--tool-name", name, *pairs(arguments))
        results["error"] = "ok" if seen.get("isError") is True or status not in (0, 1) else f"{status}: {seen}"
        if "resources" in plan:
            status, seen = ask("--method", "resources/read", "--uri", plan["resources"])
            results["resources"] = "ok" if status == 0 and seen.get("contents") else str(seen)
        if "prompts" in plan:
            name, arguments = plan["prompts"]
            given = [part for key, value in arguments.items() for part in ("--prompt-args", f"{key}={value}")]
            status, seen = ask("--method", "prompts/get", "--prompt-name", name, *given)
            results["prompts"] = "ok" if status == 0 and seen.get("messages") else str(seen)
        self.note("inspector 2.12.0, command line", "client", transport, results)


def markdown(rows):
    print("| peer | its role | transport | revision | " + " | ".join(FEATURES) + " |")
    print("|---|---|---|---|" + "---|" * len(FEATURES))
    for peer, role, transport, results in rows:
        marks = ["-" if name not in results else "+" if results[name] == "ok" else "fails" for name in FEATURES]
        print(f"| {peer} | {role} | {transport} | {results.get('revision', '')} | " + " | ".join(marks) + " |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("packages", type=pathlib.Path)
    parser.add_argument("python", type=pathlib.Path)
    parser.add_argument("--only", choices=("clients", "servers"))
    arguments = parser.parse_args()
    peers = Peers(arguments.programs.resolve(), arguments.packages.resolve(), arguments.python.absolute())
    if arguments.only != "clients":
        peers.try_servers()
    if arguments.only != "servers":
        peers.try_clients()
    print()
    markdown(peers.rows)
    bad = [row for row in peers.rows if any(result != "ok" for name, result in row[3].items() if name != "revision")]
    print(f"\n{len(peers.rows)} pairs, {len(bad)} with failures")
    return 1 if bad or not peers.rows else 0


if __name__ == "__main__":
    sys.exit(main())
