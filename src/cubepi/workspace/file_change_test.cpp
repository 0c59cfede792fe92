#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/workspace/file_change.hpp>
#include <cubepi/workspace/files/file_edit.hpp>
#include <cubepi/workspace/files/line_diff.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/standard_tools.hpp>
#include <cubepi/workspace/workspace_test.hpp>

namespace cubepi {

namespace {

using ::testing::HasSubstr;

class FileChangeTest : public ::testing::Test {
protected:
    FileChangeTest() {
        options.previews = previews;
        write = write_tool(workspace, options);
        edit = edit_tool(workspace, options);
    }

    /// The message of the preview or of the tool.
    std::string previewed(const AgentTool& tool, const JsonObject& arguments) {
        try {
            return previews->preview("call_1", tool.name.str(), arguments).summary();
        } catch (const Error& error) {
            return std::string("error ") + std::string(to_string(error.code())) + ": " +
                   error.what();
        }
    }

    ScopedTestDirectory directory;
    std::shared_ptr<Workspace> workspace = std::make_shared<LocalWorkspace>(directory.path());
    std::shared_ptr<FilePreviews> previews = std::make_shared<FilePreviews>(workspace);
    FileToolOptions options;
    AgentTool write;
    AgentTool edit;
};

TEST_F(FileChangeTest, Preview_DescribesTheChangeWithoutMakingIt) {
    directory.put("src/calc.py", "1\n2\n3\n4\n5\n6\n7\n8\n");
    EXPECT_EQ(previewed(write, {{"path", "src/calc.py"}, {"content", "x\n"}}),
              "replaces 8 lines of src/calc.py");
    EXPECT_EQ(previewed(write, {{"path", "src/new/deep.py"}, {"content", "x\ny\n"}}),
              "creates src/new/deep.py, 2 lines");
    EXPECT_EQ(
        previewed(edit,
                  {{"path", "src/calc.py"}, {"old_text", "2\n3\n"}, {"new_text", "two\nthree\n"}}),
        "changes 2 lines of src/calc.py");
    EXPECT_EQ(previewed(edit, {{"path", "src/calc.py"}, {"old_text", "2\n"}, {"new_text", ""}}),
              "removes 1 line from src/calc.py");
    EXPECT_EQ(
        previewed(edit, {{"path", "src/calc.py"}, {"old_text", "2\n"}, {"new_text", "2\n2b\n"}}),
        "adds 1 line to src/calc.py");
    EXPECT_EQ(directory.get("src/calc.py"), "1\n2\n3\n4\n5\n6\n7\n8\n");
    EXPECT_FALSE(std::filesystem::exists(directory / "src/new"));
}

TEST_F(FileChangeTest, Preview_DiffsTheWholeFile) {
    directory.put("f", "a\nb\nc\nb\n");
    const FileChange all = previews->preview(
        "call_1", "edit", {{"path", "f"}, {"old_text", "b"}, {"new_text", "B"}, {"all", true}});
    EXPECT_EQ(all.diff, "@@ -1,4 +1,4 @@\n a\n-b\n+B\n c\n-b\n+B\n");
    EXPECT_EQ(all.replacements, 2u);
    const FileChange replaced =
        previews->preview("call_1", "write", {{"path", "f"}, {"content", "a\nb\n"}});
    EXPECT_EQ(replaced.diff, "@@ -1,4 +1,2 @@\n a\n b\n-c\n-b\n");
}

TEST_F(FileChangeTest, Preview_FailsLikeTheTool) {
    directory.put("f", "a\nb\na\n");
    directory.put("dir/x", "");
    std::filesystem::create_symlink("/etc/passwd", directory / "out");
    const std::vector<std::pair<AgentTool, JsonObject>> calls = {
        {write, {{"path", "../f"}, {"content", ""}}},
        {write, {{"path", "/etc/passwd"}, {"content", ""}}},
        {write, {{"path", "out"}, {"content", ""}}},
        {write, {{"path", "dir"}, {"content", ""}}},
        {write, {{"path", ""}, {"content", ""}}},
        {write, {{"path", "f/below"}, {"content", ""}}},
        {write, {{"path", "f/far/below"}, {"content", ""}}},
        {edit, {{"path", "none"}, {"old_text", "a"}, {"new_text", "b"}}},
        {edit, {{"path", "f"}, {"old_text", "zz"}, {"new_text", "b"}}},
        {edit, {{"path", "f"}, {"old_text", "a"}, {"new_text", "b"}}},
        {edit, {{"path", "f"}, {"old_text", ""}, {"new_text", "b"}}},
        {edit, {{"path", "../f"}, {"old_text", "a"}, {"new_text", "b"}}},
        {edit, {{"path", "dir"}, {"old_text", "a"}, {"new_text", "b"}}},
    };
    for (const auto& [tool, arguments] : calls) {
        const std::string preview = previewed(tool, arguments);
        EXPECT_THAT(preview, HasSubstr("error ")) << boost::json::serialize(arguments);
        EXPECT_EQ(preview, tool_text(tool, arguments));
    }
}

TEST_F(FileChangeTest, FileChangedAfterPreview_RefusesTheCall) {
    directory.put("f", "a\n");
    const JsonObject arguments{{"path", "f"}, {"content", "b\n"}};
    previewed(write, arguments);
    directory.put("f", "precious\n");
    EXPECT_EQ(tool_text(write, arguments),
              "error invalid_state: f has changed since this call was approved, so nothing was "
              "written. Read the file again and retry the call.");
    EXPECT_EQ(directory.get("f"), "precious\n");
    previewed(write, {{"path", "new"}, {"content", "b\n"}});
    directory.put("new", "made meanwhile\n");
    EXPECT_THAT(tool_text(write, {{"path", "new"}, {"content", "b\n"}}),
                HasSubstr("has changed since"));
    const JsonObject change{{"path", "f"}, {"old_text", "precious"}, {"new_text", "x"}};
    previewed(edit, change);
    directory.put("f", "precious\nthing\n");
    EXPECT_THAT(tool_text(edit, change), HasSubstr("has changed since"));
    // A preview applies to one call only: the repeated call is an ordinary call.
    EXPECT_EQ(tool_text(edit, change), "Edited f at line 1.");
    EXPECT_EQ(directory.get("f"), "x\nthing\n");
}

TEST_F(FileChangeTest, UnchangedFile_GetsThePreviewedChange) {
    directory.put("f", "a\n");
    previewed(write, {{"path", "f"}, {"content", "b\n"}});
    const AgentToolResult result = run_tool(write, {{"path", "f"}, {"content", "b\n"}});
    EXPECT_EQ(result.text(), "Replaced f (1 line, 2 bytes).");
    EXPECT_EQ(result.details.at("change"), "replaces 1 line of f");
    EXPECT_EQ(result.details.at("diff"), "@@ -1,1 +1,1 @@\n-a\n+b\n");
    EXPECT_EQ(result.details.at("lines"), 1);
    EXPECT_EQ(directory.get("f"), "b\n");
}

TEST_F(FileChangeTest, BinaryOrHugeContents_HaveNoDiff) {
    directory.put("bin", std::string_view("a\0b", 3));
    const FileChange binary =
        previews->preview("call_1", "write", {{"path", "bin"}, {"content", "text\n"}});
    EXPECT_FALSE(binary.compared);
    EXPECT_EQ(binary.summary(), "replaces bin (3 bytes become 5 bytes)");
    EXPECT_EQ(binary.diff, "");

    FileChangeLimits limits;
    limits.max_file_bytes = 4;
    FilePreviews small(workspace, limits);
    directory.put("big", "12345\n");
    const FileChange big = small.preview("c", "write", {{"path", "big"}, {"content", "x\n"}});
    EXPECT_EQ(big.summary(), "replaces big (6 bytes become 2 bytes)");
    options.max_edit_bytes = 4;
    options.previews = nullptr;
    EXPECT_EQ(tool_text(write_tool(workspace, options), {{"path", "big"}, {"content", "x\n"}}),
              "Replaced big (1 line, 2 bytes).");
    directory.put("big", "12345\n");
    EXPECT_EQ(tool_text(edit_tool(workspace, options),
                        {{"path", "big"}, {"old_text", "1"}, {"new_text", "2"}}),
              "error too_large: big has more than 4 bytes, which is too large.");
}

TEST_F(FileChangeTest, ResultDiff_IsBounded) {
    std::string content;
    for (int i = 0; i < 1000; ++i) content += "line " + std::to_string(i) + "\n";
    const AgentToolResult result = run_tool(write, {{"path", "f"}, {"content", content}});
    EXPECT_LT(result.details.at("diff").as_string().size(), 9000u);
    EXPECT_EQ(result.details.at("hidden"), 901);
    EXPECT_EQ(result.details.at("added"), 1000);
}

/// A workspace with only the required functions.
class PlainWorkspace final : public Workspace {
public:
    explicit PlainWorkspace(std::shared_ptr<Workspace> inner) : inner_(std::move(inner)) {}
    std::string root() const override { return inner_->root(); }
    FileInfo stat(const std::string& path) override { return inner_->stat(path); }
    std::unique_ptr<FileReader> open(const std::string& path) override {
        return inner_->open(path);
    }
    std::vector<DirectoryEntry> list(const std::string& path) override {
        return inner_->list(path);
    }
    bool write(const std::string& path, std::string_view content) override {
        return inner_->write(path, content);
    }
    void update(const std::string& path, std::size_t max_bytes,
                const std::function<std::string(std::string)>& change) override {
        inner_->update(path, max_bytes, change);
    }
    void remove(const std::string& path) override { inner_->remove(path); }
    Task<std::shared_ptr<Process>> start(ProcessRequest request) override {
        return inner_->start(std::move(request));
    }

private:
    std::shared_ptr<Workspace> inner_;
};

TEST_F(FileChangeTest, DefaultRewrite_MakesThePreviewedChange) {
    workspace = std::make_shared<PlainWorkspace>(workspace);
    previews = std::make_shared<FilePreviews>(workspace);
    write = write_tool(workspace);
    EXPECT_EQ(previewed(write, {{"path", "a/b"}, {"content", "x\n"}}), "creates a/b, 1 line");
    EXPECT_FALSE(std::filesystem::exists(directory / "a"));
    EXPECT_EQ(tool_text(write, {{"path", "a/b"}, {"content", "x\n"}}),
              "Created a/b (1 line, 2 bytes).");
    EXPECT_EQ(previewed(write, {{"path", "a/b"}, {"content", "y\n"}}), "replaces 1 line of a/b");
    EXPECT_THAT(previewed(write, {{"path", "a"}, {"content", "y\n"}}),
                HasSubstr("not a regular file"));
}

/// An agent whose one call of write, with an id that its endpoint has chosen, is previewed before it runs.
struct PreviewingAgent {
    PreviewingAgent(std::shared_ptr<FilePreviews> previews, const AgentTool& tool,
                    std::string content, std::function<void()> after_preview) {
        JsonObject arguments{{"path", "f"}, {"content", std::move(content)}};
        ContentList<AssistantContent> call;
        call.emplace_back(faux_tool_call("write", std::move(arguments), "call_1"));
        std::vector<FauxStep> steps;
        steps.emplace_back(faux_assistant_message(std::move(call), stop_reason::tool_use));
        steps.emplace_back("done");
        faux.set_responses(std::move(steps));
        AgentOptions settings;
        settings.model = faux.model("offline");
        settings.tools.push_back(tool);
        settings.before_tool_call =
            [previews, after_preview](
                BeforeToolCallContext& asked) -> Task<std::optional<BeforeToolCallResult>> {
            return preview(previews, after_preview, asked);
        };
        agent.emplace(std::move(settings));
    }

