#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/workspace/files/content.hpp>
#include <cubepi/workspace/files/tree_walk.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/standard_tools.hpp>
#include <cubepi/workspace/workspace_test.hpp>

namespace cubepi {

namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class FileToolsTest : public ::testing::Test {
protected:
    ScopedTestDirectory directory;
    std::shared_ptr<Workspace> workspace = std::make_shared<LocalWorkspace>(directory.path());

    std::string read(JsonObject arguments) {
        return tool_text(read_tool(workspace), std::move(arguments));
    }
    std::string list(JsonObject arguments) {
        return tool_text(list_tool(workspace), std::move(arguments));
    }
    std::string grep(JsonObject arguments) {
        return tool_text(grep_tool(workspace), std::move(arguments));
    }
    std::string edit(JsonObject arguments) {
        return tool_text(edit_tool(workspace), std::move(arguments));
    }
};

TEST_F(FileToolsTest, D52_EachTool_DeclaresItsRisk) {
    std::vector<std::string> names;
    for (const auto& tool : standard_tools(workspace)) {
        names.push_back(tool.name.str() + "=" + std::string(to_string(tool.risk_level)));
    }
    EXPECT_THAT(names, ::testing::ElementsAre("read=read_only", "list=read_only", "grep=read_only",
                                              "write=writes", "edit=writes", "shell=writes",
                                              "shell_output=read_only", "shell_kill=writes",
                                              "fetch=network"));
}

TEST_F(FileToolsTest, D28_FileTools_RunOnTheWorkerPool) {
    for (const auto& tool : {read_tool(workspace), list_tool(workspace), grep_tool(workspace),
                             write_tool(workspace), edit_tool(workspace)}) {
        EXPECT_TRUE(tool.runs_blocking) << tool.name;
    }
}

TEST_F(FileToolsTest, Read_NumbersLines) {
    directory.put("f", "one\r\ntwo\n\nfour");
    EXPECT_EQ(read({{"path", "f"}}), "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n");
    EXPECT_EQ(read({{"path", "f"}, {"start_line", 2}, {"line_count", 1}}),
              "     2\ttwo\n[lines 2 to 2 of 4; continue with start_line 3]\n");
    EXPECT_EQ(read({{"path", "f"}, {"start_line", 9}}), "(f has only 4 lines)");
    EXPECT_THAT(read({{"path", "f"}, {"start_line", 0}}), HasSubstr("must be at least 1"));
    directory.put("empty", "");
    EXPECT_EQ(read({{"path", "empty"}}), "(empty is empty)");
    directory.put("bom", "\xEF\xBB\xBFx\n");
    EXPECT_EQ(read({{"path", "bom"}}), "     1\tx\n");
    EXPECT_THAT(read({{"path", "none"}}), StartsWith("error not_found: Cannot read none"));
    EXPECT_THAT(read({{"path", "../x"}}), StartsWith("error permission_denied"));
}

TEST_F(FileToolsTest, Read_IsBoundedAndTellsHowToContinue) {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "0123456789\n";
    directory.put("f", text);
    FileToolOptions options;
    options.max_output_bytes = 100;
    const auto tool = read_tool(workspace, options);
    std::string all;
    int next = 1;
    for (int parts = 0; next <= 100 && parts < 100; ++parts) {
        const auto part = run_tool(tool, {{"path", "f"}, {"start_line", next}}).text();
        EXPECT_LT(part.size(), 200u);
        for (std::size_t at = part.find('\t'); at != std::string::npos;
             at = part.find('\t', at + 1)) {
            EXPECT_EQ(part.substr(at + 1, 11), "0123456789\n");
            ++next;
        }
    }
    EXPECT_EQ(next, 101);
}

TEST_F(FileToolsTest, VeryLongLine_IsReadInParts) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += "\xE2\x82\xAC" + std::to_string(i);
    directory.put("f", text);
    FileToolOptions options;
    options.max_output_bytes = 100;
    const auto tool = read_tool(workspace, options);
    std::string all;
    std::int64_t next = 1;
    for (int parts = 0; parts < 100; ++parts) {
        const auto part = run_tool(tool, {{"path", "f"}, {"start_byte", next}}).text();
        const auto line = part.substr(7, part.find('\n') - 7);
        all += line;
        next += static_cast<std::int64_t>(line.size());
        if (part.find("is incomplete") == std::string::npos) break;
        EXPECT_THAT(part, HasSubstr("start_line 1 and start_byte " + std::to_string(next)));
    }
    EXPECT_EQ(all, text);
}

