#include <cubepi/hitl/confirm_tool_calls.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/ask_user_tool.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

using namespace std::chrono_literals;

struct PathArgs {
    std::string path;
};

using Answers = std::function<Task<>(std::shared_ptr<InMemoryChannel>, HitlRequest)>;

/// Passes each request of a channel to `answers` until the stream ends.
Task<> serve(std::shared_ptr<InMemoryChannel> channel, HitlRequestStream stream, Answers answers) {
    while (true) {
        std::optional<HitlRequest> request = co_await stream.next();
        if (!request) co_return;
        co_await answers(channel, std::move(*request));
    }
}

/// An agent whose model calls `rm` once on the path /tmp/x.
struct Fixture {
    explicit Fixture(InMemoryChannelOptions options = {}) {
        options.clock = clock;
        channel = std::make_shared<InMemoryChannel>(std::move(options));
    }

    Task<RunResult> prompt_and_serve(Agent& agent, Answers answers) {
        BackgroundScope host(co_await this_executor);
        if (answers) host.spawn(serve(channel, channel->subscribe(), std::move(answers)));
        Outcome<RunResult> result = co_await outcome_of(agent.prompt("hi"));
        co_await host.close();
        co_return std::move(result).value();
    }

    RunResult prompt(Middleware middleware, Answers answers) {
        FauxProvider faux;
        faux.set_responses({faux_assistant_message(faux_tool_call("rm", {{"path", "/tmp/x"}}, "c1"),
                                                   stop_reason::tool_use),
                            "done"});
        AgentTool rm = tool<PathArgs>("rm", "Removes a file.", [this](PathArgs args) {
            removed.push_back(args.path);
            return "removed " + args.path;
        });
        Agent agent({.model = faux.model(),
                     .tools = {rm},
                     .middleware = {std::move(middleware)},
                     .channel = users,
                     .runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock))});
        agent.subscribe([this](const AgentEvent& event) {
            const auto* end = event.get_if<ToolExecutionEndEvent>();
            if (end) blocked = end->blocked_by_hook;
        });
        RunResult result =
            testing::run_advancing(*clock, prompt_and_serve(agent, std::move(answers)));
        EXPECT_EQ(result.outcome, RunOutcome::completed);
        const Message& message = result.new_messages[2];
        text = message.text();
        const Json details = message.tool_result()->details;
        trace = details.is_object() ? details.get_object().at("hitl") : Json();
        return result;
    }

    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    std::shared_ptr<InMemoryChannel> channel;
    std::shared_ptr<InMemoryChannel> users;  // of the agent; null: none
    std::vector<std::string> removed;
    bool blocked = false;
    std::string text;  // the tool result
    Json trace;        // its details.hitl
};

Answers always(Json answer) {
    return [answer](std::shared_ptr<InMemoryChannel> channel, HitlRequest request) {
        return channel->answer(request.question_id, answer);
    };
}

TEST(ConfirmToolCalls, D54_ApprovedCall_RunsAndLeavesATrace) {
    Fixture agent;
    agent.prompt(ConfirmToolCallMiddleware(agent.channel),
                 always(Json(JsonObject{{"decision", "approve"}})));
    EXPECT_EQ(agent.removed, (std::vector<std::string>{"/tmp/x"}));
    EXPECT_EQ(agent.text, "removed /tmp/x");
    EXPECT_EQ(agent.trace, Json(JsonObject{{"decision", "human_approve"}}));
}

TEST(ConfirmToolCalls, QuestionsAndTypedAnswers_NeedNoApproval) {
    for (const char* name : {"ask_user", "structured_output"}) {
        int ran = 0;
        AgentTool counts(name, "", JsonSchema(Json(JsonObject{{"type", "object"}})),
                         [&](JsonObject, ToolContext&) {
                             ++ran;
                             return AgentToolResult("ok");
                         });
        counts.risk_level = ToolRisk::read_only;
        auto channel = std::make_shared<InMemoryChannel>();
        FauxProvider faux;
        faux.set_responses(
            {faux_assistant_message({AssistantContent(faux_tool_call(name, {}, "c1"))},
                                    stop_reason::tool_use),
             "done"});
        Agent agent({.model = faux.model(),
                     .tools = {counts},
                     .middleware = {ConfirmToolCallMiddleware(channel)},
                     .channel = channel});
        EXPECT_EQ(run(agent.prompt("hi")).text(), "done");
        EXPECT_EQ(ran, 1) << name;
    }
}