    static Task<std::optional<BeforeToolCallResult>> preview(std::shared_ptr<FilePreviews> previews,
                                                             std::function<void()> after,
                                                             BeforeToolCallContext& asked) {
        (void)previews->preview(FilePreviews::key_of(asked), "write", asked.args);
        after();
        co_return std::nullopt;
    }

    Task<std::string> result() {
        const RunResult done = co_await agent->prompt("write it");
        for (const Message& message : done.new_messages) {
            if (message.tool_result()) co_return message.text();
        }
        co_return std::string();
    }

    FauxProvider faux;
    std::optional<Agent> agent;
};

TEST_F(FileChangeTest, D72_LinkExchangedAfterPreview_ShownFileIsWritten) {
    directory.put("docs/f", "docs\n");
    directory.put("other/f", "docs\n");
    const std::filesystem::path link = directory.path() / "d";
    const auto lead = [&](const std::filesystem::path& name, const char* target) {
        std::filesystem::remove_all(name);
        std::filesystem::create_directory_symlink(target, name);
    };
    const JsonObject arguments{{"path", "d/f"}, {"content", "new\n"}};
    lead(link, "docs");
    EXPECT_EQ(previewed(write, arguments), "replaces 1 line of docs/f");
    lead(link, "other");
    EXPECT_THAT(previewed(write, arguments),
                HasSubstr("d/f led to docs/f when the call was shown, and leads to other/f now"));
    EXPECT_EQ(tool_text(write, arguments), "Replaced docs/f (1 line, 4 bytes).");
    EXPECT_EQ(directory.get("other/f"), "docs\n");
    lead(link, "docs");
    EXPECT_EQ(previewed(write, arguments), "replaces 1 line of docs/f");
    lead(directory.path() / "docs", "other");
    EXPECT_THAT(tool_text(write, arguments), HasSubstr("a symbolic link that was not there"));
    EXPECT_EQ(directory.get("other/f"), "docs\n");
}

TEST_F(FileChangeTest, D160_EqualCallIds_AreDifferentCalls) {
    directory.put("f", "old\n");
    PreviewingAgent other(previews, write, "of the other\n", [] {});
    // The other agent answers its call while the first one waits.
    std::string of_other;
    std::thread other_thread;
    PreviewingAgent first(previews, write, "of the first\n", [&] {
        other_thread = std::thread([&] { of_other = run(other.result()); });
        other_thread.join();
    });
    EXPECT_THAT(run(first.result()), HasSubstr("f has changed since this call was approved"));
    EXPECT_THAT(of_other, HasSubstr("Replaced f"));
    EXPECT_EQ(directory.get("f"), "of the other\n");
}

}  // namespace

}  // namespace cubepi

