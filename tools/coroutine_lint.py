"""Finds code around co_await that g++ 12 miscompiles; see tools/check-coroutines for the rules.

A small parser, not a compiler: it splits a source into tokens, tells blocks from braced initialisers, and collects for each
full expression (a statement, or one part of the parentheses of if, for, while, switch) what it contains. The body
of a lambda is a block of its own.
"""
import re

TOKEN = re.compile(r"""
    (?P<space>\s+ | \\\n)
  | (?P<comment>//(?:\\\n|[^\n])* | /\*.*?\*/)
  | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^(\s]*)\(.*?\)(?P=delimiter)")
  | (?P<text>(?:u8|[uUL])?(?:"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'))
  | (?P<directive>(?<![^\n])[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<number>\.?\d(?:'?[\w.])*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<mark>->|::|&&|\|\||<=>|\+\+|--|[-+*/%&|^!=<>]=|.)
""", re.VERBOSE | re.DOTALL)

CONTROL = {"if", "while", "for", "switch", "catch"}
# After these words a [ begins a lambda, and not a subscript.
BEFORE_LAMBDA = {"return", "co_return", "co_await", "co_yield", "case", "else", "do", "throw"}
BEFORE_BLOCK = {None, ";", "{", "}", ":", ")", "else", "do", "try", "const", "noexcept", "override", "final", "mutable"}
TYPE_KEYWORDS = {"namespace", "struct", "class", "union", "enum", "requires", "extern"}

BRACES = "braced initialiser in an expression that awaits: name the object first, then await"
CAPTURE = "capturing lambda in an expression that awaits: name the lambda first, then await f(std::move(it))"
TERNARY = "?: between awaitables: use if and else"
CO_RETURN = "co_return with a braced list: name the object first"
DETACHED = "detached coroutine: start children through TaskScope"


def tokenize(source):
    """Returns (text, line) of every token except comments, directives and blanks. Strings become "" tokens."""
    line = 1
    tokens = []
    for match in TOKEN.finditer(source):
        kind = match.lastgroup if match.lastgroup != "delimiter" else "raw"
        if kind in ("word", "number", "mark"):
            tokens.append((match.group(), line))
        elif kind in ("raw", "text"):
            tokens.append(('""', line))
        line += match.group().count("\n")
    return tokens


class Expression:
    """The state of the parser within one full expression."""

    def __init__(self):
        self.head = []            # tokens outside all brackets: tells a type or a function from a statement
        self.awaits = False
        self.findings = []
        self.certain = []         # wrong whether or not the expression awaits
        self.questions = [False]  # one per open bracket: is there a ? in this argument?