TEST(ConfirmToolCalls, DeniedCall_IsBlockedWithTheReason) {
    Fixture agent;
    agent.prompt(ConfirmToolCallMiddleware(agent.channel),
                 always(Json(to_json(ApproveAnswer::deny("too risky")))));
    EXPECT_TRUE(agent.removed.empty());
    EXPECT_TRUE(agent.blocked);
    EXPECT_EQ(agent.text, "too risky");
    EXPECT_EQ(agent.trace, Json(JsonObject{{"decision", "human_deny"}, {"reason", "too risky"}}));
}

TEST(ConfirmToolCalls, DenialWithoutReason_StoresNone) {
    Fixture agent;
    agent.prompt(ConfirmToolCallMiddleware(agent.channel),
                 always(Json(JsonObject{{"decision", "deny"}})));
    EXPECT_EQ(agent.text, "the user denied this call");
    EXPECT_EQ(agent.trace, Json(JsonObject{{"decision", "human_deny"}}));
}

TEST(ConfirmToolCalls, EditedCall_RunsWithTheNewArguments) {
    Fixture agent;
    agent.prompt(ConfirmToolCallMiddleware(agent.channel),
                 always(Json(to_json(ApproveAnswer::edit({{"path", "/tmp/y"}})))));
    EXPECT_EQ(agent.removed, (std::vector<std::string>{"/tmp/y"}));
    EXPECT_EQ(agent.trace, Json(JsonObject{{"decision", "edit"},
                                           {"original_args", JsonObject{{"path", "/tmp/x"}}},
                                           {"edited_args", JsonObject{{"path", "/tmp/y"}}}}));
}

TEST(ConfirmToolCalls, D36_InvalidEdit_IsRejectedOnArrival) {
    Fixture agent;
    int rejected = 0;
    struct Host {
        static Task<> answer(std::shared_ptr<InMemoryChannel> channel, HitlRequest request,
                             int* rejected) {
            Json bad(to_json(ApproveAnswer::edit({{"path", JsonArray()}})));
            const Outcome<> first =
                co_await outcome_of(channel->answer(request.question_id, std::move(bad)));
            if (!first.ok()) ++*rejected;
            Json good(to_json(ApproveAnswer::edit({{"path", "/tmp/z"}})));
            co_await channel->answer(request.question_id, std::move(good));
        }
    };
    agent.prompt(ConfirmToolCallMiddleware(agent.channel),
                 [&rejected](std::shared_ptr<InMemoryChannel> channel, HitlRequest request) {
                     return Host::answer(std::move(channel), std::move(request), &rejected);
                 });
    EXPECT_EQ(rejected, 1);
    EXPECT_EQ(agent.removed, (std::vector<std::string>{"/tmp/z"}));
}

TEST(ConfirmToolCalls, D18_CallTimeout_OverridesTheChannelTimeout) {
    InMemoryChannelOptions options;
    options.default_timeout = 40s;
    Fixture agent(options);
    agent.prompt(ConfirmToolCallMiddleware(agent.channel), {});
    EXPECT_TRUE(agent.blocked);
    EXPECT_EQ(agent.text, "approval_timeout: no answer within 40 s");
    EXPECT_EQ(agent.trace, Json(JsonObject{{"decision", "timed_out"}}));
    ConfirmToolCallOptions own;
    own.timeout = 5s;
    agent.prompt(ConfirmToolCallMiddleware(agent.channel, own), {});
    EXPECT_EQ(agent.text, "approval_timeout: no answer within 5 s");
}