namespace cubepi::detail {

namespace {

using ::testing::HasSubstr;

std::string failure(std::string_view text, std::string_view old_text, std::string_view new_text,
                    bool all = false) {
    try {
        edit_text(text, old_text, new_text, all, "a.txt");
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        return error.what();
    }
    return "no failure";
}

TEST(TextEdit, B12_SingleMatch_IsReplaced) {
    const auto outcome = edit_text("one\ntwo\nthree\n", "two", "2", false, "a.txt");
    EXPECT_EQ(outcome.text, "one\n2\nthree\n");
    EXPECT_EQ(outcome.replacements, 1u);
    EXPECT_EQ(outcome.first_line, 2u);
}

TEST(TextEdit, B12_SeveralMatches_AreRefusedWithTheirLines) {
    EXPECT_THAT(failure("a\nb\na\na\n", "a", "x"),
                HasSubstr("occurs 3 times in a.txt (lines 1, 3, 4)"));
    EXPECT_THAT(failure("aaa", "aa", "x"), HasSubstr("occurs 2 times"));
}

TEST(TextEdit, ReplaceAll_ReplacesEveryMatch) {
    const auto outcome = edit_text("a\nb\naa\n", "a", "xa", true, "a.txt");
    EXPECT_EQ(outcome.text, "xa\nb\nxaxa\n");
    EXPECT_EQ(outcome.replacements, 3u);
}

TEST(TextEdit, B12_CrLfLineEndings_ArePreserved) {
    const auto outcome =
        edit_text("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2\n2b", false, "a.txt");
    EXPECT_EQ(outcome.text, "1\r\n2\r\n2b\r\nthree\r\n");
}

TEST(TextEdit, B12_MixedLineEndings_ArePreservedOutsideTheMatch) {
    const auto outcome = edit_text("a\r\nb\nc\r\nd\ne\n", "c\nd", "x\ny", false, "a.txt");
    EXPECT_EQ(outcome.text, "a\r\nb\nx\ny\ne\n");
}

TEST(TextEdit, LfFile_GetsNoCarriageReturns) {
    const auto outcome = edit_text("a\nb\n", "a\r\nb", "x\r\ny", false, "a.txt");
    EXPECT_EQ(outcome.text, "x\ny\n");
}

TEST(TextEdit, EmptyReplacement_DeletesText) {
    EXPECT_EQ(edit_text("a\r\nb\r\nc", "b\n", "", false, "a.txt").text, "a\r\nc");
}

TEST(TextEdit, NoMatch_PointsToTheNearestLine) {
    const std::string text = "int main() {\n\treturn compute(1, 2);\n}\n";
    EXPECT_THAT(failure(text, "return compute(1, 3);", "x"),
                HasSubstr("The nearest is line 2: \treturn compute(1, 2);"));
    EXPECT_THAT(failure(text, "    return compute(1, 2);", "x"),
                HasSubstr("compare the indentation"));
    EXPECT_THAT(failure(text, "zzzzqqqq", "x"), HasSubstr("Nothing in the file resembles it"));
    EXPECT_THAT(failure(text, "zzzzqqqq", "x"), HasSubstr("0 matches"));
}

TEST(TextEdit, EmptyAndIdenticalTexts_AreRefused) {
    EXPECT_THAT(failure("a", "", "b"), HasSubstr("write tool"));
    EXPECT_THAT(failure("a", "a", "a"), HasSubstr("nothing to change"));
}

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const auto end = text.find('\n');
        const auto size = end == std::string_view::npos ? text.size() : end + 1;
        lines.emplace_back(text.substr(0, size));
        text.remove_prefix(size);
    }
    return lines;
}

