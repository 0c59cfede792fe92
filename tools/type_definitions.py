"""Finds types that are defined twice under one name; see tools/check-definitions. Works on tokens, not a compiler."""
import collections

from coroutine_lint import tokenize

CLOSING = {"{": "}", "(": ")", "<": ">"}
TYPES = {"struct", "class", "union", "enum"}
UNNAMED = None


class Reader:
    """Collects the types that a source defines at the level of namespaces, with the lines of their definitions."""

    def __init__(self, source):
        self.tokens = tokenize(source)
        self.types = {}
        self.namespaces = []
        at = 0
        while at < len(self.tokens):
            at = self.declaration(at)

    def text(self, at):
        return self.tokens[at][0] if at < len(self.tokens) else None

    def skip(self, at):
        """The position after the bracket that closes the one at `at`."""
        opening, closing = self.text(at), CLOSING[self.text(at)]
        depth = 0
        while at < len(self.tokens):
            depth += (self.text(at) == opening) - (self.text(at) == closing)
            at += 1
            if depth == 0:
                break
        return at

    def declaration(self, at):
        """Reads what begins at `at`; returns the position after it."""
        text = self.text(at)
        if text == "namespace":
            return self.namespace(at + 1)
        if text == "}":
            if self.namespaces:
                self.namespaces.pop()
            return at + 1
        if text == "template" and self.text(at + 1) == "<":
            return self.skip(at + 1)
        if text in TYPES:
            return self.type(at + 1)
        return self.skip(at) if text in ("{", "(") else at + 1

    def namespace(self, at):
        name = []
        while self.text(at) not in ("{", ";", "=", None):
            name.append(self.text(at))
            at += 1
        if self.text(at) == "{":
            self.namespaces.append("".join(name) or UNNAMED)
        return at + 1

    def type(self, at):
        """Reads from the keyword to the end of the body. `struct a::b` defines a member; `struct a<b>` specialises a template."""
        line = self.tokens[at - 1][1]
        name, other = None, False
        in_name = True
        while self.text(at) not in ("{", ";", "(", "=", None):
            text = self.text(at)
            if text == "[" and self.text(at + 1) == "[":
                while self.text(at) not in ("]", None):
                    at += 1
                at += 1
            elif text == "<":
                other = other or in_name
                at = self.skip(at)
                continue
            elif text == ":":
                in_name = False
            elif text == "::" and in_name:
                other = True
            elif in_name and text.isidentifier() and text not in ("class", "struct", "final"):
                name = text
            at += 1
        if self.text(at) != "{":
            return at + 1
        if name and not other and UNNAMED not in self.namespaces:
            self.types.setdefault("::".join([*self.namespaces, name]), line)
        return self.skip(at)


def types_of(source):
    return Reader(source).types


def defined_twice(sources):
    """`sources` maps names of files to their texts. Returns (file, line, sentence) for each definition of a type that another file
    also defines."""
    places = collections.defaultdict(list)
    for file, source in sources.items():
        for name, line in types_of(source).items():
            places[name].append((file, line))
    found = []
    for name, where in places.items():
        if len(where) < 2:
            continue
        for file, line in where:
            others = ", ".join(other for other, _ in where if other != file)
            found.append((file, line, f"{name} is also defined in {others}; rename one of them"))
    return sorted(found)
