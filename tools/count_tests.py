#!/usr/bin/env python3
"""Sums the results of one run of ctest.

A GoogleTest binary is one ctest entry and writes its own counts to test-results/<entry>.xml; any other entry
counts as one test. An entry that died before it could write its counts is one failure. Prints the output of each
failed entry, cut in its middle where it is long, and then "<label>: N passed, N failed".
"""
import argparse
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def google_test_counts(file):
    """Returns (passed, failed) of one GoogleTest result file, or None if the file is missing or incomplete.

    Reads only the counts: GoogleTest writes parameters with invalid UTF-8 as they are, which is not XML.
    """
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return None
    counts = re.search(r'<testsuites tests="(\d+)" failures="(\d+)" disabled="\d+" errors="(\d+)"', text)
    if not counts or not text.rstrip().endswith("</testsuites>"):
        return None
    total, failed, errors = map(int, counts.groups())
    return total - failed - errors, failed + errors


MOST_LINES = 400


def interesting(output):
    """The output of an entry without its successful tests. Of a test that hung the RUN line remains."""
    output = re.sub(r"^\[ RUN      \] (.*)\n\[       OK \] \1 .*\n", "", output, flags=re.MULTILINE)
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith(("[-----", "[====="))]
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        lines[half:-half] = [f"... {len(lines) - MOST_LINES} lines ..."]
    return "\n".join(lines) or "(no output)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--label", required=True)
    parser.add_argument("--append", type=pathlib.Path, help="append the counts to this file")
    parser.add_argument("--failures", type=pathlib.Path, help="append the output of failed entries to this file")
    arguments = parser.parse_args()

    passed = failed = 0
    failures = []
    entries = ElementTree.parse(arguments.build / "test-results.xml").getroot().findall("testcase")
    for entry in entries:
        name = entry.get("name")
        good = entry.get("status") == "run"
        counts = google_test_counts(arguments.build / "test-results" / f"{name}.xml")
        if counts is None or (not good and counts[1] == 0):
            counts = ((counts[0] if counts else 0) + good, int(not good))
        passed += counts[0]
        failed += counts[1]
        if not good:
            failures.append(f"---- {name} ({arguments.label}) failed:\n{interesting(entry.findtext('system-out') or '')}\n")
    if not entries:
        print(f"{arguments.label}: no tests ran")
        failed += 1
    print(*failures, sep="", end="")
    print(f"{arguments.label}: {passed} passed, {failed} failed")
    if arguments.failures:
        with arguments.failures.open("a") as file:
            file.writelines(failures)
    if arguments.append:
        with arguments.append.open("a") as file:
            file.write(f"{arguments.label} {passed} {failed}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