/// Applies the hunks of a diff as patch(1) does, and checks every context and removed line.
std::string patched(std::string_view before, const std::string& diff) {
    const std::vector<std::string> old_lines = lines_of(before);
    std::string out;
    std::size_t at = 0;
    std::vector<std::string> hunks = lines_of(diff);
    for (std::size_t i = 0; i < hunks.size(); ++i) {
        std::string line = hunks[i];
        if (line.starts_with("@@ -")) {
            std::size_t begin = std::stoul(line.substr(4));
            const std::size_t count = std::stoul(line.substr(line.find(',') + 1));
            if (count > 0) --begin;
            while (at < begin) out += old_lines.at(at++);
            continue;
        }
        if (i + 1 < hunks.size() && hunks[i + 1].starts_with("\\ No newline")) line.pop_back();
        if (line[0] == '\\') continue;
        if (line[0] != '-') out += line.substr(1);
        if (line[0] == '+') continue;
        EXPECT_EQ(line.substr(1), old_lines.at(at));
        ++at;
    }
    while (at < old_lines.size()) out += old_lines[at++];
    return out;
}

/// The number of lines in a longest common subsequence.
std::size_t common_lines(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    std::vector<std::size_t> row(b.size() + 1, 0);
    for (const std::string& line : a) {
        std::size_t diagonal = 0;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t above = row[j + 1];
            row[j + 1] = line == b[j] ? diagonal + 1 : std::max(above, row[j]);
            diagonal = above;
        }
    }
    return row.back();
}

