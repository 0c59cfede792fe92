#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/builtin/builtin_test_support.hpp>
#include <bub/builtin/session_agents.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>

namespace bub::test {

/// A model that starts sub-agents in the background, and a host that receives the messages with their results.
class AgentsInBackground : public Builtin {
protected:
    AgentsInBackground() {
        options.subagents.max_background = 2;
        options.agents = agents;
        options.deliver_results = [this](Envelope message) {
            delivered.push_back(std::move(message));
            changed.pulse();
        };
        options.on_result = [this](const cubepi::RunResult& result, const TurnContext&) {
            tokens = result.usage.output_tokens.value_or(0);
        };
    }

    /// Each request is answered by what its last message is.
    cubepi::FauxStep model() {
        return cubepi::FauxStep(
            [this](const cubepi::ModelRequest& request) { return answer(request); });
    }
    Task<cubepi::AssistantMessage> answer(cubepi::ModelRequest request) {
        const std::string last = request.messages.back().text();
        seen.push_back(last);
        changed.pulse();
        // The context of a message is before it.
        const std::string line = last.substr(last.rfind('\n') + 1);
        offered.clear();
        if (request.tools)
            for (const auto& tool : *request.tools) offered.push_back(tool.name.str());
        if (fails && last.starts_with("Task ")) {
            fails = false;
            throw cubepi::Error(cubepi::ErrorCode::invalid_argument, "the model is gone");
        }
        if (line == "task one") {
            while (!released) co_await changed.wait();
            if (!child_calls.empty()) {
                const std::string tool = std::exchange(child_calls, {});
                co_return calling(tool, JsonObject{{"path", "x"}, {"content", "y"}}, "w1");
            }
            co_return faux_assistant_message(result);
        }
        if (last.starts_with("Task ") && !again.empty()) {
            JsonObject arguments{{"prompt", "task one"}, {"run_in_background", true}};
            co_return calling("subagent", std::move(arguments), std::exchange(again, {}));
        }
        if (last.starts_with("Task ")) co_return faux_assistant_message("thanks");
        if (line.starts_with("go")) {
            JsonObject arguments{{"prompt", "task one"}, {"run_in_background", true}};
            if (!session.empty()) arguments["session"] = session;
            co_return calling("subagent", std::move(arguments), line);
        }
        co_return faux_assistant_message("waiting");
    }

    void start() { add_builtin(std::vector<cubepi::FauxStep>(30, model()), options); }
    Task<TurnResult> turn(std::string text) {
        Envelope inbound = Envelope(std::move(text)).on("cli", "chat");
        return framework->process_inbound(std::move(inbound));
    }
    Task<> wait_for_result() {
        released = true;
        changed.pulse();
        while (delivered.empty()) co_await changed.wait();
    }
    /// Waits for a task that fails with these words. Its result may arrive in the turn that has started it.
    Task<> wait_for_error(std::string words) {
        released = true;
        changed.pulse();
        for (;;) {
            for (const cubepi::SubagentTask& task : agents->list("cli:chat"))
                if (task.result.error.find(words) != std::string::npos) co_return;
            if (saw(words)) co_return;
            co_await changed.wait();
        }
    }
    void run(Task<> script) {
        cubepi::run(cubepi::with_cleanup(std::move(script), agents->close()));
    }
    bool saw(std::string_view part) const {
        return std::any_of(seen.begin(), seen.end(), [&](const std::string& text) {
            return text.find(part) != std::string::npos;
        });
    }

    std::shared_ptr<SessionAgents> agents = std::make_shared<SessionAgents>();
    BuiltinOptions options;
    cubepi::AsyncEvent changed;
    bool released = false;
    std::string child_calls;  ///< a tool that the sub-agent calls first
    std::string result = "the answer";
    std::string again;   ///< the id of a call that follows the result of a task; empty: none
    bool fails = false;  ///< the next call for the result of a task fails
    std::string session;
    std::vector<Envelope> delivered;
    std::vector<std::string> seen;
    std::vector<std::string> offered;  ///< the tools of the last request
    std::int64_t tokens = 0;
};

}  // namespace bub::test
