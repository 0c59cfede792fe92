#!/usr/bin/env python3
"""Generates src/bub/tape/search/case_folding_table.hpp from the Unicode tables of this Python.

    tools/make_case_folding_table.py            writes the file
    tools/make_case_folding_table.py --check    compares it, if this Python has the Unicode version that it names
"""

import argparse
import pathlib
import re
import sys
import unicodedata

PATH = pathlib.Path(__file__).resolve().parent.parent / "src/bub/tape/search/case_folding_table.hpp"
WIDTH = 115

HEAD = """#pragma once

#include <array>
#include <cstdint>

namespace bub::detail {{

// Made by tools/make_case_folding_table.py from Unicode {version}: full case folding over canonical decomposition, without
// Hangul syllables and ASCII. Both tables are sorted.

struct FoldedRange {{
    std::uint32_t first;
    std::uint32_t last;
    std::uint32_t stride;
    std::int32_t delta;
}};
struct FoldedSequence {{
    std::uint32_t code;
    std::uint16_t offset;  ///< into folded_pool
    std::uint16_t size;
}};

// clang-format off
"""

TAIL = """// clang-format on

}  // namespace bub::detail
"""


def is_table_free(code: int) -> bool:
    """Surrogates are not characters, and Hangul syllables are decomposed by arithmetic."""
    return 0xD800 <= code <= 0xDFFF or 0xAC00 <= code <= 0xD7A3


def folded(code: int) -> str:
    decomposed = unicodedata.normalize("NFD", chr(code))
    return unicodedata.normalize("NFD", decomposed.casefold())


def mapping() -> dict[int, str]:
    found = {}
    for code in range(0x80, sys.maxunicode + 1):
        if is_table_free(code):
            continue
        to = folded(code)
        if to != chr(code):
            found[code] = to
    return found


def ranges_of(single: list[tuple[int, int]]) -> list[list[int]]:
    """[first, last, stride, delta] of codes that go to one code each."""
    ranges: list[list[int]] = []
    for code, delta in single:
        if ranges:
            first, last, stride, same = ranges[-1]
            step = code - last
            fits = step == stride if last > first else step <= 2
            if same == delta and fits:
                ranges[-1] = [first, code, step, delta]
                continue
        ranges.append([code, code, 1, delta])
    return ranges


def sequences_of(several: list[tuple[int, str]]) -> tuple[list[tuple[int, int, int]], list[int]]:
    sequences = []
    pool: list[int] = []
    for code, text in several:
        sequences.append((code, len(pool), len(text)))
        pool.extend(map(ord, text))
    return sequences, pool


def array(kind: str, name: str, items: list[str]) -> str:
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) + 6 > WIDTH:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + item + ","
    body = "\n".join("    " + line for line in lines)
    return f"inline constexpr std::array<{kind}, {len(items)}> {name} = {{{{\n{body}\n}}}};\n"


def header() -> str:
    found = mapping()
    single = [(code, ord(to) - code) for code, to in found.items() if len(to) == 1]
    several = [(code, to) for code, to in found.items() if len(to) > 1]
    sequences, pool = sequences_of(several)
    ranges = [f"{{{a:#X}, {b:#X}, {stride}, {delta}}}" for a, b, stride, delta in ranges_of(single)]
    lists = [f"{{{code:#X}, {offset}, {size}}}" for code, offset, size in sequences]
    text = HEAD.format(version=unicodedata.unidata_version)
    text += array("FoldedRange", "folded_ranges", ranges)
    text += array("FoldedSequence", "folded_sequences", lists)
    text += array("std::uint32_t", "folded_pool", [f"{code:#X}" for code in pool])
    return (text + TAIL).replace("0X", "0x")


def check() -> int:
    there = PATH.read_text(encoding="utf-8")
    made_with = re.search(r"from Unicode ([0-9.]+):", there)
    if made_with is None:
        print(f"{PATH}: the first lines do not name a Unicode version; run tools/make_case_folding_table.py")
        return 1
    if made_with[1] != unicodedata.unidata_version:
        return 0
    if there == header():
        return 0
    print(f"{PATH}: differs from the output of tools/make_case_folding_table.py; run it")
    return 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; check that the file is up to date")
    if parser.parse_args().check:
        sys.exit(check())
    PATH.write_text(header(), encoding="utf-8")
