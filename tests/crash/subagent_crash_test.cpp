#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/middleware/subagents.hpp>
#include <cubepi/provider/faux.hpp>

#include "worker_process.hpp"

// A process with a sub-agent is killed at every write; a second one continues. The effect of the sub-agent's call happens once at
// most, and a task in the background ends exactly once, as completed or as interrupted.

namespace cubepi::crash_tests {

namespace {

/// Each step of a run has several system calls.
constexpr std::size_t stride = under_sanitizer ? 7 : 3;
constexpr std::string_view background = "background";
constexpr std::string_view foreground = "foreground";

std::filesystem::path effects_in(const std::filesystem::path& directory) {
    return directory / "effects";
}

std::size_t effects(const std::filesystem::path& directory) {
    std::ifstream file(effects_in(directory));
    std::size_t count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
}

SQLiteOptions database(const std::filesystem::path& directory) {
    SQLiteOptions options;
    options.path = (directory / "t.db").string();
    options.synchronous = SQLiteSynchronous::off;
    return options;
}

/// A model that answers by its conversation, so that a second process gets the same answers.
AssistantMessage answer(const ModelRequest& request, std::string_view mode) {
    const Message& last = request.messages.back();
    const bool is_child = request.system_prompt == "child";
    if (last.role() != Role::user || is_synthetic_message(last))
        return faux_assistant_message(is_child ? "child done" : "all done");
    if (is_child)
        return faux_assistant_message(faux_tool_call("effect", {}, "c1"), stop_reason::tool_use);
    if (last.text() != "go") return faux_assistant_message("nothing to do");
    return faux_assistant_message(
        faux_tool_call("subagent", {{"prompt", "do it"}, {"run_in_background", mode == background}},
                       "c1"),
        stop_reason::tool_use);
}

Task<> work(std::filesystem::path directory, std::string mode) {
    FauxProvider faux;
    faux.set_responses(std::vector<FauxStep>(
        20, FauxStep([mode](const ModelRequest& request) { return answer(request, mode); })));
    const auto store = std::make_shared<SQLiteCheckpointer>(database(directory));
    SubagentOptions subagents;
    subagents.default_model = faux.model();
    subagents.subagents = {{.name = "general-purpose", .system_prompt = "child"}};
    subagents.limits.max_background = 1;
    subagents.checkpointer = store;
    subagents.shared_tools.push_back(
        AgentTool("effect", "Leaves an effect.", AgentTool::no_parameters(),
                  [directory](JsonObject, ToolContext&) {
                      const int fd = open(effects_in(directory).c_str(),
                                          O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
                      if (fd < 0 || write(fd, "x\n", 2) != 2) throw std::runtime_error("effect");
                      close(fd);
                      return AgentToolResult("done");
                  }));
    const auto middleware = std::make_shared<SubagentMiddleware>(std::move(subagents));
    AgentOptions options{.model = faux.model(), .middleware = {middleware}};
    options.checkpointer = store;
    options.thread_id = "t";
    Agent agent(std::move(options));
    for (const std::string text : {"go", "and then?", "and now?"}) {
        Message input = user_message(text).with_id("input-" + text);
        (void)co_await agent.prompt(std::move(input));
        const auto runs = [](const SubagentTask& task) {
            return task.state == SubagentTaskState::running;
        };
        std::vector<SubagentTask> tasks = middleware->tasks();
        while (std::any_of(tasks.begin(), tasks.end(), runs)) {
            co_await yield_now();
            tasks = middleware->tasks();
        }
    }
}

int run_worker_here(const std::vector<std::string>& arguments, std::string_view mode) {
    arm(std::stoul(arguments.at(1)));
    run(work(arguments.at(0), std::string(mode)));
    disarm();
    return 0;
}

MessageList conversation(const std::filesystem::path& directory) {
    SQLiteCheckpointer store(database(directory));
    return run(store.load("t"))->messages;
}

void expect_whole(const std::filesystem::path& directory) {
    const MessageList messages = conversation(directory);
    EXPECT_TRUE(is_legal_transcript(messages)) << "D1";
    EXPECT_LE(effects(directory), 1u) << "the call took effect twice";
    std::size_t reports = 0;
    std::size_t started = 0;
    std::size_t results = 0;
    for (const Message& message : messages) {
        if (message.user() && is_synthetic_message(message) && message.text().starts_with("Task "))
            ++reports;
        if (!message.tool_result()) continue;
        ++results;
        if (message.text().starts_with("Started task")) ++started;
    }
    EXPECT_EQ(results, 1u);
    EXPECT_EQ(reports, started);
}

TEST(SubagentCrash, D114_Kill_ContinuesTheSubagentWithoutRepeating) {
    std::size_t done = 0;
    std::size_t kills = 0;
    const std::string worker = "--" + std::string(foreground);
    const auto check = [&](const Remains& remains) {
        ++kills;
        EXPECT_EQ(run_worker({worker, remains.directory.string(), "0"}).status, 0);
        expect_whole(remains.directory);
        for (const Message& message : conversation(remains.directory)) {
            if (message.tool_result() && message.text() == "child done") ++done;
        }
    };
    EXPECT_GT(kill_at_each_step(worker, check, stride), 20u);
    EXPECT_EQ(done, kills) << "each sub-agent ends with its answer";
}

TEST(SubagentCrash, D115_Kill_TaskIsReportedOnceAndNotRepeated) {
    const std::string worker = "--" + std::string(background);
    const auto check = [&](const Remains& remains) {
        EXPECT_EQ(run_worker({worker, remains.directory.string(), "0"}).status, 0);
        expect_whole(remains.directory);
    };
    EXPECT_GT(kill_at_each_step(worker, check, stride), 20u);
}

}  // namespace

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using namespace cubepi::crash_tests;
    const auto worker = [](std::string_view mode) {
        return [mode](const std::vector<std::string>& arguments) {
            return run_worker_here(arguments, mode);
        };
    };
    return tests_or_worker(
        argc, argv, {{"--foreground", worker(foreground)}, {"--background", worker(background)}});
}
