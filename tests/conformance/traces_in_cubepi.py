"""Runs the trace cases with our tracer and shows the files with CubePi's viewer; see tools/check-interchange."""

import json
import os
import pathlib
import subprocess
import sys

CASES = pathlib.Path(__file__).parent / "traces"


def cubepi(viewer, *arguments):
    """Returns what the viewer prints."""
    environment = dict(os.environ, COLUMNS="400", NO_COLOR="1")
    done = subprocess.run(
        [viewer, "trace", *arguments], capture_output=True, text=True, env=environment
    )
    if done.returncode != 0:
        sys.exit(f"cubepi trace {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


def check_case(runner, viewer, case, directory):
    """Returns the number of spans of the case, all of which the viewer showed."""
    subprocess.run([runner, "--trace", directory, case], check=True, stdout=subprocess.DEVNULL)
    files = sorted(directory.rglob("[0-9a-f]*[0-9a-f].jsonl"))
    files = [file for file in files if not file.name.endswith(".stream.jsonl")]
    if not files:
        sys.exit(f"{case.name}: no trace was written")
    listed = cubepi(viewer, "ls", "--dir", str(directory), "-n", "100")
    cubepi(viewer, "stats", "--dir", str(directory))
    spans = 0
    for file in files:
        if file.stem[:8] not in listed:
            sys.exit(f"{case.name}: `trace ls` does not list {file.stem}:\n{listed}")
        shown = cubepi(viewer, "view", str(file))
        for line in file.read_text().splitlines():
            span = json.loads(line)
            spans += 1
            found = [text for text in shown.splitlines() if span["context"]["span_id"][:10] in text]
            if len(found) != 1 or span["name"] not in found[0]:
                sys.exit(f"{case.name}: `trace view` does not show {span['name']} once:\n{shown}")
    return spans


def main():
    runner, viewer, root = sys.argv[1:]
    cases = sorted(CASES.glob("*.json"))
    spans = 0
    for case in cases:
        directory = pathlib.Path(root) / case.stem
        directory.mkdir(parents=True)
        spans += check_case(runner, viewer, case, directory)
    print(f"CubePi's viewer shows all {spans} spans of {len(cases)} cases")


if __name__ == "__main__":
    main()