TEST_F(FileToolsTest, Read_SanitizesInvalidUtf8AndRefusesBinaries) {
    directory.put("latin1", "caf\xE9\n");
    EXPECT_EQ(read({{"path", "latin1"}}), "     1\tcaf\xEF\xBF\xBD\n");
    directory.put("binary", std::string_view("ELF\0\1\2", 6));
    EXPECT_THAT(read({{"path", "binary"}}), HasSubstr("binary file of 6 bytes"));
}

TEST_F(FileToolsTest, Read_ShowsImages) {
    directory.put("a.png", std::string_view("\x89PNG\r\n\x1a\n\0abc", 12));
    const auto result = run_tool(read_tool(workspace), {{"path", "a.png"}});
    ASSERT_EQ(result.content.size(), 1u);
    const auto& image = std::get<ImageContent>(result.content[0]);
    EXPECT_EQ(image.media_type, "image/png");
    EXPECT_EQ(image.source, "iVBORw0KGgoAYWJj");
    FileToolOptions options;
    options.max_image_bytes = 5;
    EXPECT_EQ(run_tool(read_tool(workspace, options), {{"path", "a.png"}}).is_error, true);
}

/// The first bytes of images of 8,001 x 3 pixels.
std::vector<std::string> wide_images() {
    using namespace std::string_literals;
    return {"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x1f\x41\0\0\0\x03"s,
            "GIF89a\x41\x1f\x03\0"s,
            "\xff\xd8\xff\xe0\0\x04\0\0\xff\xff\xc0\0\x0b\x08\0\x03\x1f\x41"s,
            "RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x40\x1f\0\x02\0\0"s,
            "RIFF\0\0\0\0WEBPVP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a\x41\x1f\x03\0"s,
            "RIFF\0\0\0\0WEBPVP8L\x0a\0\0\0\x2f\x40\x9f\0\0"s};
}

TEST_F(FileToolsTest, Read_RefusesImagesOfTooManyPixels) {
    for (const std::string& image : wide_images()) {
        directory.put("wide", image);
        EXPECT_THAT(read({{"path", "wide"}}), HasSubstr("has 8001 x 3 pixels")) << image;
        // Damaged files are shown or refused; nothing is read beyond their end.
        for (std::size_t size = 12; size < image.size(); ++size) {
            directory.put("cut", image.substr(0, size));
            (void)read({{"path", "cut"}});
        }
    }
}

TEST_F(FileToolsTest, Read_RefusesImagesOfTooManyEncodedBytes) {
    const std::string head = wide_images()[1].substr(0, 6) + std::string(4, '\x01');
    directory.put("large", head + std::string(3'932'160 - head.size(), 'x'));
    const auto shown = run_tool(read_tool(workspace), {{"path", "large"}});
    EXPECT_EQ(std::get<ImageContent>(shown.content.at(0)).source.size(), 5'242'880u);
    directory.put("larger", head + std::string(3'932'161 - head.size(), 'x'));
    EXPECT_THAT(read({{"path", "larger"}}), HasSubstr("(the limit is 3932160)"));
}

TEST_F(FileToolsTest, Details_ContainCounts) {
    directory.put("a", "1\nx\nx\n");
    directory.put("b", "x\n");
    EXPECT_EQ(
        run_tool(read_tool(workspace), {{"path", "a"}, {"start_line", 2}}).details.at("lines"), 2);
    const Json found = run_tool(grep_tool(workspace), {{"pattern", "x"}}).details;
    EXPECT_EQ(found.at("matches"), 3);
    EXPECT_EQ(found.at("files"), 2);
    EXPECT_EQ(run_tool(list_tool(workspace), {}).details.at("entries"), 2);
}

