"""Installs the peers under build/peers, from the pinned lists in this directory. Missing requirements are reported."""

import functools
import hashlib
import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build" / "peers"


class Missing(Exception):
    """Raised when a peer cannot run on this machine; the text states the reason and the remedy."""


def run(command, directory, log, **environment):
    """Runs an installer. Its output goes to a file; the last line is the reason of a failure."""
    with open(log, "w") as out:
        done = subprocess.run(command, cwd=directory, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              env={**os.environ, **environment})
    if done.returncode:
        printed = [line for line in log.read_text().splitlines() if line.strip()]
        raise Missing(f"{command[0]} failed: {printed[-1].strip() if printed else 'without any output'} (log: {log})")


def once(directory, inputs, make):
    """Calls `make` unless the directory was created from exactly these inputs."""
    mark = directory / ".made-of"
    print_of = hashlib.sha256("\0".join(inputs).encode()).hexdigest()
    if mark.exists() and mark.read_text() == print_of:
        return
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    make()
    mark.write_text(print_of)


def version_of(python):
    """Returns the version, e.g. (3, 12), of an interpreter that can create environments, else None."""
    asked = "import ensurepip, sys, venv; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", asked], capture_output=True, text=True)
    except OSError:
        return None
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else None


@functools.cache
def pythons():
    """Candidate interpreters, best first: PYTHON, then those on PATH and in pyenv; 3.12, the version of the pinned lists, first."""
    names = ["python3.12", "python3.13", "python3.14", "python3.11", "python3"]
    if shutil.which("pyenv"):
        for version in subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True).stdout.split():
            root = subprocess.run(["pyenv", "prefix", version], capture_output=True, text=True).stdout.strip()
            names.append(f"{root}/bin/python3")
    if os.environ.get("PYTHON"):
        names = [os.environ["PYTHON"]]
    found = [(name, version) for name in names if (version := version_of(name))]
    return sorted(found, key=lambda one: (one[1] < (3, 12), one[1]))


def python_env(name, at_least):
    """Returns the interpreter of an environment in which python/NAME.txt is installed."""
    python = next((python for python, version in pythons() if version >= at_least), None)
    if not python:
        raise Missing(f"needs Python {at_least[0]}.{at_least[1]} with venv; name one: PYTHON=python3.12")
    directory, wanted = BUILD / name, HERE / "python" / f"{name}.txt"

    def make():
        run([python, "-m", "venv", str(directory)], BUILD, BUILD / f"{name}.log")
        run([str(directory / "bin/python"), "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "-r", str(wanted)],
            BUILD, BUILD / f"{name}.log")

    once(directory, [wanted.read_text(), python], make)
    return str(directory / "bin/python")


def node_env():
    """Returns (node, directory): the programs of node/ are copied next to the modules that they import."""
    node = HERE.parent.parent / "build/tools/bin/node"
    node = str(node) if node.exists() else shutil.which("node")
    if not node or not shutil.which("npm"):
        raise Missing("needs Node 20 and npm")
    directory = BUILD / "node"
    wanted = [HERE / "node" / name for name in ("package.json", "package-lock.json")]

    def make():
        for file in wanted:
            shutil.copy(file, directory)
        run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], directory, BUILD / "node.log")

    once(directory, [file.read_text() for file in wanted], make)
    for program in (HERE / "node").glob("*.mjs"):
        shutil.copy(program, directory)
    return node, directory


def go_programs():
    """The directory with the programs of go/."""
    if not shutil.which("go"):
        raise Missing("needs Go")
    directory = BUILD / "go"
    sources = sorted(file for file in (HERE / "go").rglob("*") if file.is_file())

    def make():
        run(["go", "build", "-o", f"{directory}/", "./..."], HERE / "go", BUILD / "go.log", CGO_ENABLED="0")

    once(directory, [file.read_text() for file in sources], make)
    return directory


def rust_program(name):
    """The program of rust/NAME. Cargo itself builds only what has changed."""
    if not shutil.which("cargo"):
        raise Missing("needs Rust with cargo")
    target = BUILD / "rust"
    run(["cargo", "build", "--release", "--locked", "--target-dir", str(target)], HERE / "rust" / name, BUILD / f"{name}.log")
    return target / "release" / name
