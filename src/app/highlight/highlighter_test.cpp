#include "highlighter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::app {
namespace {

// Without limits of time, so that a slow machine has the same colors.
HighlightLimits without_time() {
    HighlightLimits limits;
    limits.time = std::chrono::microseconds(0);
    return limits;
}

const CodeLanguage& language(std::string_view name) {
    const CodeLanguage* const found = language_of_fence(name);
    if (!found) throw std::runtime_error("no language " + std::string(name));
    return *found;
}

/// The text with its pieces in brackets, each with the first letter of its role.
std::string marked(std::string_view code, const std::vector<CodeSpan>& spans) {
    constexpr std::string_view letters = "_kscnftgy";  // g: tag, y: key
    std::string text;
    std::size_t at = 0;
    for (const CodeSpan& span : spans) {
        text += code.substr(at, span.begin - at);
        text += std::string(1, letters[static_cast<std::size_t>(span.role)]) + "[";
        text += std::string(code.substr(span.begin, span.end - span.begin)) + "]";
        at = span.end;
    }
    return text + std::string(code.substr(at));
}

std::string colored(std::string_view name, std::string_view code) {
    return marked(code, Highlighter(language(name), without_time()).add(code));
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
        lines.push_back(text.substr(0, end));
        text.remove_prefix(end);
    }
    return lines;
}

std::string colored_by_line(std::string_view name, std::string_view code) {
    Highlighter highlighter(language(name), without_time());
    std::string text;
    for (const std::string_view line : lines_of(code)) text += marked(line, highlighter.add(line));
    return text;
}

struct Sample {
    std::string_view name;
    std::string_view code;
    std::string_view expected;
};

void PrintTo(const Sample& sample, std::ostream* to) { *to << sample.name; }

class HighlighterLanguage : public ::testing::TestWithParam<Sample> {};

TEST_P(HighlighterLanguage, Sample_HasColors) {
    EXPECT_EQ(colored(GetParam().name, GetParam().code), GetParam().expected);
}

TEST_P(HighlighterLanguage, AnyPrefix_IsAccepted) {
    const std::string_view code = GetParam().code;
    for (std::size_t i = 0; i <= code.size(); ++i)
        (void)colored_by_line(GetParam().name, code.substr(0, i));
}

constexpr Sample samples[] = {
    {"bash", "# run\nif [ -f \"$x\" ]; then echo 'a' > out; fi\n",
     "c[# run]\nk[if] [ -f s[\"$x\"] ]; k[then] f[echo] s['a'] > out; k[fi]\n"},
    {"c", "/* a */ static int f(const char* p) { return MAX + 1; }\n",
     "c[/* a */] k[static] t[int] f[f](k[const] t[char]* p) { k[return] n[MAX] + n[1]; }\n"},
    {"cpp", "// c\nnamespace a {\nauto f = co_await g<int>(\"x\", 0x1F);\n}\n",
     "c[// c]\nk[namespace] a {\nt[auto] f = k[co_await] f[g]<t[int]>(s[\"x\"], n[0x1F]);\n}\n"},
    {"css", "a:hover { color: #fff; width: 3px; }\n",
     "g[a]:y[hover] { y[color]: s[#fff]; y[width]: n[3]t[px]; }\n"},
    {"go", "package main\n\nfunc main() { s := `a`; fmt.Println(s, nil) }\n",
     "k[package] main\n\nk[func] f[main]() { s := s[`a`]; fmt.f[Println](s, n[nil]) }\n"},
    {"html", "<!-- c --><a href=\"x\">text</a>\n",
     "c[<!-- c -->]<g[a] g[href]=\"s[x]\">text</g[a]>\n"},
    {"java", "@Override public int size() { return 0; } // n\n",
     "@g[Override] k[public] t[int] f[size]() { k[return] n[0]; } c[// n]\n"},
    {"javascript", "const f = async (x) => `a${x + 1}b`; // n\n",
     "k[const] f[f] = k[async] (x) => s[`a]${x + n[1]}s[b`]; c[// n]\n"},
    {"json", "{\"a\": [1, true, \"x\"]}\n", "{y[\"a\"]: [n[1], n[true], s[\"x\"]]}\n"},
    {"python", "@d\ndef f(x: int) -> str:\n    return f\"{x}\"  # n\n",
     "f[@d]\nk[def] f[f](x: t[int]) -> t[str]:\n    k[return] s[f\"]{x}s[\"]  c[# n]\n"},
    {"rust", "#[test]\nfn f() -> Vec<u8> { println!(\"{}\", 1); }\n",
     "g[#[test]]\nk[fn] f[f]() -> t[Vec]<t[u8]> { f[println!](s[\"{}\"], n[1]); }\n"},
    {"ts", "interface A { b: string }\nexport const c = (d: A) => <p>{d.b}</p>;\n",
     "k[interface] t[A] { b: t[string] }\nk[export] k[const] f[c] = (d: t[A]) => "
     "<g[p]>{d.b}</g[p]>;\n"},
    {"yaml", "# c\na: 1\nb: [\"x\", true]\n", "c[# c]\ny[a]: n[1]\ny[b]: [s[\"x\"], n[true]]\n"},
};

INSTANTIATE_TEST_SUITE_P(Samples, HighlighterLanguage, ::testing::ValuesIn(samples),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Highlighter, LineByLine_EqualsWholeText) {
    constexpr std::string_view code = "int f(int a) {\n    return a;\n}\nint b = 1;\n";
    EXPECT_EQ(colored_by_line("c", code), colored("c", code));
}

