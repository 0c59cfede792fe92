#!/usr/bin/env python3
"""Runs the conformance suite for tools/check-mcp: run_suite.py DIRECTORY_OF_PROGRAMS DIRECTORY_OF_THE_SUITE [--changed | --sample].

All scenarios that the suite requires for a revision must pass, and those of tests/mcp/passing.txt, which also has others: of extensions,
and of scenarios that are newer than the revision. Nothing is expected to fail. The suite's own exit code is not used, because it does
not count a scenario without a check as a failure. Others that pass are printed.

With --sample, runs the scenarios of SAMPLE only, in seconds, for `make test`.
"""
import concurrent.futures
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))
from known_results import ROOT, KnownResults  # noqa: E402

REVISIONS = ("2026-07-28", "2025-11-25")
RESULT = re.compile(r"^([✓✗]) (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)
ONE_RESULT = re.compile(r"^Passed: (\d+)/(\d+), (\d+) failed", re.MULTILINE)
# Both revisions and both sides: connecting, calls, questions of a server, headers, logins, hostile states and origins. None depends on
# times.
SAMPLE = {
    ("2026-07-28", "client"): ("http-custom-headers", "sep-2322-client-request-state", "auth/iss-wrong-issuer"),
    ("2026-07-28", "server"): ("tools-call-with-progress", "input-required-result-tampered-state"),
    ("2025-11-25", "client"): ("initialize", "auth/basic-cimd"),
    ("2025-11-25", "server"): ("server-initialize", "tools-call-elicitation", "dns-rebinding-protection"),
}


def output_of(suite, arguments):
    """What the suite prints with these arguments."""
    command = ["node", str(suite / "node_modules/@modelcontextprotocol/conformance/dist/index.js"), *arguments]
    done = subprocess.run(command, cwd=suite, capture_output=True, text=True, timeout=900, check=False)
    # Results of one scenario of a client are on standard error.
    return done.stdout + done.stderr


def results(suite, arguments, revision):
    """The scenarios of one run, with true for those that passed."""
    output = output_of(suite, [*arguments, "--requirements", revision])
    # A scenario without a check has shown nothing.
    found = RESULT.findall(output)
    for mark, name, passed, failed in found:
        if mark == "✓" and int(passed) + int(failed) == 0:
            print(f"{revision} {arguments[0]} {name}: the suite checks nothing")
    return {name: mark == "✓" and int(passed) > 0 for mark, name, passed, _ in found}


def required(suite, revision, side):
    """The scenarios that the suite requires of the `client` or `server`: a list in its file of the revision."""
    text = (suite / f"node_modules/@modelcontextprotocol/conformance/requirements/{revision}.yaml").read_text()
    section = re.search(rf"^{side}:\n((?:(?:[ #].*)?\n)+)", text, re.MULTILINE)
    names = re.findall(r"^  - (\S+)$", section.group(1), re.MULTILINE) if section else []
    if not names:
        sys.exit(f"the suite has no requirements for the {side} of {revision}")
    return {f"{revision} {side} {name}" for name in names}


def failed_in_sample(suite, sides):
    """The scenarios of SAMPLE that fail, or check nothing, with what the suite prints."""
    def failure(scenario):
        revision, side, name = scenario
        output = output_of(suite, [*sides[side], "--scenario", name, "--spec-version", revision])
        found = ONE_RESULT.search(output)
        good = found and int(found[1]) > 0 and found[1] == found[2] and found[3] == "0"
        return "" if good else f"FAILED: {revision} {side} {name}\n{output}"
    scenarios = [(*place, name) for place, names in SAMPLE.items() for name in names]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as workers:
        failures = [text for text in workers.map(failure, scenarios) if text]
    print(f"{len(scenarios) - len(failures)} of {len(scenarios)} scenarios of the sample pass")
    return failures


def known_pass(suite):
    """The result depends on the libraries under the programs, on these files, and on the suite."""
    modules = [path for name in ("core", "schema", "net", "agent", "process", "mcp")
               for path in (ROOT / "src/cubepi" / name).rglob("*.cpp") if not path.name.endswith("_test.cpp")]
    settings = b"".join((HERE / name).read_bytes() for name in ("run_suite.py", "passing.txt"))
    known = KnownResults("mcp", settings + suite.name.encode())
    return known.key([*modules, *HERE.glob("conformance_*.cpp")]), known


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    suite = pathlib.Path(sys.argv[2]).resolve()
    sample = sys.argv[3:] == ["--sample"]
    key, known = known_pass(suite)
    if sys.argv[3:] == ["--changed"] and known.has(key):
        print("mcp: known to pass with these sources")
        return 0
    wanted = set((HERE / "passing.txt").read_text().split("\n")) - {""}
    passed = set()
    counts = []
    server = subprocess.Popen([programs / "cubepi_mcp_conformance_server", "0"], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip()
        sides = {"client": ["client", "--command", str(programs / "cubepi_mcp_conformance_client"), "--timeout", "20000"],
                 "server": ["server", "--url", url]}
        if sample:
            failures = failed_in_sample(suite, sides)
            print(*failures, sep="\n")
            return 1 if failures else 0
        for revision in REVISIONS:
            for side, arguments in sides.items():
                found = results(suite, arguments, revision)
                names = {f"{revision} {side} {name}" for name, good in found.items() if good}
                passed |= names
                needed = required(suite, revision, side)
                wanted |= needed
                counts.append(f"{revision} {side}: {len(needed & names)} of {len(needed)} required scenarios pass, "
                              f"{len(names)} of {len(found)} in all")
    finally:
        server.kill()
        server.wait()
    print(*counts, sep="\n")
    for name in sorted(passed - wanted):
        print("passes, not required by tests/mcp/passing.txt:", name)
    missing = sorted(wanted - passed)
    for name in missing:
        print("FAILED:", name)
    if missing or not wanted:
        return 1
    known.add(key)
    return 0


if __name__ == "__main__":
    sys.exit(main())