TEST(LineDiff, Hunks_HaveContextAndLineNumbers) {
    const LineDiff diff = diff_lines("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n",
                                     "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n");
    EXPECT_EQ(diff.text,
              "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
              "@@ -10,3 +10,4 @@\n 10\n 11\n 12\n+13\n");
    EXPECT_EQ(diff.removed, 1u);
    EXPECT_EQ(diff.added, 2u);
}

TEST(LineDiff, EmptyTextsAndMissingLineEnds_AreHandled) {
    EXPECT_EQ(diff_lines("", "").text, "");
    EXPECT_EQ(diff_lines("a\n", "a\n").text, "");
    EXPECT_EQ(diff_lines("", "a\nb\n").text, "@@ -0,0 +1,2 @@\n+a\n+b\n");
    EXPECT_EQ(diff_lines("a\nb\n", "").text, "@@ -1,2 +0,0 @@\n-a\n-b\n");
    EXPECT_EQ(diff_lines("a\nb", "a\nb\n").text,
              "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n");
    EXPECT_EQ(diff_lines("x\nb", "y\nb").text,
              "@@ -1,2 +1,2 @@\n-x\n+y\n b\n\\ No newline at end of file\n");
}

TEST(LineDiff, Diff_IsShortestAndAppliesToOldText) {
    std::uint64_t state = 42;
    const auto random = [&state](std::uint64_t below) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (state >> 33) % below;
    };
    for (int round = 0; round < 3000; ++round) {
        const auto make = [&] {
            std::string text;
            const std::uint64_t count = random(14);
            const std::uint64_t letters = 1 + random(5);
            for (std::uint64_t i = 0; i < count; ++i) {
                text += static_cast<char>('a' + random(letters));
                if (i + 1 < count || random(4) > 0) text += '\n';
            }
            return text;
        };
        const std::string before = make();
        const std::string after = make();
        DiffLimits limits;
        limits.context = random(4);
        const LineDiff diff = diff_lines(before, after, limits);
        ASSERT_EQ(patched(before, diff.text), after) << before << "---\n" << after << diff.text;
        const std::size_t common = common_lines(lines_of(before), lines_of(after));
        ASSERT_EQ(diff.removed, count_lines(before) - common) << before << "---\n" << after;
        ASSERT_EQ(diff.added, count_lines(after) - common);
        // With a work limit of zero the diff is coarser but still correct.
        limits.max_work = 0;
        ASSERT_EQ(patched(before, diff_lines(before, after, limits).text), after);
        limits.max_compared_lines = 1;
        ASSERT_EQ(patched(before, diff_lines(before, after, limits).text), after);
    }
}