TEST(Highlighter, OpenComment_IsAComment) {
    EXPECT_EQ(colored_by_line("c", "/* a\n b int\n*/ int c;\n"),
              "c[/* a\n]c[ b int\n]c[*/] t[int] c;\n");
    EXPECT_EQ(colored_by_line("cpp", "void f() {\n    /* return\n"),
              "t[void] f[f]() {\n    c[/* return\n]");
}

TEST(Highlighter, OpenString_IsAString) {
    EXPECT_EQ(
        colored_by_line("python",
                        "def f():\n    \"\"\"for all\n    and if\n    \"\"\"\n    return 1\n"),
        "k[def] f[f]():\n    s[\"\"\"for all\n]s[    and if\n]s[    \"\"\"]\n    k[return] n[1]\n");
    EXPECT_EQ(colored_by_line("js", "a = `if\nfor`;\nif (b) c();\n"),
              "a = s[`if\n]s[for`];\nk[if] (b) f[c]();\n");
}

TEST(Highlighter, TooLongText_IsPlain) {
    HighlightLimits limits = without_time();
    limits.bytes = 10;
    Highlighter highlighter(language("c"), limits);
    EXPECT_FALSE(highlighter.add("int a;\n").empty());
    EXPECT_TRUE(highlighter.add("int b;\n").empty());
    EXPECT_TRUE(highlighter.add("//\n").empty());
    EXPECT_TRUE(Highlighter(language("c"), limits).add(std::string(11, ' ')).empty());
    // Far beyond the limit: neither parsed nor copied.
    EXPECT_TRUE(Highlighter(language("c")).add(std::string(std::size_t{10} << 20, '(')).empty());
}

TEST(Highlighter, ExpiredTime_LeavesTheRestPlain) {
    HighlightLimits limits;
    limits.time = std::chrono::microseconds(1);
    Highlighter highlighter(language("cpp"), limits);
    std::string code;
    for (int i = 0; i < 2000; ++i) code += "int f(int a) { return a; }\n";
    EXPECT_TRUE(highlighter.add(code).empty());
    EXPECT_TRUE(highlighter.add("int a;\n").empty());
}

TEST(Highlighter, HostileText_KeepsPiecesInOrder) {
    std::vector<std::string> texts = {
        std::string("a\0b\n", 4), "\xff\xfe\x80\n", "\xf0\x9f\n\x98\x80\n",
        std::string(3000, '\\'),  "\r\r\r\n",       "\xef\xbb\xbfint a;\n"};
    for (const std::string_view piece :
         {"(", "[", "{", "<", "- ", "'", "\"", "`", "/*", "${", "if ", "f(", "!", "a: ", "\n  - ",
          "<a>", "\"\"\"", "$(", "<<E\n"}) {
        std::string text;
        while (text.size() < 3'000) text += piece;
        texts.push_back(std::move(text));
    }
    for (const Sample& sample : samples) {
        for (const std::string& text : texts) {
            // With a limit of time: without one, some of them take long.
            HighlightLimits limits;
            limits.time = std::chrono::milliseconds(10);
            std::size_t at = 0;
            for (const CodeSpan& span : Highlighter(language(sample.name), limits).add(text)) {
                ASSERT_LE(at, span.begin) << sample.name;
                ASSERT_LT(span.begin, span.end);
                at = span.end;
            }
            ASSERT_LE(at, text.size());
        }
    }
}

TEST(Languages, Fence_NamesTheLanguage) {
    EXPECT_EQ(language_of_fence("c++")->grammar, "cpp");
    EXPECT_EQ(language_of_fence(" Python title=\"x\"")->grammar, "python");
    EXPECT_EQ(language_of_fence("rust,ignore")->grammar, "rust");
    EXPECT_EQ(language_of_fence("{.yaml .numberLines}")->grammar, "yaml");
    EXPECT_EQ(language_of_fence(""), nullptr);
    EXPECT_EQ(language_of_fence("text"), nullptr);
    EXPECT_EQ(language_of_fence(std::string(1'000'000, 'c')), nullptr);
}

TEST(Languages, File_IsKnownByName) {
    EXPECT_EQ(language_of_file("src/a.HPP")->grammar, "cpp");
    EXPECT_EQ(language_of_file("a.b/c.tsx")->grammar, "tsx");
    EXPECT_EQ(language_of_file("/home/x/.bashrc")->grammar, "bash");
    EXPECT_EQ(language_of_file(".c"), nullptr);
    EXPECT_EQ(language_of_file("a.c/README"), nullptr);
    EXPECT_EQ(language_of_file(""), nullptr);
    EXPECT_EQ(language_of_file("c."), nullptr);
}

TEST(Languages, FirstLine_NamesTheInterpreter) {
    EXPECT_EQ(language_of_file("tool", "#!/usr/bin/env python3.11")->grammar, "python");
    EXPECT_EQ(language_of_file("tool", "#!/bin/sh -eu\n")->grammar, "bash");
    EXPECT_EQ(language_of_file("tool", "#! /usr/bin/env -S A=b node")->grammar, "javascript");
    EXPECT_EQ(language_of_file("tool", "#!"), nullptr);
    EXPECT_EQ(language_of_file("tool", "#!/usr/bin/perl"), nullptr);
    EXPECT_EQ(language_of_file("tool.py", "#!/bin/sh")->grammar, "python");
}

}  // namespace
}  // namespace cubepi::app
