#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/agent/run_account.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/workspace/file_checkpoints.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/standard_tools.hpp>

#include "worker_process.hpp"

// A process is killed at every step of changes of files and of an undo; the next one takes the changes back.

namespace cubepi::crash_tests {

namespace {

namespace fs = std::filesystem;

/// The workspace and the checkpoints of a worker.
struct Places {
    explicit Places(const fs::path& directory)
        : root(directory / "workspace"), state(directory / "state") {
        fs::create_directories(root);
        workspace = std::make_shared<LocalWorkspace>(root);
        FileCheckpointOptions options;
        options.directory = state;
        // Dropping the oldest changes is one of the steps.
        options.max_changes = 4;
        checkpoints = std::make_shared<FileCheckpoints>(options);
    }
    std::string content(const char* name) const {
        std::ifstream file(root / name, std::ios::binary);
        if (!file) return "-";
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }
    void put(const char* name, const std::string& content) const {
        std::ofstream(root / name, std::ios::binary) << content;
    }

    fs::path root;
    fs::path state;
    std::shared_ptr<LocalWorkspace> workspace;
    std::shared_ptr<FileCheckpoints> checkpoints;
};

Task<void> ignore(Json) { co_return; }

Task<void> write(const Places& places, std::string path, std::string content, std::string prompt) {
    FileToolOptions options;
    options.checkpoints = places.checkpoints;
    const AgentTool tool = write_tool(places.workspace, options);
    RunInfo info;
    info.run_id = SharedString(prompt);
    ToolContext context("call", tool.name, {}, Runtime::standard(), ignore, {},
                        std::make_shared<RunAccount>(std::move(info)));
    JsonObject arguments{{"path", path}, {"content", content}};
    MaybeTask<AgentToolResult> result = tool.execute(std::move(arguments), context);
    if (result.is_pending()) (void)co_await std::move(result).task();
}

/// Changes files for two prompts and takes the second one back. Kills itself at step `kill_at`.
int run_undo_worker(const fs::path& directory, std::size_t kill_at) {
    const Places places(directory);
    places.put("a", "a0");
    places.put("b", "b0");
    arm(kill_at);
    run(write(places, "a", "a1", "p1"));
    run(write(places, "new", "n1", "p1"));
    run(write(places, "a", "a2", "p2"));
    run(write(places, "b", "b2", "p2"));
    (void)places.checkpoints->undo(*places.workspace, {"p2"});
    disarm();
    return 0;
}

/// The content of each file is one that a change has left, and every change that is left is taken back.
void expect_taken_back(const Remains& remains) {
    const Places places(remains.directory);
    const std::string a = places.content("a");
    const std::string b = places.content("b");
    EXPECT_TRUE(a == "a0" || a == "a1" || a == "a2") << a;
    EXPECT_TRUE(b == "b0" || b == "b2") << b;
    const bool all_known = places.checkpoints->dropped() == 0;
    for (const RestoredFile& file : places.checkpoints->undo(*places.workspace, {"p1", "p2"})) {
        EXPECT_NE(file.outcome, RestoredFile::Outcome::conflict) << file.path << file.reason;
        EXPECT_NE(file.outcome, RestoredFile::Outcome::failed) << file.path << file.reason;
    }
    EXPECT_EQ(places.content("b"), "b0");
    if (all_known) {
        EXPECT_EQ(places.content("a"), "a0");
        EXPECT_EQ(places.content("new"), "-");
    }
    for (const PromptChanges& prompt : places.checkpoints->prompts(*places.workspace))
        EXPECT_TRUE(prompt.files.empty()) << prompt.prompt;
    for (const auto& entry : fs::directory_iterator(places.state / "objects"))
        EXPECT_EQ(entry.path().filename().string().size(), 64u) << entry.path();
}

TEST(UndoCrash, D158_KillAtEachStep_LosesNoUndo) {
    const std::size_t steps = kill_at_each_step("--undo", expect_taken_back);
    EXPECT_GT(steps, 60u);
}

}  // namespace

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using cubepi::crash_tests::run_undo_worker;
    return cubepi::crash_tests::tests_or_worker(
        argc, argv, {{"--undo", [](const std::vector<std::string>& arguments) {
                          return run_undo_worker(arguments.at(0), std::stoul(arguments.at(1)));
                      }}});
}
