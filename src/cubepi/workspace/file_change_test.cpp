#include <cubepi/workspace/file_change.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

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

TEST_F(FileChangeTest, APreviewDescribesTheChangeWithoutMakingIt) {
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

TEST_F(FileChangeTest, APreviewHasTheDiffOfTheWholeFile) {
    directory.put("f", "a\nb\nc\nb\n");
    const FileChange all = previews->preview(
        "call_1", "edit", {{"path", "f"}, {"old_text", "b"}, {"new_text", "B"}, {"all", true}});
    EXPECT_EQ(all.diff, "@@ -1,4 +1,4 @@\n a\n-b\n+B\n c\n-b\n+B\n");
    EXPECT_EQ(all.replacements, 2u);
    const FileChange replaced =
        previews->preview("call_1", "write", {{"path", "f"}, {"content", "a\nb\n"}});
    EXPECT_EQ(replaced.diff, "@@ -1,4 +1,2 @@\n a\n b\n-c\n-b\n");
}

TEST_F(FileChangeTest, APreviewFailsLikeTheTool) {
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

TEST_F(FileChangeTest, RefusesACallIfTheFileChangedAfterThePreview) {
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

TEST_F(FileChangeTest, MakesThePreviewedChangeIfTheFileIsUnchanged) {
    directory.put("f", "a\n");
    previewed(write, {{"path", "f"}, {"content", "b\n"}});
    const AgentToolResult result = run_tool(write, {{"path", "f"}, {"content", "b\n"}});
    EXPECT_EQ(result.text(), "Replaced f (1 line, 2 bytes).");
    EXPECT_EQ(result.details.at("change"), "replaces 1 line of f");
    EXPECT_EQ(result.details.at("diff"), "@@ -1,1 +1,1 @@\n-a\n+b\n");
    EXPECT_EQ(result.details.at("lines"), 1);
    EXPECT_EQ(directory.get("f"), "b\n");
}

TEST_F(FileChangeTest, BinaryAndHugeContentsHaveNoDiff) {
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

TEST_F(FileChangeTest, TheDiffInAResultIsBounded) {
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

TEST_F(FileChangeTest, WorksWithTheDefaultRewrite) {
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

}  // namespace
}  // namespace cubepi