TEST_F(FileToolsTest, Write_ReportsItsChange) {
    EXPECT_EQ(tool_text(write_tool(workspace), {{"path", "a/b"}, {"content", "x\ny\n"}}),
              "Created a/b (2 lines, 4 bytes).");
    EXPECT_EQ(tool_text(write_tool(workspace), {{"path", "a/b"}, {"content", ""}}),
              "Replaced a/b (0 lines, 0 bytes).");
    EXPECT_EQ(directory.get("a/b"), "");
}

TEST_F(FileToolsTest, B12_Edit_ReplacesOneMatchInTheFile) {
    directory.put("f", "a\r\nb\r\nc\r\n");
    EXPECT_EQ(edit({{"path", "f"}, {"old_text", "a\nb"}, {"new_text", "x\ny"}}),
              "Edited f at line 1.");
    EXPECT_EQ(directory.get("f"), "x\r\ny\r\nc\r\n");
    EXPECT_THAT(edit({{"path", "f"}, {"old_text", "zz"}, {"new_text", "y"}}),
                HasSubstr("0 matches"));
    EXPECT_EQ(edit({{"path", "f"}, {"old_text", "\n"}, {"new_text", ""}, {"all", true}}),
              "Edited f: 3 replacements, the first at line 1.");
    EXPECT_EQ(directory.get("f"), "xyc");
}

TEST_F(FileToolsTest, List_ShowsADirectory) {
    directory.put("b.cpp", "");
    directory.put("a/x.cpp", "");
    directory.put(".hidden", "");
    directory.put(".git/config", "");
    EXPECT_EQ(list({}), "a/\nb.cpp\n");
    EXPECT_EQ(list({{"depth", 2}}), "a/\na/x.cpp\nb.cpp\n");
    EXPECT_EQ(list({{"hidden", true}}), ".hidden\na/\nb.cpp\n");
    EXPECT_EQ(list({{"path", "a"}}), "a/x.cpp\n");
    EXPECT_EQ(list({{"path", "./a/"}}), "a/x.cpp\n");
    EXPECT_THAT(list({{"path", "none"}}), StartsWith("error not_found"));
}

TEST_F(FileToolsTest, NamesWithLineBreaks_AreOneLine) {
    const std::string hostile = "a\nb\u2028\u0085\x1b\"c.txt";
    const std::string shown = R"("a\u000ab\u2028\u0085\u001b\"c.txt")";
    directory.put(hostile.c_str(), "needle");
    EXPECT_EQ(detail::one_line_path("d/ä \"q\" b.txt"), "d/ä \"q\" b.txt");
    EXPECT_EQ(detail::one_line_path(hostile), shown);
    EXPECT_EQ(boost::json::parse(shown), Json(hostile));
    EXPECT_EQ(list({}), shown + "\n");
    EXPECT_EQ(grep({{"pattern", "needle"}}), shown + ":1: needle\n");
}

TEST_F(FileToolsTest, ListWithPattern_FindsMatchingFiles) {
    directory.put(".gitignore", "build/\n*.o\n");
    directory.put("src/a.cpp", "");
    directory.put("src/deep/b.cpp", "");
    directory.put("src/a.o", "");
    directory.put("build/gen.cpp", "");
    directory.put("src/build/.gitignore", "");
    EXPECT_EQ(list({{"pattern", "*.cpp"}}), "src/a.cpp\nsrc/deep/b.cpp\n");
    EXPECT_EQ(list({{"pattern", "src/*.cpp"}}), "src/a.cpp\n");
    EXPECT_EQ(list({{"pattern", "**/b.cpp"}, {"path", "src"}}), "src/deep/b.cpp\n");
    EXPECT_EQ(list({{"pattern", "*.cpp"}, {"ignored", true}}),
              "build/gen.cpp\nsrc/a.cpp\nsrc/deep/b.cpp\n");
    EXPECT_THAT(list({{"pattern", "*.o"}}), HasSubstr("no name matches *.o"));
    EXPECT_THAT(list({{"pattern", "*.o"}, {"path", "src"}}), HasSubstr("no name matches"));
}