TEST(ConfirmToolCalls, CancelledRequest_BlocksTheCall) {
    Fixture agent;
    agent.prompt(ConfirmToolCallMiddleware(agent.channel),
                 [](std::shared_ptr<InMemoryChannel> channel, HitlRequest request) {
                     return channel->cancel(request.question_id, "went home");
                 });
    EXPECT_EQ(agent.text, "cancelled: went home");
    EXPECT_EQ(agent.trace, Json(JsonObject{{"decision", "cancelled"}, {"reason", "went home"}}));
}

TEST(ConfirmToolCalls, CallsOfNamedTools_AreTheOnlyConfirmed) {
    Fixture agent;
    const std::vector<std::string> none;
    for (const RequireConfirm& required : {RequireConfirm{"write"}, RequireConfirm(none)}) {
        agent.prompt(ConfirmToolCallMiddleware(agent.channel, {.require_confirm = required}), {});
        EXPECT_EQ(agent.text, "removed /tmp/x");
        EXPECT_TRUE(agent.trace.is_null());
    }
    ConfirmToolCallOptions other;
    other.require_confirm = [](const BeforeToolCallContext& call) {
        return call.args.at("path") != "/tmp/x";
    };
    agent.prompt(ConfirmToolCallMiddleware(agent.channel, other), {});
    EXPECT_EQ(agent.removed.size(), 3U);
}

TEST(ConfirmToolCalls, DetailsFunction_IsShownWithTheCall) {
    Fixture agent;
    Json shown;
    ConfirmToolCallOptions options;
    options.require_confirm = {"rm"};
    options.details_fn = [](const BeforeToolCallContext& call) {
        return Json("removes " + std::string(call.args.at("path").as_string()));
    };
    agent.prompt(ConfirmToolCallMiddleware(agent.channel, options),
                 [&](std::shared_ptr<InMemoryChannel> channel, HitlRequest request) {
                     shown = std::get<ApproveRequest>(request.payload).details;
                     return channel->answer(request.question_id, to_json(ApproveAnswer()));
                 });
    EXPECT_EQ(shown, "removes /tmp/x");
    EXPECT_EQ(agent.text, "removed /tmp/x");
}

Task<ApprovalDecision> decide(const BeforeToolCallContext& call, ApprovalDecision decision) {
    EXPECT_EQ(call.args.at("path"), "/tmp/x");
    co_return decision;
}

ApprovalPolicy policy(ApprovalDecision decision) {
    return [decision](const BeforeToolCallContext& call) { return decide(call, decision); };
}

TEST(ApprovalPolicyMiddleware, Policy_RunsRefusesOrAsks) {
    Fixture agent;
    agent.prompt(ApprovalPolicyMiddleware(agent.channel, policy(Approve{})), {});
    EXPECT_EQ(agent.text, "removed /tmp/x");
    EXPECT_TRUE(agent.trace.is_null());
    agent.prompt(ApprovalPolicyMiddleware(agent.channel, policy(Deny{"not here"})), {});
    EXPECT_EQ(agent.text, "not here");
    EXPECT_EQ(agent.trace, Json(JsonObject{{"decision", "policy_deny"}, {"reason", "not here"}}));
    AskUser ask;
    ask.details = "why";
    agent.prompt(ApprovalPolicyMiddleware(agent.channel, policy(ask)),
                 [](std::shared_ptr<InMemoryChannel> channel, HitlRequest request) {
                     EXPECT_EQ(std::get<ApproveRequest>(request.payload).details, Json("why"));
                     return channel->answer(request.question_id,
                                            Json(JsonObject{{"decision", "approve"}}));
                 });
    EXPECT_EQ(agent.text, "removed /tmp/x");
    EXPECT_EQ(agent.removed.size(), 2U);
}

