#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/hitl/checkpointed_channel.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/mcp/mcp_test.hpp>
#include <cubepi/mcp/sampling.hpp>
#include <cubepi/mcp/tools.hpp>
#include <cubepi/middleware/subagents.hpp>
#include <cubepi/provider/faux.hpp>

// Runs that are suspended at questions of servers, for tests.

namespace cubepi::mcp_test {

/// The requests of a server's clients for calls, in a file that all its processes write.
class CallLog {
public:
    CallLog() {
        std::string path = (std::filesystem::temp_directory_path() / "mcp-calls-XXXXXX").string();
        directory_ = ::mkdtemp(path.data());
    }
    ~CallLog() {
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
    }
    CallLog(const CallLog&) = delete;
    CallLog& operator=(const CallLog&) = delete;

    std::string path() const { return (directory_ / "log").string(); }
    std::vector<std::string> lines() const {
        std::ifstream file(path());
        std::vector<std::string> found;
        for (std::string line; std::getline(file, line);) found.push_back(line);
        return found;
    }

private:
    std::filesystem::path directory_;
};

/// A thread whose runs are continued by one process after the other, each with a process of the server.
struct SuspendedThread {
    CallLog log;
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    FauxProvider child;  ///< of the sub-agent
    FauxProvider server_model;
    std::string mode = "modern,extra";
    std::string server = "fake";
    bool asks_before = false;  ///< the user approves each call
    bool has_channel = true;
    bool in_subagent = false;  ///< which has the tools of the server

    std::size_t max_samplings = 4;
    std::chrono::nanoseconds suspended_call_time = std::chrono::nanoseconds::zero();
    std::shared_ptr<const Runtime> runtime = Runtime::standard();

    std::shared_ptr<McpClient> client() {
        FakeServer settings(mode + ",log=" + log.path() + ",tasks in=" + log.path() + ".tasks");
        settings.client.server = server;
        settings.client.suspended_call_time = suspended_call_time;
        settings.runtime = runtime;
        auto sampling = std::make_shared<McpSamplingOptions>();
        sampling->model = [this] { return server_model.model(); };
        sampling->max_per_call = max_samplings;
        settings.client.sampling = sampling;
        return settings.start();
    }
    std::unique_ptr<Agent> agent(const std::vector<AgentTool>& tools) {
        auto channel = std::make_shared<CheckpointedChannel>(store, "t");
        AgentOptions options{.model = faux.model(), .tools = tools};
        if (in_subagent) {
            SubagentOptions subagents;
            subagents.shared_tools = tools;
            options.tools.clear();
            subagents.default_model = child.model();
            subagents.checkpointer = store;
            subagents.make_channel = [](std::shared_ptr<Checkpointer> to, std::string thread_id) {
                return std::make_shared<CheckpointedChannel>(std::move(to), std::move(thread_id));
            };
            options.middleware.emplace_back(SubagentMiddleware(std::move(subagents)));
        }
        if (asks_before) {
            ConfirmToolCallOptions confirm;
            confirm.require_confirm = {"mcp__fake__echo"};
            options.middleware.push_back(ConfirmToolCallMiddleware(channel, std::move(confirm)));
        }
        options.checkpointer = store;
        options.thread_id = "t";
        if (has_channel) options.channel = channel;
        auto made = std::make_unique<Agent>(std::move(options));
        subscription = made->subscribe([agent = made.get()](const AgentEvent& event) {
            if (event.get_if<HitlRequestEvent>()) (void)agent->detach();
        });
        return made;
    }
    Subscription subscription;

    /// Runs `go` in a new process, which is suspended at a question.
    template <class Go>
    RunResult process(Go go) {
        const std::shared_ptr<McpClient> its_client = client();
        const McpTools made = run(mcp_tools(its_client));
        const std::unique_ptr<Agent> its_agent = agent(made.tools);
        RunResult result = run(go(*its_agent));
        run(its_client->close());
        return result;
    }
    /// The model calls the tool.
    void expect_call(std::string tool) {
        faux.set_responses(
            {faux_assistant_message(faux_tool_call(std::move(tool)), "tool_use"), "done"});
    }
    RunResult call(std::string tool) {
        expect_call(std::move(tool));
        return process([](Agent& agent) { return agent.prompt("Go"); });
    }
    /// Answers the only question.
    RunResult answer(const RunResult& suspended, Json value) {
        return process([&](Agent& agent) {
            return agent.respond(suspended.pending_requests.at(0).question_id, std::move(value));
        });
    }
    std::string result_text() {
        std::string text = "none";
        const auto thread = run(store->load("t"));
        for (const Message& message : thread->messages) {
            if (message.tool_result()) text = message.text();
        }
        return text;
    }
};

inline Json named(std::string name) {
    JsonObject answers;
    answers["name"] = std::move(name);
    return Json(std::move(answers));
}

}  // namespace cubepi::mcp_test
