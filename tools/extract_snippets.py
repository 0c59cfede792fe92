#!/usr/bin/env python3
"""Writes the C++ snippets of a Markdown page to one source file, which the tests compile.

    ```cpp          statements: the body of a coroutine, or a whole program when it has `int main(`
    ```cpp file     declarations and functions, outside of any function
    ```cpp sketch   is not compiled: shapes with `...` in them; use it for as little as possible

Each snippet sees what `<!-- snippet-context` ... `-->` comments before it on the page declare (hidden from readers: the
`agent` that a snippet uses), and #includes may stand anywhere. Compiler messages name the page and its line.
"""
import argparse
import pathlib
import re

PART = re.compile(r"^<!-- snippet-context\n(?P<context>.*?)^-->|^```cpp(?P<kind>[^\n]*)\n(?P<code>.*?)^```",
                  re.MULTILINE | re.DOTALL)
INCLUDE = re.compile(r"^\s*#\s*include\s.*$", re.MULTILINE)


def convert(page, text, name):
    """Returns the source file for one page, or None if it has no snippets. `name` is unique, an identifier."""
    includes = ["#include <cubepi/cubepi.hpp>"]
    body = []
    context = ""
    number = 0
    for part in PART.finditer(text):
        code = part.group("context") or part.group("code") or ""
        start = part.start("context") if part.group("context") is not None else part.start("code")
        includes += [line.strip() for line in INCLUDE.findall(code)]
        # Blank lines preserve the line numbers.
        code = INCLUDE.sub("", code)
        located = f'#line {text.count(chr(10), 0, start) + 1} "{page}"\n{code}'
        if part.group("context") is not None:
            context += located
            continue
        kind = part.group("kind").strip()
        if kind == "sketch":
            continue
        number += 1
        body.append(f"namespace {name}_{number} {{\nusing namespace cubepi;\n{context}")
        if kind == "file" or re.search(r"\bint main\s*\(", code):
            body.append(located)
        else:
            body.append(f"[[maybe_unused]] Task<void> body() {{\n{located}\nco_return;\n}}\n")
        body.append("}\n")
    if not number:
        return None
    return "\n".join(dict.fromkeys(includes)) + "\n\n" + "\n".join(body)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page")
    parser.add_argument("target", type=pathlib.Path)
    arguments = parser.parse_args()
    source = convert(arguments.page, pathlib.Path(arguments.page).read_text(), arguments.target.stem)
    arguments.target.write_text(source or "// This page has no snippets.\n")


if __name__ == "__main__":
    main()