class Linter:
    def __init__(self, source):
        self.tokens = tokenize(source)
        self.at = 0
        self.findings = []

    def run(self):
        while self.at < len(self.tokens):
            self.block()
        return sorted(set(self.findings))

    def peek(self, offset=0):
        index = self.at + offset
        return self.tokens[index][0] if 0 <= index < len(self.tokens) else None

    def finish(self, expression):
        if expression.awaits:
            self.findings += expression.findings
        self.findings += expression.certain

    def block(self):
        """Statements up to the closing brace, which is consumed."""
        expression = Expression()
        while self.at < len(self.tokens):
            text = self.peek()
            previous = self.peek(-1)
            if text == "}":
                self.at += 1
                break
            if text == ";":
                self.at += 1
                self.finish(expression)
                expression = Expression()
            elif text in CONTROL and self.skip_to_control_parenthesis():
                self.finish(expression)
                self.control()
                expression = Expression()
            elif text == "{" and self.opens_block(expression, previous):
                self.at += 1
                self.finish(expression)
                self.block()
                expression = Expression()
            else:
                expression.head.append(text)
                self.step(expression)
        self.finish(expression)

    def skip_to_control_parenthesis(self):
        offset = 1
        while self.peek(offset) in ("constexpr", "consteval", "!"):
            offset += 1
        if self.peek(offset) != "(":
            return False
        self.at += offset + 1
        return True

    def control(self):
        """The parentheses after if, for, while, switch: each part is a full expression."""
        expression = Expression()
        while self.at < len(self.tokens):
            text = self.peek()
            if text == ")":
                self.at += 1
                break
            if text == ";":
                self.at += 1
                self.finish(expression)
                expression = Expression()
            else:
                self.step(expression)
        self.finish(expression)

    def opens_block(self, expression, previous):
        if previous in BEFORE_BLOCK:
            return True
        head = list(expression.head)
        if head[:1] == ["template"]:
            head = self.without_template_header(head)
        if previous == '""':
            return "extern" in head
        if TYPE_KEYWORDS & set(head):
            return True
        arrows = [index for index, text in enumerate(head) if text == "->"]
        return any(index and head[index - 1] in (")", "const", "noexcept", "(") for index in arrows)

    @staticmethod
    def without_template_header(head):
        depth = 0
        for index, text in enumerate(head):
            depth += (text == "<") - (text == ">")
            if index and text == ">" and depth == 0:
                return head[index + 1:]
        return head

    def step(self, expression):
        """One token of an expression, or one bracketed group."""
        text, line = self.tokens[self.at]
        previous = self.peek(-1)
        qualifier = self.peek(-2) if previous == "::" else None
        self.at += 1
        if text == "co_await":
            expression.awaits = True
            if any(expression.questions):
                expression.certain.append((line, TERNARY))
        elif text == "co_return" and self.peek() == "{":
            expression.certain.append((line, CO_RETURN))
        elif text == "?":
            expression.questions[-1] = True
        elif text == ",":
            expression.questions[-1] = False
        elif text == "(":
            questioned = self.group(expression, ")")
            if previous == "co_await" and questioned:
                expression.certain.append((line, TERNARY))
        elif text == "{":
            expression.findings.append((line, BRACES))
            self.group(expression, "}")
        elif text == "[":
            self.bracket(expression, line)
        elif text == "detached" and (qualifier == "asio" or previous in (",", "(")):
            expression.certain.append((line, DETACHED))

    def group(self, expression, end):
        """Up to the closing bracket. True when it had a ? of its own."""
        expression.questions.append(False)
        questioned = False
        while self.at < len(self.tokens) and self.peek() != end:
            if self.peek() == "{" and self.peek(-1) == ")" and end == "}":
                self.at += 1          # a block in the argument of a macro
                self.block()
                continue
            self.step(expression)
            questioned = questioned or expression.questions[-1]
        self.at += 1
        expression.questions.pop()
        if end == ")":
            expression.head.append(")")
        return questioned

    def bracket(self, expression, line):
        """A [ was consumed: an attribute, a subscript, a structured binding or a lambda."""
        before = self.peek(-2)
        if self.peek() == "[":
            self.skip_balanced("[", "]")
            return
        is_binding = before == "auto" or (before in ("&", "&&") and self.peek(-3) == "auto")
        is_value = before is not None and (re.fullmatch(r'\w+|[)\]]|""|>', before)) and before not in BEFORE_LAMBDA
        if is_binding or is_value:
            while self.at < len(self.tokens) and self.peek() != "]":
                self.step(expression)
            self.at += 1
            return
        captures = self.skip_balanced("[", "]")
        if captures:
            expression.findings.append((line, CAPTURE))
        self.lambda_rest()

    def lambda_rest(self):
        """From behind the captures to the end of the body."""
        while self.at < len(self.tokens):
            text = self.peek()
            if text == "{":
                self.at += 1
                self.block()
                return
            if text in (";", ")", "]", "}", "="):
                return
            self.at += 1
            if text == "(":
                self.skip_balanced("(", ")")

    def skip_balanced(self, opening, closing):
        """Behind the bracket that closes the one just consumed; the number of tokens between."""
        depth = 1
        count = 0
        while self.at < len(self.tokens):
            text = self.peek()
            self.at += 1
            depth += (text == opening) - (text == closing)
            if depth == 0:
                break
            count += 1
        return count


def lint(source):
    """Returns [(line, sentence)] for one C++ source."""
    return Linter(source).run()


def markdown_snippets(text):
    """The ```cpp blocks of a page, each with the lines before it blanked so that line numbers stay right."""
    for match in re.finditer(r"^```(?:cpp|c\+\+)[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield "\n" * text.count("\n", 0, match.start(1)) + match.group(1)