TEST_F(FileToolsTest, List_IsBounded) {
    for (int i = 100; i < 120; ++i) directory.put(("f" + std::to_string(i)).c_str(), "");
    FileToolOptions options;
    options.max_entries = 3;
    EXPECT_EQ(
        tool_text(list_tool(workspace, options), {}),
        "f100\nf101\nf102\n[truncated after 3 entries; use a narrower path, pattern or depth]\n");
}

TEST_F(FileToolsTest, List_DoesNotFollowLinks) {
    directory.put("a/x", "");
    std::filesystem::create_directory_symlink("..", directory / "a/up");
    EXPECT_EQ(list({{"depth", 9}}), "a/\na/up@\na/x\n");
}

TEST_F(FileToolsTest, Grep_FindsLines) {
    directory.put("a.cpp", "int one;\nint two;\nlong three;\n");
    directory.put("b.hpp", "INT four;\r\n");
    EXPECT_EQ(grep({{"pattern", "int"}}), "a.cpp:1: int one;\na.cpp:2: int two;\n");
    EXPECT_EQ(grep({{"pattern", "^int\\s+\\w+;$"}}), "a.cpp:1: int one;\na.cpp:2: int two;\n");
    EXPECT_EQ(grep({{"pattern", "int"}, {"ignore_case", true}, {"glob", "*.hpp"}}),
              "b.hpp:1: INT four;\n");
    EXPECT_EQ(grep({{"pattern", "two|three"}, {"path", "a.cpp"}}),
              "a.cpp:2: int two;\na.cpp:3: long three;\n");
    EXPECT_EQ(grep({{"pattern", "e;$"}, {"path", "."}}),
              "a.cpp:1: int one;\na.cpp:3: long three;\n");
    EXPECT_EQ(grep({{"pattern", "zzz"}}), "(no matches)\n");
    EXPECT_THAT(grep({{"pattern", "a("}}),
                StartsWith("error invalid_argument: The pattern 'a(' is not a regular expression"));
    EXPECT_EQ(grep({{"pattern", "e;"}, {"literal", true}, {"path", "a.cpp"}}),
              "a.cpp:1: int one;\na.cpp:3: long three;\n");
    EXPECT_EQ(grep({{"pattern", "a("}, {"literal", true}}), "(no matches)\n");
}

TEST_F(FileToolsTest, Grep_ShowsContextOnce) {
    directory.put("f", "1\n2\nx\n4\nx\n6\n7\n8\n9\nx\n");
    EXPECT_EQ(grep({{"pattern", "x"}, {"context", 1}}),
              "f-2- 2\nf:3: x\nf-4- 4\nf:5: x\nf-6- 6\n--\nf-9- 9\nf:10: x\n");
}

TEST_F(FileToolsTest, Grep_IsBoundedAndSkipsBinaries) {
    directory.put("bin", std::string_view("x\0x", 3));
    std::string text;
    for (int i = 0; i < 300; ++i) text += "x\n";
    directory.put("f", text);
    directory.put("long", std::string(5000, 'y') + "x\n");
    directory.put("huge", std::string(3000, 'x'));
    FileToolOptions options;
    options.max_matches = 2;
    options.max_search_bytes = 5500;
    EXPECT_EQ(
        tool_text(grep_tool(workspace, options), {{"pattern", "x"}, {"path", "f"}}),
        "f:1: x\nf:2: x\n[truncated after 2 matches; use a narrower pattern, path or glob]\n");
    EXPECT_EQ(grep({{"pattern", "x"}, {"path", "bin"}}), "(no matches)\n");
    EXPECT_EQ(grep({{"pattern", "x"}, {"path", "long"}}).substr(0, 10), "long:1: yy");
    EXPECT_LT(grep({{"pattern", "x"}, {"path", "long"}}).size(), 500u);
    options.max_search_bytes = 100;
    EXPECT_THAT(tool_text(grep_tool(workspace, options), {{"pattern", "zzz"}}),
                HasSubstr("files too large to search: 3"));
}

TEST_F(FileToolsTest, TooComplexExpression_StopsGrep) {
    std::string text;
    for (int i = 0; i < 100; ++i) text += std::string(1000, 'a') + "\n";
    directory.put("f", text);
    EXPECT_THAT(grep({{"pattern", "^(a|aa)+c$"}}), HasSubstr("the expression is too complex: 6"));
    std::string long_expression;
    for (int i = 0; i < 400; ++i) long_expression += "a?";
    EXPECT_THAT(grep({{"pattern", long_expression + "b"}}),
                HasSubstr("the expression is too complex: 6"));
}