TEST(ApprovalPolicyMiddleware, D17_EditedCallLeadsElsewhere_IsRefused) {
    Fixture agent;
    std::vector<std::string> targets;
    const auto policy = [&](const BeforeToolCallContext& call) -> Task<ApprovalDecision> {
        const std::string path(call.args.at("path").as_string());
        *call.judged_file = JudgedFile{path, targets.front()};
        targets.erase(targets.begin());
        co_return AskUser();
    };
    const auto edit = [&](const char* path) {
        agent.removed.clear();
        agent.prompt(ApprovalPolicyMiddleware(agent.channel, policy),
                     [path](std::shared_ptr<InMemoryChannel> channel, HitlRequest request) {
                         EXPECT_EQ(request.extra.at("target"), "docs");
                         return channel->answer(
                             request.question_id,
                             Json(to_json(ApproveAnswer::edit({{"path", path}}))));
                     });
        return agent.removed.size();
    };
    targets = {"docs", "docs", "docs", "other", "docs", "other"};
    EXPECT_EQ(edit("/tmp/x"), 1u) << "the same file";
    EXPECT_EQ(edit("/tmp/x"), 0u) << agent.text;
    EXPECT_EQ(edit("/tmp/y"), 1u) << "a path that the user has chosen";
}

Task<> answer_with(std::shared_ptr<InMemoryChannel> channel, HitlRequestStream stream,
                   Json answer) {
    const std::optional<HitlRequest> request = co_await stream.next();
    std::string id = request->question_id;
    if (answer.is_null()) {
        co_await channel->cancel(std::move(id), "no time");
    } else {
        co_await channel->answer(std::move(id), std::move(answer));
    }
}

Task<RunResult> prompt_and_answer(Agent& agent, std::shared_ptr<InMemoryChannel> channel,
                                  std::optional<Json> answer) {
    BackgroundScope host(co_await this_executor);
    if (answer) host.spawn(answer_with(channel, channel->subscribe(), std::move(*answer)));
    Outcome<RunResult> result = co_await outcome_of(agent.prompt("hi"));
    co_await host.close();
    co_return std::move(result).value();
}

/// Returns the result of a call of ask_user with one question, which is answered, cancelled (null) or left open.
ToolResultMessage ask(std::optional<Json> answer) {
    auto clock = std::make_shared<testing::ManualClock>();
    InMemoryChannelOptions options;
    options.clock = clock;
    options.default_timeout = 30s;
    auto channel = std::make_shared<InMemoryChannel>(options);
    JsonObject question{{"key", "color"}, {"prompt", "Which?"}};
    FauxProvider faux;
    faux.set_responses({faux_assistant_message(
                            faux_tool_call("ask_user", {{"questions", JsonArray{question}}}, "c1"),
                            stop_reason::tool_use),
                        "done"});
    Agent agent({.model = faux.model(),
                 .tools = {ask_user_tool(channel)},
                 .runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock))});
    const RunResult result =
        testing::run_advancing(*clock, prompt_and_answer(agent, channel, std::move(answer)));
    return *result.new_messages[2].tool_result();
}

/// Reads the events one by one, and answers after more than the time limit of tools.
Task<RunResult> read_and_answer(Agent& agent, std::shared_ptr<InMemoryChannel> channel,
                                std::shared_ptr<testing::ManualClock> clock) {
    AgentRun agent_run = agent.start("hi");
    for (;;) {
        const std::optional<AgentEvent> event = co_await agent_run.next();
        if (!event) break;
        if (event->type() != AgentEventType::hitl_request) continue;
        for (int i = 0; i < 20; ++i) co_await yield_now();
        clock->advance(30min);
        for (int i = 0; i < 20; ++i) co_await yield_now();
        const std::string id = channel->pending().front().question_id;
        Json answer(JsonObject{{"color", "teal"}});
        co_await channel->answer(id, std::move(answer));
    }
    co_return co_await agent_run.result();
}

