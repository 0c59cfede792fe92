#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/run.hpp>

#include "pipeline_worker.hpp"

// A process is killed at every step of a turn with tools, through the whole pipeline; the next one goes on with the session.

extern char** environ;

namespace cubepi::crash_tests {

namespace {

struct Folder {
    std::filesystem::path path;
    Folder() {
        std::string name =
            (std::filesystem::temp_directory_path() / "cubepi-pipeline-crash-XXXXXX").string();
        path = mkdtemp(name.data());
    }
    ~Folder() { std::filesystem::remove_all(path); }
};

/// False when the process came to its end.
bool was_killed_at(const std::filesystem::path& folder, std::size_t kill_at) {
    const std::string place = folder.string();
    const std::string number = std::to_string(kill_at);
    std::vector<const char*> words = {"/proc/self/exe", "--pipeline", place.c_str(), number.c_str(),
                                      nullptr};
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr,
                          const_cast<char* const*>(words.data()), environ),
              0);
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    return false;
}

MessageList kept_in(const std::filesystem::path& folder) {
    bub::TapeCheckpointer memory(tapes_in(folder));
    const auto data = run(memory.load(bub::tape_name(folder, session_id)));
    return data ? data->messages : MessageList();
}

/// The calls that have no result.
std::set<std::string> unanswered(const MessageList& messages) {
    std::set<std::string> ids;
    for (const Message& message : messages) {
        if (const AssistantMessage* answer = message.assistant()) {
            for (const ToolCall* call : answer->tool_calls()) ids.insert(call->id);
        } else if (const ToolResultMessage* result = message.tool_result()) {
            ids.erase(result->tool_call_id);
        }
    }
    return ids;
}

/// What the next process's model is told.
void expect_told(const MessageList& request, std::set<std::string> open) {
    EXPECT_TRUE(is_legal_transcript(request)) << "D1";
    for (const Message& message : request) {
        const ToolResultMessage* result = message.tool_result();
        if (!result || open.erase(result->tool_call_id) == 0) continue;
        EXPECT_TRUE(result->is_error);
        EXPECT_NE(message.text().find("unknown"), std::string::npos) << message.text();
    }
    EXPECT_TRUE(open.empty()) << "a call without result";
    EXPECT_EQ(request.back().text(), "What happened?");
}

void expect_continued(const std::filesystem::path& folder) {
    const std::vector<std::string> made = calls_made(folder);
    std::vector<std::string> sorted = made;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end())
        << "a call took effect twice";
    const MessageList before = kept_in(folder);
    FauxProvider faux;
    MessageList request;
    std::vector<FauxStep> script;
    script.emplace_back(FauxStep([&](const ModelRequest& asked) {
        request = asked.messages;
        return faux_assistant_message("I see");
    }));
    faux.set_responses(std::move(script));
    const std::unique_ptr<bub::Framework> framework = pipeline_in(folder, faux);
    EXPECT_EQ(say(*framework, "What happened?"), "I see");
    ASSERT_FALSE(request.empty());
    expect_told(request, unanswered(before));
    EXPECT_EQ(calls_made(folder), made) << "a call was executed again";
    const MessageList after = kept_in(folder);
    EXPECT_TRUE(is_legal_transcript(after)) << "D1";
    ASSERT_GT(after.size(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_TRUE(after[i] == before[i]) << "message " << i << " changed";
}

}  // namespace

TEST(PipelineCrash, D1_AKillAtAnyStepOfAToolTurnIsContinuedAndNoCallIsMadeAgain) {
    std::size_t with_open_calls = 0;
    std::size_t steps = 1;
    for (;; ++steps) {
        SCOPED_TRACE("killed at step " + std::to_string(steps));
        const Folder folder;
        if (!was_killed_at(folder.path, steps)) break;
        with_open_calls += unanswered(kept_in(folder.path)).empty() ? 0 : 1;
        expect_continued(folder.path);
        if (::testing::Test::HasFailure()) break;
    }
    EXPECT_GT(steps, 60u);
    EXPECT_GT(with_open_calls, 10u);
}

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 3 && words[0] == "--pipeline")
        return cubepi::crash_tests::run_pipeline_worker(words[1], std::stoul(words[2]));
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
