#!/usr/bin/env python3
"""including_headers.py HEADERS: prints the headers in HEADERS that are named on standard input, and those that include one of them,
directly or through others. HEADERS and the input have one path per line."""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def included(header, known):
    """The headers of `known` that `header` includes."""
    for name in INCLUDE.findall(pathlib.Path(header).read_text(encoding="utf-8")):
        for path in (f"src/{name}", str(pathlib.PurePosixPath(header).parent / name)):
            if path in known:
                yield path


def with_including(changed, headers):
    """`changed`, and the headers that include one of them."""
    includers = {}
    for header in headers:
        for other in included(header, headers):
            includers.setdefault(other, []).append(header)
    found = set()
    waiting = [header for header in changed if header in headers]
    while waiting:
        header = waiting.pop()
        if header not in found:
            found.add(header)
            waiting += includers.get(header, [])
    return found


if __name__ == "__main__":
    print("\n".join(sorted(with_including(sys.stdin.read().split(), set(sys.argv[1].split())))))
