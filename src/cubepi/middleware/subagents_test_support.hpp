#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/checkpointed_channel.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/middleware/subagents.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi::subagent_test {

struct PathArgs {
    std::string path;
};

/// Returns an answer that calls one tool. The endpoint uses the same id for each call.
inline AssistantMessage calling(std::string_view tool, JsonObject arguments) {
    return faux_assistant_message(faux_tool_call(tool, std::move(arguments), "c1"),
                                  stop_reason::tool_use);
}
inline AssistantMessage delegating(JsonObject more = {}) {
    JsonObject arguments{{"name", "r"}, {"role", "worker"}, {"task", "do it"}, {"prompt", "do it"}};
    for (auto& [key, value] : more) arguments[key] = value;
    return calling("subagent", std::move(arguments));
}
inline AssistantMessage removing(std::string path) {
    return calling("rm", {{"path", std::move(path)}});
}

/// A parent whose sub-agents have the tool `rm`. Parent and sub-agents have a script each.
struct Family {
    FauxProvider parent;
    FauxProvider child;
    std::vector<std::string> removed;
    RequireConfirm confirmed = {"rm"};  ///< tools that a test with questions asks about
    SubagentOptions subagents;
    AgentOptions options;
    std::shared_ptr<SubagentMiddleware> middleware;

    Family() {
        subagents.default_model = child.model();
        subagents.shared_tools.push_back(tool<PathArgs>("rm", "Removes.", [this](PathArgs args) {
            removed.push_back(args.path);
            return "removed " + args.path;
        }));
        options.model = parent.model();
    }
    /// Call it once, after the options are set.
    std::unique_ptr<Agent> agent() {
        middleware = std::make_shared<SubagentMiddleware>(subagents);
        options.middleware.emplace_back(middleware);
        return std::make_unique<Agent>(options);
    }
    RunResult prompt() { return run(agent()->prompt("go")); }
};

/// Returns the result of the n-th call of a tool.
inline const ToolResultMessage& tool_result(const MessageList& messages, std::size_t n = 0) {
    static const ToolResultMessage none;
    for (const Message& message : messages) {
        if (message.tool_result() && n-- == 0) return *message.tool_result();
    }
    ADD_FAILURE() << "there is no such result";
    return none;
}
inline std::string result_text(const RunResult& result, std::size_t n = 0) {
    const ToolResultMessage& found = tool_result(result.new_messages, n);
    std::string text = found.is_error ? "error: " : "";
    for (const Content& block : found.content) {
        if (const auto* one = std::get_if<TextContent>(&block)) text += one->text;
    }
    return text;
}

inline ConfirmToolCallOptions about(RequireConfirm calls) {
    ConfirmToolCallOptions options;
    options.require_confirm = std::move(calls);
    return options;
}

inline Json approve() { return Json(to_json(ApproveAnswer())); }
inline Json deny() { return Json(to_json(ApproveAnswer::deny("no"))); }

/// One process: a parent with a stored conversation. `stores_children`: those of its sub-agents are stored too. `asks`: its users
/// approve calls of `rm`.
struct Process {
    Process(std::shared_ptr<Checkpointer> store, Family& family, bool stores_children,
            bool asks = true) {
        SubagentOptions subagents = family.subagents;
        if (stores_children) {
            subagents.checkpointer = store;
            subagents.make_channel = [](std::shared_ptr<Checkpointer> to, std::string thread) {
                return std::make_shared<CheckpointedChannel>(std::move(to), std::move(thread));
            };
        }
        channel = std::make_shared<CheckpointedChannel>(store, "t");
        AgentOptions options = family.options;
        options.channel = channel;
        options.checkpointer = std::move(store);
        options.thread_id = "t";
        if (asks)
            options.middleware.emplace_back(
                ConfirmToolCallMiddleware(channel, about(family.confirmed)));
        options.middleware.emplace_back(SubagentMiddleware(std::move(subagents)));
        agent = std::make_unique<Agent>(std::move(options));
    }
    /// Suspends the run at its first question. `id`: of the prompt; empty: a new one.
    RunResult suspended(std::string id = {}) {
        Message prompt = user_message("go");
        if (!id.empty()) prompt = std::move(prompt).with_id(std::move(id));
        return run(with_detach(agent->prompt(std::move(prompt))));
    }
    RunResult respond(Json answer) {
        return run(with_detach(agent->respond("", std::move(answer))));
    }

    std::shared_ptr<HitlChannel> channel;
    std::unique_ptr<Agent> agent;

private:
    static Task<> detach_at_question(Agent* agent, std::shared_ptr<HitlChannel> channel) {
        HitlRequestStream requests = channel->subscribe();
        while (std::optional<HitlRequest> request = co_await requests.next()) {
            for (int i = 0; i < 10; ++i) co_await yield_now();
            (void)agent->detach();
        }
    }
    Task<RunResult> with_detach(Task<RunResult> work) {
        const Executor executor = co_await this_executor;
        BackgroundScope host(executor);
        host.spawn(detach_at_question(agent.get(), channel));
        RunResult result = co_await std::move(work);
        co_await host.close();
        co_return result;
    }
};

}  // namespace cubepi::subagent_test