TEST_F(FileToolsTest, Stop_EndsASearch) {
    directory.put("f", "x\n");
    std::stop_source stop;
    stop.request_stop();
    ToolCallSettings settings;
    settings.stop = stop.get_token();
    std::exception_ptr failure;
    try {
        run_tool(grep_tool(workspace), {{"pattern", "x"}}, settings);
    } catch (...) {
        failure = std::current_exception();
    }
    EXPECT_TRUE(failure && is_cancellation(failure));
}

}  // namespace

}  // namespace cubepi

namespace cubepi::detail {

namespace {

struct Case {
    const char* pattern;
    const char* path;
    bool matches;
};

TEST(Glob, Patterns_MatchLikeAShell) {
    const Case cases[] = {
        {"*.cpp", "a.cpp", true},
        {"*.cpp", "src/a.cpp", true},
        {"*.cpp", "a.hpp", false},
        {"src/*.cpp", "src/a.cpp", true},
        {"src/*.cpp", "src/x/a.cpp", false},
        {"**/*.cpp", "a.cpp", true},
        {"**/*.cpp", "x/y/a.cpp", true},
        {"src/**/a.cpp", "src/a.cpp", true},
        {"src/**/a.cpp", "src/x/y/a.cpp", true},
        {"src/**", "src/x/y", true},
        {"src/**", "lib/x", false},
        {"?.c", "a.c", true},
        {"?.c", "ab.c", false},
        {"[a-c].c", "b.c", true},
        {"[!a-c].c", "b.c", false},
        {"[!a-c].c", "d.c", true},
        {"*.{cpp,hpp}", "a.hpp", true},
        {"*.{cpp,hpp}", "a.c", false},
        {"a[", "a[", true},
        {"\\*", "*", true},
        {"\\*", "x", false},
        {"./src/*", "src/a", true},
        {"**/test/*", "x/latest/a", false},
        {"**/test/*", "x/test/a", true},
        {"a*b*c", "axxbyyc", true},
        {"a*b*c", "axxbyy", false},
        {"*", "", true},
    };
    for (const Case& c : cases) {
        EXPECT_EQ(Glob(c.pattern).matches(c.path), c.matches) << c.pattern << " on " << c.path;
    }
}

TEST(Glob, Matching_IsNotExponential) {
    std::string pattern;
    for (int i = 0; i < 30; ++i) pattern += "a*";
    EXPECT_FALSE(Glob(pattern + "b").matches(std::string(2000, 'a')));
}

TEST(IgnoreRules, Rules_FollowGitignore) {
    const IgnoreRules rules("", "# comment\n*.o\n!keep.o\nbuild/\n/top\ndocs/*.html\n\n");
    using V = IgnoreRules::Verdict;
    EXPECT_EQ(rules.check("a.o", false), V::ignored);
    EXPECT_EQ(rules.check("x/a.o", false), V::ignored);
    EXPECT_EQ(rules.check("x/keep.o", false), V::included);
    EXPECT_EQ(rules.check("x/build", true), V::ignored);
    EXPECT_EQ(rules.check("x/build", false), V::none);
    EXPECT_EQ(rules.check("top", false), V::ignored);
    EXPECT_EQ(rules.check("x/top", false), V::none);
    EXPECT_EQ(rules.check("docs/a.html", false), V::ignored);
    EXPECT_EQ(rules.check("x/docs/a.html", false), V::none);
}

TEST(IgnoreRules, Rules_ApplyBelowTheirDirectory) {
    const IgnoreRules rules("lib", "/out\n");
    EXPECT_EQ(rules.check("lib/out", true), IgnoreRules::Verdict::ignored);
    EXPECT_EQ(rules.check("out", true), IgnoreRules::Verdict::none);
    EXPECT_EQ(rules.check("library/out", true), IgnoreRules::Verdict::none);
}

}  // namespace

}  // namespace cubepi::detail
