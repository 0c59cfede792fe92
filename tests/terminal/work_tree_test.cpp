// `cubepi -w NAME`: a chat or a run in a work tree of git.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

namespace fs = std::filesystem;

constexpr const char* writes_a_file =
    R"([{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "write",
         "arguments": {"path": "kept.txt", "content": "two\n"}}]}, "Done."])";

class WorkTreeOption : public ::testing::Test {
protected:
    WorkTreeOption() : tree(home.root() / "work-fix") {
        write_file(home.work() / "kept.txt", "one\n");
        const std::string git =
            "cd '" + home.work().string() +
            "' && git init -q -b main . && git add . && git -c user.name=a -c user.email=a@b "
            "commit -q -m start";
        EXPECT_EQ(std::system(git.c_str()), 0);
    }

    const Home home;
    const fs::path tree;
};

TEST_F(WorkTreeOption, D244_Run_WorksInTheTree) {
    const std::string script = home.script(writes_a_file);
    const Piped run = run_piped(home, {"run", "-w", "fix", "-s", "plan", "-o", "answer.txt",
                                       "--yes", "--script", script, "write it"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_NE(run.err.find("created the work tree " + tree.string() + " on the branch fix"),
              std::string::npos)
        << run.err;
    EXPECT_EQ(run.out, "Done.\n");
    EXPECT_EQ(read_file(tree / "kept.txt"), "two\n");
    EXPECT_EQ(read_file(home.work() / "kept.txt"), "one\n");
    EXPECT_EQ(read_file(home.work() / "answer.txt"), "Done.\n");
    const Piped again =
        run_piped(home, {"--worktree", "fix", "-c", "--script", script, "and now?"});
    EXPECT_EQ(again.status, 7) << again.err;
    EXPECT_EQ(again.err.find("created"), std::string::npos) << again.err;
    EXPECT_NE(again.err.find("--session plan -C " + tree.string()), std::string::npos) << again.err;
    const Piped refused = run_piped(home, {"run", "-w", "../fix", "--offline", "hello"});
    EXPECT_EQ(refused.status, 2);
    EXPECT_NE(refused.err.find("is not a name of a work tree"), std::string::npos) << refused.err;
}

TEST_F(WorkTreeOption, D244_Chat_HasDiffUndoAndResumeThere) {
    const std::string script = home.script(writes_a_file);
    Terminal terminal(home, {"-w", "fix", "-y", "--script", script, "change the file"});
    ASSERT_TRUE(terminal.expect_on_screen("Done.")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_gone("Esc stops ·")) << terminal.shown();
    EXPECT_EQ(read_file(tree / "kept.txt"), "two\n");
    terminal.type("/diff\r");
    ASSERT_TRUE(terminal.expect_on_screen("q closes")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("kept.txt")) << terminal.shown();
    terminal.type("q");
    ASSERT_TRUE(terminal.expect_gone("q closes")) << terminal.shown();
    terminal.type("/undo\r");
    ASSERT_TRUE(terminal.expect_on_screen("Took back the changes")) << terminal.shown();
    EXPECT_EQ(read_file(tree / "kept.txt"), "one\n");
    terminal.type("\x04");
    EXPECT_EQ(terminal.wait(), 0) << terminal.shown();
    EXPECT_NE(terminal.shown().find("--session change-the-file -C " + tree.string()),
              std::string::npos)
        << terminal.shown();
    Terminal resumed(home, {"resume", "-w", "fix", "--offline", "change-the-file"});
    ASSERT_TRUE(resumed.expect_on_screen("change the file")) << resumed.shown();
    ASSERT_TRUE(resumed.expect_on_screen("fix")) << resumed.shown();
    resumed.type("\x04");
    EXPECT_EQ(resumed.wait(), 0) << resumed.shown();
}

}  // namespace
}  // namespace cubepi::terminal_tests
