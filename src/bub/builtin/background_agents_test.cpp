// Sub-agents of the pipeline in the background (D126), and the limits that sub-agents of a session share.

#include <bub/builtin/builtin.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <bub/builtin/builtin_test_support.hpp>
#include <bub/builtin/session_agents.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>

namespace bub {
namespace {

using test::calling;

class BackgroundAgents : public test::Builtin {
protected:
    BackgroundAgents() {
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
        if (last == "task one") {
            while (!released) co_await changed.wait();
            if (!child_calls.empty()) {
                const std::string tool = std::exchange(child_calls, {});
                co_return calling(tool, JsonObject{{"path", "x"}, {"content", "y"}}, "w1");
            }
            co_return faux_assistant_message("the answer");
        }
        if (last.starts_with("Task ")) co_return faux_assistant_message("thanks");
        if (last.starts_with("go")) {
            JsonObject arguments{{"prompt", "task one"}, {"run_in_background", true}};
            if (!session.empty()) arguments["session"] = session;
            co_return calling("subagent", std::move(arguments), last);
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
    std::string session;
    std::vector<Envelope> delivered;
    std::vector<std::string> seen;
    std::int64_t tokens = 0;
};

TEST_F(BackgroundAgents, D126_TaskEnds_ItsTurnHasTheResult) {
    start();
    const auto script = [&]() -> Task<> {
        const TurnResult first = co_await turn("go");
        EXPECT_EQ(first.model_output, "waiting");
        EXPECT_EQ(agents->list("cli:chat").size(), 1u);
        const TurnResult listed = co_await turn(",tasks");
        EXPECT_NE(listed.model_output.find("running"), std::string::npos) << listed.model_output;
        co_await wait_for_result();
        Envelope again = delivered.front();
        Envelope message = delivered.front();
        const TurnResult second = co_await framework->process_inbound(std::move(message));
        EXPECT_EQ(second.model_output, "thanks");
        EXPECT_NE(seen.back().find("completed\nthe answer"), std::string::npos) << seen.back();
        const std::int64_t of_turn = tokens;
        const TurnResult third = co_await framework->process_inbound(std::move(again));
        EXPECT_TRUE(third.outbounds.empty()) << third.model_output;
        EXPECT_EQ(tokens, of_turn) << "there is no second run";
        (void)co_await turn("hello");
        EXPECT_TRUE(agents->list("cli:chat").empty());
    };
    run(script());
    EXPECT_EQ(delivered.size(), 1u);
}

TEST_F(BackgroundAgents, D126_TurnInProgress_ReceivesTheResult) {
    released = true;
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        co_await wait_for_result();
        const TurnResult next = co_await turn("hello");
        EXPECT_TRUE(saw("completed\nthe answer"));
        Envelope message = delivered.front();
        const TurnResult silent = co_await framework->process_inbound(std::move(message));
        EXPECT_TRUE(silent.outbounds.empty());
    };
    run(script());
}

TEST_F(BackgroundAgents, D126_OwnUser_CancelsATask) {
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        const std::string id = agents->list("cli:chat").at(0).id;
        Envelope cancel = Envelope("/tasks cancel " + id).on("telegram", "chat");
        cancel.session_id = "cli:chat";
        const TurnResult ended = co_await framework->process_inbound(std::move(cancel));
        EXPECT_NE(ended.model_output.find("being cancelled"), std::string::npos)
            << ended.model_output;
        while (delivered.empty()) co_await changed.wait();
        Envelope message = delivered.front();
        (void)co_await framework->process_inbound(std::move(message));
        EXPECT_TRUE(saw("cancelled"));
    };
    run(script());
}

TEST_F(BackgroundAgents, D126_OtherSession_CannotCancelIt) {
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        const std::string id = agents->list("cli:chat").at(0).id;
        EXPECT_FALSE(agents->cancel("cli:other", id));
        EXPECT_EQ(agents->list("cli:chat").at(0).state, cubepi::SubagentTaskState::running);
    };
    run(script());
}

TEST_F(BackgroundAgents, D126_ProcessEnds_TaskIsInterruptedAndNotRepeated) {
    start();
    const auto first = [&]() -> Task<> { (void)co_await turn("go"); };
    run(first());
    FrameworkOptions again;
    make_framework(std::move(again));
    agents = std::make_shared<SessionAgents>();
    options.agents = agents;
    seen.clear();
    start();
    const auto second = [&]() -> Task<> {
        const TurnResult listed = co_await turn(",tasks");
        EXPECT_NE(listed.model_output.find("interrupted"), std::string::npos)
            << listed.model_output;
        (void)co_await turn("hello");
        EXPECT_TRUE(saw("interrupted"));
        EXPECT_FALSE(saw("task one"));
        const TurnResult over = co_await turn(",tasks");
        EXPECT_EQ(over.model_output, "There are no tasks in the background.");
    };
    run(second());
}

TEST_F(BackgroundAgents, D126_SessionEnds_TaskEndsWithoutResult) {
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        (void)co_await turn(",quit");
        EXPECT_TRUE(agents->list("cli:chat").empty());
    };
    run(script());
    EXPECT_TRUE(delivered.empty());
}

TEST_F(BackgroundAgents, D85_CallThatNeedsApproval_IsRefused) {
    released = true;
    child_calls = "write";
    options.questions.emplace();
    options.questions->rules = [](const Envelope&) {
        SenderRules rules;
        rules.allow.allow(cubepi::ApprovalRule::parse("subagent: *"));
        return rules;
    };
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        co_await wait_for_result();
    };
    run(script());
    EXPECT_TRUE(saw("a sub-agent in the background cannot ask the user"));
    EXPECT_FALSE(std::filesystem::exists(root / "work" / "x"));
}

TEST_F(BackgroundAgents, InheritedConversation_IsRefusedInTheBackground) {
    session = "inherit";
    start();
    const auto script = [&]() -> Task<> { (void)co_await turn("go"); };
    run(script());
    EXPECT_TRUE(saw("cannot inherit this conversation"));
}

TEST_F(BackgroundAgents, NamedConversation_IsInUseDuringTheTask) {
    session = "research";
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        (void)co_await turn("go again");
        EXPECT_TRUE(saw("is in use by another call"));
        co_await wait_for_result();
    };
    run(script());
}

TEST_F(BackgroundAgents, LimitOfNumber_HoldsForTheSession) {
    options.subagents.max_total = 1;
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn("go");
        (void)co_await turn("go again");
        EXPECT_TRUE(saw("1 sub-agents were started (max_total)"));
    };
    run(script());
}

TEST_F(BackgroundAgents, NoneAllowed_ModelIsNotOfferedThem) {
    options.subagents.max_background = 0;
    start();
    const auto script = [&]() -> Task<> { (void)co_await turn("go"); };
    run(script());
    EXPECT_TRUE(agents->list("cli:chat").empty());
    EXPECT_FALSE(saw("Started task"));
}

}  // namespace
}  // namespace bub