TEST(AskUserTool, D64_ReaderAnswersBetweenEvents_TimeLimitStandsStill) {
    auto clock = std::make_shared<testing::ManualClock>();
    InMemoryChannelOptions options;
    options.clock = clock;
    auto channel = std::make_shared<InMemoryChannel>(options);
    JsonObject question{{"key", "color"}, {"prompt", "Which?"}};
    FauxProvider faux;
    faux.set_responses({faux_assistant_message(
                            faux_tool_call("ask_user", {{"questions", JsonArray{question}}}, "c1"),
                            stop_reason::tool_use),
                        "done"});
    Agent agent({.model = faux.model(),
                 .tools = {ask_user_tool(channel)},
                 .channel = channel,
                 .runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock))});
    const RunResult result = run(read_and_answer(agent, channel, clock));
    EXPECT_FALSE(result.new_messages[2].tool_result()->is_error) << result.new_messages[2].text();
    EXPECT_EQ(result.text(), "done");
}

TEST(AskUserTool, Answers_AreTheResult) {
    const JsonObject answers{{"color", "teal"}};
    const ToolResultMessage result = ask(Json(answers));
    EXPECT_FALSE(result.is_error);
    EXPECT_EQ(result.details,
              Json(JsonObject{{"hitl", JsonObject{{"kind", "ask"}, {"answers", answers}}}}));
    EXPECT_NE(Message(result).text().find("\"color\":\"teal\""), std::string::npos);
}

TEST(AskUserTool, CancelledOrExpiredRequest_IsAnErrorResult) {
    const ToolResultMessage cancelled = ask(Json(nullptr));
    EXPECT_TRUE(cancelled.is_error);
    EXPECT_EQ(
        cancelled.details,
        Json(JsonObject{{"hitl", JsonObject{{"outcome", "cancelled"}, {"reason", "no time"}}}}));
    const ToolResultMessage late = ask(std::nullopt);
    EXPECT_TRUE(late.is_error);
    EXPECT_EQ(late.details,
              Json(JsonObject{{"hitl", JsonObject{{"outcome", "timed_out"}, {"seconds", 30.0}}}}));
}

TEST(ConfirmToolCalls, D114_OtherChannelThanTheAgents_IsAsked) {
    Fixture agent;
    agent.users = std::make_shared<InMemoryChannel>();
    HitlRequestStream asked = agent.users->subscribe();
    agent.prompt(ConfirmToolCallMiddleware(agent.channel),
                 always(Json(JsonObject{{"decision", "deny"}})));
    EXPECT_TRUE(agent.removed.empty());
    const auto policy = [](const BeforeToolCallContext&) -> Task<ApprovalDecision> {
        co_return AskUser();
    };
    agent.prompt(ApprovalPolicyMiddleware(agent.channel, policy),
                 always(Json(JsonObject{{"decision", "deny"}})));
    EXPECT_TRUE(agent.removed.empty());
    agent.users.reset();
    EXPECT_FALSE(run(asked.next())) << "the user of the agent was asked";
}

TEST(AskUserTool, D114_OtherChannelThanTheAgents_IsAsked) {
    const auto users = std::make_shared<InMemoryChannel>();
    const auto others = std::make_shared<InMemoryChannel>();
    FauxProvider faux;
    const Json questions = JsonArray{JsonObject{{"key", "color"}, {"prompt", "Which?"}}};
    faux.set_responses(
        {faux_assistant_message(faux_tool_call("ask_user", {{"questions", questions}}, "c1"),
                                stop_reason::tool_use),
         "done"});
    Agent agent({.model = faux.model(), .tools = {ask_user_tool(others)}, .channel = users});
    (void)agent.subscribe([&](const AgentEvent& event) {
        if (event.get_if<HitlRequestEvent>()) agent.abort();
    });
    const auto answering = [&]() -> Task<RunResult> {
        BackgroundScope host(co_await this_executor);
        host.spawn(serve(others, others->subscribe(), always(Json(JsonObject{{"color", "blue"}}))));
        Outcome<RunResult> result = co_await outcome_of(agent.prompt("hi"));
        co_await host.close();
        co_return std::move(result).value();
    };
    const RunResult result = run(answering());
    EXPECT_EQ(result.text(), "done") << "the user of the agent was asked";
}

}  // namespace
}  // namespace cubepi
