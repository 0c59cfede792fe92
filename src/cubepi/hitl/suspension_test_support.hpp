#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/ask_user_tool.hpp>
#include <cubepi/hitl/checkpointed_channel.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi::hitl_test {

struct PathArgs {
    std::string path;
};

inline ToolCall rm_call(std::string path, std::string id) {
    return faux_tool_call("rm", {{"path", std::move(path)}}, std::move(id));
}

inline AssistantMessage calling(std::vector<ToolCall> calls) {
    ContentList<AssistantContent> blocks;
    for (ToolCall& call : calls) blocks.emplace_back(std::move(call));
    return faux_assistant_message(std::move(blocks), stop_reason::tool_use);
}

inline Json approve() { return Json(to_json(ApproveAnswer())); }
inline Json deny(std::string reason) {
    return Json(to_json(ApproveAnswer::deny(std::move(reason))));
}

/// Called for a request.
using OnRequest = std::function<void(const HitlRequest&)>;

/// One process: an agent with a checkpointed channel on a store that outlives it. Its tool `rm` is gated.
class Process {
public:
    Process(std::shared_ptr<Checkpointer> store, FauxProvider& faux,
            std::vector<std::string>& effects, std::shared_ptr<testing::ManualClock> clock = {},
            std::function<void(AgentOptions&, const std::shared_ptr<HitlChannel>&)> change = {})
        : effects_(effects) {
        CheckpointedChannelOptions channel_options;
        channel_options.clock = clock;
        channel = std::make_shared<CheckpointedChannel>(store, "t", std::move(channel_options));
        AgentOptions options{.model = faux.model()};
        options.tools.push_back(tool<PathArgs>("rm", "Removes a file.", [this](PathArgs args) {
            effects_.push_back(args.path);
            return "removed " + args.path;
        }));
        ConfirmToolCallOptions confirm;
        confirm.require_confirm = {"rm"};
        options.middleware.push_back(ConfirmToolCallMiddleware(channel, std::move(confirm)));
        options.checkpointer = std::move(store);
        options.thread_id = "t";
        options.channel = channel;
        if (clock) options.runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
        if (change) change(options, channel);
        agent = std::make_unique<Agent>(std::move(options));
        (void)agent->subscribe([this](const AgentEvent& event) { note(event); });
    }

    /// Runs a task of the agent; `at_request` is called for each request, outside of the listener.
    RunResult run_with(Task<RunResult> task, OnRequest at_request) {
        at_request_ = std::move(at_request);
        return run(with_host(std::move(task)));
    }
    RunResult prompt(OnRequest at_request = {}) {
        return run_with(agent->prompt("hi"), std::move(at_request));
    }
    /// Detaches at the n-th request.
    RunResult prompt_and_detach(int nth = 1) {
        return prompt([this, nth, seen = std::make_shared<int>(0)](const HitlRequest&) {
            if (++*seen == nth) (void)agent->detach();
        });
    }
    RunResult respond(std::string question_id, Json answer) {
        return run_with(agent->respond(std::move(question_id), std::move(answer)), {});
    }
    void answer(std::string question_id, Json value, AnswerOrigin origin = {}) {
        host_->spawn(answer_or_abort(std::move(question_id), std::move(value), std::move(origin)));
    }

    std::shared_ptr<CheckpointedChannel> channel;
    std::unique_ptr<Agent> agent;
    /// "hitl_request:c1", "hitl_answer:c1", "agent_suspended", ...
    std::vector<std::string> events;
    std::vector<Notice> notices;

private:
    Task<RunResult> with_host(Task<RunResult> task) {
        host_.emplace(co_await this_executor);
        Outcome<RunResult> result = co_await outcome_of(std::move(task));
        co_await host_->close();
        host_.reset();
        co_return std::move(result).value();
    }
    /// A process whose store has failed does not wait for ever.
    Task<> answer_or_abort(std::string question_id, Json value, AnswerOrigin origin) {
        Task<> answering =
            channel->answer(std::move(question_id), std::move(value), std::move(origin));
        const Outcome<> answered = co_await outcome_of(std::move(answering));
        if (!answered.ok()) agent->abort();
    }
    static Task<> call(OnRequest at_request, HitlRequest request) {
        co_await yield_now();
        at_request(request);
    }
    void note(const AgentEvent& event) {
        if (event.type() == AgentEventType::message_update) return;
        std::string word(to_string(event.type()));
        if (const auto* request = event.get_if<HitlRequestEvent>()) {
            word += ":" + request->request.question_id;
            if (at_request_ && host_) host_->spawn(call(at_request_, request->request));
        } else if (const auto* answered = event.get_if<HitlAnswerEvent>()) {
            word += ":" + answered->question_id;
        } else if (const auto* notice = event.get_if<NoticeEvent>()) {
            word += ":" + notice->notice.code;
            notices.push_back(notice->notice);
        } else if (const auto* start = event.get_if<ToolExecutionStartEvent>()) {
            word += ":" + start->tool_call_id.str();
        }
        events.push_back(std::move(word));
    }

    std::vector<std::string>& effects_;
    OnRequest at_request_;
    std::optional<BackgroundScope> host_;
};

inline std::vector<std::string> ids_of(const std::vector<HitlRequest>& requests) {
    std::vector<std::string> ids;
    for (const HitlRequest& one : requests) ids.push_back(one.question_id);
    return ids;
}

inline std::vector<std::string> texts_of(const MessageList& messages) {
    std::vector<std::string> texts;
    for (const Message& message : messages) texts.push_back(message.text());
    return texts;
}

}  // namespace cubepi::hitl_test
