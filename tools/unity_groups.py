#!/usr/bin/env python3
"""unity_groups.py FILE: divides the sources of targets into groups that can be compiled as one translation unit each.

Each line of FILE is "TARGET|DIRECTORY|SOURCE;SOURCE...", with the directory that defines the target. Prints commands for CMake that set
UNITY_GROUP of the sources. Two files can share a translation unit if no name that one of them declares for itself (in an unnamed
namespace, static, constexpr, an alias, a macro) occurs in the other: they then mean the same as when compiled alone. A name after
. -> or :: is a member or qualified, and does not count; nor do equal aliases, and names that `using` takes from another namespace. All
files of a group have the same using-directives. A source of several targets of a directory gets no group, because CMake has one
UNITY_GROUP for all of them.
"""
import collections
import multiprocessing
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
from coroutine_lint import tokenize   # noqa: E402

MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w*")
TYPES = {"struct", "class", "union", "enum", "concept"}
PRIVATE = {"static", "constexpr", "constinit", "const", "using"}
NO_NAMES = {"TEST", "TEST_F", "TEST_P", "TYPED_TEST", "INSTANTIATE_TEST_SUITE_P", "operator", "template", "static_assert"}

LARGEST = 8        # files
BYTES = 100_000    # of source code: bounds the memory of the compiler


def declared_name(head):
    """The name that a declaration declares; `head` has its words and marks up to the body, the arguments or the value."""
    for keyword in TYPES:
        if keyword in head:
            words = [word for word in head[head.index(keyword) + 1:] if WORD.fullmatch(word) and word not in TYPES]
            return words[0] if words else None
    if not head or not WORD.fullmatch(head[-1]) or (len(head) > 1 and head[-2] == "::"):
        return None
    return None if head[-1] in NO_NAMES else head[-1]


class Declarations:
    """Finds the names that a source declares for itself, at the level of namespaces."""

    def __init__(self, tokens):
        self.tokens = tokens
        self.names = {}    # an alias has its tokens as its value, other names None
        self.directives = set()
        self.scopes = []   # for each open namespace, is it unnamed?
        at = 0
        while at < len(self.tokens):
            at = self.declaration(at)

    def skip(self, at, opening, closing):
        """The position after the bracket that closes the one at `at`."""
        depth = 0
        while at < len(self.tokens):
            depth += (self.tokens[at] == opening) - (self.tokens[at] == closing)
            at += 1
            if depth == 0:
                break
        return at

    def declaration(self, at):
        """Reads what begins at `at`; returns the position after it."""
        tokens = self.tokens
        if tokens[at] == "namespace":
            end = at + 1
            while end < len(tokens) and tokens[end] not in "{;=":
                end += 1
            if end < len(tokens) and tokens[end] == "{":
                self.scopes.append(end == at + 1)
            return end + 1
        if tokens[at] == "}":
            if self.scopes:
                self.scopes.pop()
            return at + 1
        head = []
        named = False
        while at < len(tokens):
            text = tokens[at]
            if text == "<":
                at = self.skip(at, "<", ">")
                continue
            if text in "({=;" or (text == "[" and head and tokens[at + 1] != "["):
                if not named:
                    self.declare(head, at)
                named = True
            if text == ";":
                return at + 1
            if text == "(":
                at = self.skip(at, "(", ")")
            elif text == "[":
                at = self.skip(at, "[", "]")
            elif text == "{":
                at = self.skip(at, "{", "}")
                if at < len(tokens) and tokens[at] == ";":
                    at += 1
                return at
            elif text == "}":
                return at
            else:
                head.append(text)
                at += 1
        return at

    def declare(self, head, at):
        is_using = head[:1] == ["using"]
        if head[:2] == ["using", "namespace"]:
            self.directives.add("".join(head[2:]))
        if not (any(self.scopes) or PRIVATE.intersection(head)) or (is_using and self.tokens[at] != "="):
            return
        name = declared_name(head)
        if name:
            self.names[name] = self.tokens[at:self.tokens.index(";", at)] if is_using else None


def names_of(source):
    """The names that a source declares for itself, all unqualified names in it, and its using-directives."""
    tokens = [text for text, _ in tokenize(source)]
    declarations = Declarations(tokens)
    private = declarations.names | dict.fromkeys(MACRO.findall(source))
    used = {text for before, text in zip([""] + tokens, tokens)
            if before not in (".", "->", "::") and (text[0].isalpha() or text[0] == "_")}
    return private, used, declarations.directives


def have_another_meaning(private, others, used):
    """Is one of the private names used where it is not the same alias?"""
    return any(alias is None or others.get(name) != alias for name, alias in private.items() if name in used)


class Group:
    def __init__(self, directives):
        self.files = []
        self.private = {}
        self.used = set()
        self.directives = directives
        self.bytes = 0

    def takes(self, private, used, directives, size):
        return (len(self.files) < LARGEST and self.bytes + size <= BYTES and directives == self.directives and
                not have_another_meaning(private, self.private, self.used) and
                not have_another_meaning(self.private, private, used))

    def add(self, file, private, used, size):
        self.files.append(file)
        self.private |= private
        self.used |= used
        self.bytes += size


def groups_of(facts):
    """`facts` maps the name of a file to its names_of() and its size; returns lists of names."""
    groups = []
    for file, (names, size) in facts.items():
        group = next((one for one in groups if one.takes(*names, size)), None)
        if group is None:
            group = Group(names[2])
            groups.append(group)
        group.add(file, names[0], names[1], size)
    return [group.files for group in groups]


def facts_of(file):
    source = pathlib.Path(file).read_text(encoding="utf-8")
    return names_of(source), len(source)


def parse_targets(text):
    """Returns (target, directory, full names of its sources) for each line."""
    targets = []
    for line in text.splitlines():
        target, directory, sources = line.split("|")
        targets.append((target, directory, [os.path.join(directory, name) for name in sources.split(";")]))
    return targets


def commands(targets, facts):
    """Returns the commands for CMake. `facts` maps the name of a file to its facts_of()."""
    users = collections.Counter((directory, file) for _, directory, files in targets for file in files)
    lines = []
    for target, directory, files in targets:
        own = {file: facts[file] for file in files if users[directory, file] == 1}
        for number, group in enumerate(groups_of(own), start=1):
            names = "\n    ".join(f'"{file}"' for file in group)
            lines.append(f"set_source_files_properties(\n    {names}\n    TARGET_DIRECTORY {target} PROPERTIES UNITY_GROUP group{number})\n")
    return "".join(lines)


def main():
    targets = parse_targets(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    files = sorted({file for _, _, files in targets for file in files})
    with multiprocessing.Pool() as pool:
        facts = dict(zip(files, pool.map(facts_of, files, chunksize=16)))
    print(commands(targets, facts), end="")


if __name__ == "__main__":
    main()