TEST(LineDiff, HugeTextsWithoutCommonLines_AreBounded) {
    std::string before;
    std::string after;
    for (int i = 0; i < 90'000; ++i) {
        before += "a" + std::to_string(i) + "\n";
        after += "b" + std::to_string(i) + "\n";
    }
    DiffLimits limits;
    limits.max_work = 1'000'000;
    limits.max_lines = 10;
    const LineDiff diff = diff_lines(before, after, limits);
    EXPECT_EQ(diff.removed, 90'000u);
    EXPECT_EQ(diff.added, 90'000u);
    EXPECT_EQ(diff.hidden, 180'000u - 9);
    EXPECT_EQ(count_lines(diff.text), 10u);
    const LineDiff newlines = diff_lines(std::string(4'000'000, '\n'), "", limits);
    EXPECT_EQ(newlines.removed, 4'000'000u);
}

TEST(LineDiff, LongLines_AreCutAtACharacter) {
    DiffLimits limits;
    limits.max_line_bytes = 4;
    const LineDiff diff = diff_lines("", "abc\u00e9def\n", limits);
    EXPECT_EQ(diff.text, "@@ -0,0 +1,1 @@\n+abc…\n");
    EXPECT_TRUE(diff.cut_lines);
}

}  // namespace

}  // namespace cubepi::detail
