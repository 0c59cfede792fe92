#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

#include "tape_worker.hpp"

// A process is killed at every write of two turns; the next one finds a whole tape and goes on.

extern char** environ;

namespace cubepi::crash_tests {

namespace {

struct Folder {
    std::filesystem::path path;
    Folder() {
        std::string name =
            (std::filesystem::temp_directory_path() / "cubepi-tape-crash-XXXXXX").string();
        path = mkdtemp(name.data());
    }
    ~Folder() { std::filesystem::remove_all(path); }
};

pid_t start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "/proc/self/exe");
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, words.data(), environ), 0);
    return pid;
}

/// True when the process was killed.
bool was_killed(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    return false;
}

std::string read(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::shared_ptr<bub::FileTapeStore> store_in(const std::filesystem::path& folder) {
    bub::FileTapeOptions options;
    options.directory = folder / "tapes";
    options.sync = bub::TapeSync::never;
    return std::make_shared<bub::FileTapeStore>(std::move(options));
}

std::vector<bub::TapeEntry> entries_in(const std::filesystem::path& folder) {
    return run(store_in(folder)->fetch(tape, bub::TapeQuery()));
}

/// All that the model said, as it is on the tape.
std::string said_on(const std::vector<bub::TapeEntry>& entries) {
    std::string said;
    for (const bub::TapeEntry& entry : entries) {
        const Json* role = entry.payload.if_contains("role");
        const bool answer = entry.kind == "tool_call" || (role && *role == Json("assistant"));
        if (answer) said += entry.payload.at("content").as_string();
    }
    return said;
}

std::string status_of(const bub::TapeEntry& marker) {
    return std::string(marker.payload.at("data").as_object().at("status").as_string());
}

void expect_whole(const std::vector<bub::TapeEntry>& entries) {
    std::vector<std::string> closed;
    std::vector<std::string> inputs;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        EXPECT_EQ(entries[i].id, static_cast<std::int64_t>(i + 1));
        const Json* role = entries[i].payload.if_contains("role");
        if (role && *role == Json("user"))
            inputs.emplace_back(entries[i].payload.at("content").as_string());
        if (entries[i].kind == "event" && bub::entry_name(entries[i]) == "turn") {
            closed.emplace_back(entries[i].payload.at("data").as_object().at("turn").as_string());
            EXPECT_EQ(inputs.size(), closed.size())
                << "a turn without its input, or one in another";
            if (i + 1 != entries.size()) {
                EXPECT_NE(status_of(entries[i]), "interrupted") << "only the last was";
            }
        }
    }
    EXPECT_EQ(inputs.size(), closed.size()) << "B9: each turn is closed";
    EXPECT_EQ(std::adjacent_find(closed.begin(), closed.end()), closed.end());
}

/// The next process: what was shown is there, the turn is closed, and an agent goes on.
void expect_recovered(const std::filesystem::path& folder) {
    const std::string shown = read(shown_file(folder));
    const std::vector<bub::TapeEntry> entries = entries_in(folder);
    const std::string said = said_on(entries);
    EXPECT_TRUE(said.starts_with(shown)) << "shown: " << shown << "\nkept: " << said;
    expect_whole(entries);
    EXPECT_EQ(entries_in(folder), entries) << "closing is done once";
    for (const auto& file : std::filesystem::directory_iterator(folder / "tapes")) {
        const std::string extension = file.path().extension().string();
        EXPECT_TRUE(extension != ".commit" && extension != ".turns") << file.path();
    }
    FauxProvider faux;
    std::vector<FauxStep> script;
    bool legal = false;
    script.emplace_back(FauxStep([&](const ModelRequest& request) {
        legal = is_legal_transcript(request.messages);
        return faux_assistant_message("I see");
    }));
    faux.set_responses(std::move(script));
    AgentOptions options;
    options.model = faux.model("offline");
    options.checkpointer = std::make_shared<bub::TapeCheckpointer>(store_in(folder));
    options.thread_id = tape;
    Agent agent(std::move(options));
    const RunResult result = run(agent.prompt("What happened?"));
    EXPECT_EQ(to_string(result.outcome), "completed");
    EXPECT_TRUE(legal) << "D1";
}

}  // namespace

TEST(TapeCrash, B9_AKillAtAnyWriteLosesNothingThatWasShown) {
    std::size_t interrupted = 0;
    std::size_t steps = 1;
    for (;; ++steps) {
        SCOPED_TRACE("killed at step " + std::to_string(steps));
        const Folder folder;
        const bool killed =
            was_killed(start({"--tape", folder.path.string(), std::to_string(steps)}));
        expect_recovered(folder.path);
        const std::vector<bub::TapeEntry> entries = entries_in(folder.path);
        interrupted += static_cast<std::size_t>(
            std::any_of(entries.begin(), entries.end(), [](const bub::TapeEntry& entry) {
                return entry.kind == "event" && bub::entry_name(entry) == "turn" &&
                       status_of(entry) == "interrupted";
            }));
        if (!killed || ::testing::Test::HasFailure()) break;
    }
    EXPECT_GT(steps, 80u);
    EXPECT_GT(interrupted, 40u);
}

TEST(TapeCrash, B9_TwoProcessesOnOneTape) {
    constexpr int turns = 60;
    const Folder folder;
    const std::string count = std::to_string(turns);
    const pid_t first = start({"--tape-writer", folder.path.string(), "a", count});
    const pid_t second = start({"--tape-writer", folder.path.string(), "b", count});
    EXPECT_FALSE(was_killed(first));
    EXPECT_FALSE(was_killed(second));
    const std::vector<bub::TapeEntry> entries = entries_in(folder.path);
    ASSERT_EQ(entries.size(), 2u * 3u * turns);
    expect_whole(entries);
    for (std::size_t i = 0; i < entries.size(); i += 3) {
        EXPECT_EQ(entries[i].payload.at("content"), entries[i + 1].payload.at("content"));
        EXPECT_EQ(status_of(entries[i + 2]), "ok");
    }
}

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 3 && words[0] == "--tape")
        return cubepi::crash_tests::run_tape_worker(words[1], std::stoul(words[2]));
    if (words.size() == 4 && words[0] == "--tape-writer")
        return cubepi::crash_tests::run_tape_writer(words[1], words[2], std::stoi(words[3]));
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
