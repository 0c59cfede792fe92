"""Makes what the peers need under build/peers, from the pinned lists beside this file. What cannot be had is said, not hidden."""

import functools
import hashlib
import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build" / "peers"


class Missing(Exception):
    """A peer cannot run here; the text says why, and what would help."""


def run(command, directory, log, **environment):
    """Runs an installer; its output goes to a file, whose end is the reason when it fails."""
    with open(log, "w") as out:
        done = subprocess.run(command, cwd=directory, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              env={**os.environ, **environment})
    if done.returncode:
        said = [line for line in log.read_text().splitlines() if line.strip()]
        raise Missing(f"{command[0]} failed: {said[-1].strip() if said else 'it said nothing'} (all of it: {log})")


def once(directory, inputs, make):
    """Calls `make` when the directory was not made from just these inputs."""
    mark = directory / ".made-of"
    print_of = hashlib.sha256("\0".join(inputs).encode()).hexdigest()
    if mark.exists() and mark.read_text() == print_of:
        return
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    make()
    mark.write_text(print_of)


def version_of(python):
    """(3, 12) of an interpreter that can make environments, else None."""
    asked = "import ensurepip, sys, venv; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", asked], capture_output=True, text=True)
    except OSError:
        return None
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else None


@functools.cache
def pythons():
    """Interpreters that may serve, best first: PYTHON, then 3.12 of those on PATH and pyenv's, the version of the pinned lists."""
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
    """The interpreter of an environment with python/NAME.txt in it."""
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
    """(node, directory): the programs of node/, copied beside the modules that they import."""
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
