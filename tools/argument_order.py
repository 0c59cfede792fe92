"""Finds a value that is used and moved in one list of arguments; see tools/check-argument-order.

Works on tokens, not on types. An argument list is the text in parentheses, split at commas; a braced list is evaluated from
left to right, so only the calls inside are checked.
"""
import re

from coroutine_lint import BEFORE_LAMBDA, tokenize

OPENING = {"(": ")", "[": "]", "{": "}"}
NO_CALL = {"if", "while", "for", "switch", "catch", "sizeof", "decltype", "noexcept", "alignof", "requires"}
MOVES = (["std", "::", "move", "("], ["std", "::", "exchange", "("])
FORWARD = ["std", "::", "forward", "<"]
SENTENCE = "{} is moved in one argument and used in another: compilers differ in which comes first; name one of them before"


def closing(tokens, at):
    """Returns the index of the bracket that closes the one at `at`."""
    depth = 0
    for index in range(at, len(tokens)):
        depth += (tokens[index][0] in OPENING) - (tokens[index][0] in OPENING.values())
        if depth == 0:
            return index
    return len(tokens) - 1


def is_lambda(tokens, at):
    before = tokens[at - 1][0] if at else None
    return before is None or before in BEFORE_LAMBDA or not re.fullmatch(r'\w+|[)\]]|""|>', before)


def split(tokens, begin, end):
    """Yields the arguments between two brackets as ranges. Bodies of lambdas and inner brackets are skipped."""
    start = at = begin
    while at < end:
        text = tokens[at][0]
        if text in OPENING:
            at = closing(tokens, at)
        elif text in (",", ";"):
            yield start, at
            start = at + 1
        at += 1
    yield start, end


def evaluated(tokens, begin, end):
    """The tokens evaluated with an argument: without bodies of lambdas, and of their captures only the copied ones."""
    at = begin
    words = []
    while at < end:
        if tokens[at][0] == "[" and is_lambda(tokens, at):
            last = closing(tokens, at)
            words += captured(tokens, at + 1, last)
            at = last + 1
            while at < end and tokens[at][0] != "{":
                at = closing(tokens, at) + 1 if tokens[at][0] == "(" else at + 1
            at = closing(tokens, at) + 1 if at < end else at
            continue
        words.append(tokens[at])
        at += 1
    return words


def captured(tokens, begin, end):
    words = []
    for first, last in split(tokens, begin, end):
        part = [text for text, _ in tokens[first:last]]
        words += tokens[first + 2:last] if part[1:2] == ["="] else [token for token in tokens[first:last] if token[0] not in "&="]
        words.append((",", tokens[first][1] if first < last else 0))
    return words


def moved_in(words):
    """The objects that an argument moves, as lists of tokens: x, this->x, x.y, x[i]."""
    texts = [text for text, _ in words]
    for at in range(len(texts)):
        begin = None
        if texts[at:at + 4] in MOVES:
            begin = at + 4
        elif texts[at:at + 4] == FORWARD and "(" in texts[at:]:
            begin = texts.index("(", at) + 1
        if begin is None:
            continue
        end = closing(words, begin - 1)
        if texts[at + 2] == "exchange":
            end = next(split(words, begin, end))[1]
        moved = plain(texts[begin:end])
        if moved:
            yield moved


def plain(texts):
    texts = list(texts)
    while texts[:1] in (["*"], ["("]) and len(texts) > 1:
        texts = texts[1:-1] if texts[0] == "(" and texts[-1] == ")" else texts[1:]
    if texts[:2] == ["this", "->"]:
        texts = texts[2:]
    return texts if texts and re.fullmatch(r"[A-Za-z_]\w*", texts[0]) and "(" not in texts else []


def uses(words, moved):
    """Whether these tokens read `moved` or an object that contains it."""
    texts = [text for text, _ in words]
    for at in range(len(texts)):
        before = texts[at - 1] if at else ""
        member = before in (".", "->") and texts[max(at - 2, 0)] != "this" or before == "::"
        if texts[at] != moved[0] or member:
            continue
        if texts[at:at + len(moved)] == moved:
            behind = texts[at + len(moved)] if at + len(moved) < len(texts) else ""
            return behind != "::"
        # The whole object, of which a part is moved.
        behind = texts[at + 1] if at + 1 < len(texts) else ""
        if len(moved) > 1 and moved[1] in (".", "->") and behind in ("", ",", ")"):
            return True
    return False


def lint(source):
    """Returns [(line, sentence)] for one C++ source."""
    excused = {number for number, text in enumerate(source.splitlines(), 1) if re.search(r"// any order: \w", text)}
    tokens = tokenize(source)
    findings = set()
    for at, (text, _) in enumerate(tokens):
        if text != "(" or at == 0 or tokens[at - 1][0] in NO_CALL or not is_call(tokens[at - 1][0]):
            continue
        end = closing(tokens, at)
        arguments = [evaluated(tokens, first, last) for first, last in split(tokens, at + 1, end)]
        for number, argument in enumerate(arguments):
            for moved in moved_in(argument):
                if any(uses(other, moved) for place, other in enumerate(arguments) if place != number):
                    lines = range(tokens[at][1] - 1, tokens[end][1] + 1)
                    if not excused.intersection(lines):
                        findings.add((tokens[at][1], SENTENCE.format("".join(moved))))
    return sorted(findings)


def is_call(before):
    return bool(re.fullmatch(r"\w+|[)\]>]", before))
