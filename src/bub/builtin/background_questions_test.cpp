// Questions of sub-agents in the background, where turns do not wait for answers (D128): who may answer, and what an answer reaches.

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <bub/builtin/background_agents_test_support.hpp>
#include <bub/questions.hpp>
#include <bub/tape/tape_checkpointer.hpp>

namespace bub {
namespace {

class BackgroundQuestions : public test::AgentsInBackground {
protected:
    BackgroundQuestions() {
        released = true;
        child_calls = "write";
        options.questions.emplace();
        options.questions->rules = [](const Envelope&) {
            SenderRules rules;
            rules.allow.allow(cubepi::ApprovalRule::parse("subagent: *"));
            return rules;
        };
        options.questions->may_answer = [](const Envelope& message, const cubepi::HitlRequest&) {
            return sender_of(message) == "boss";
        };
    }

    Task<TurnResult> turn_of(std::string user, std::string text) {
        Envelope inbound = Envelope(std::move(text)).on("telegram", "7");
        inbound.context["sender_id"] = std::move(user);
        inbound.session_id = "telegram:7";
        return framework->process_inbound(std::move(inbound));
    }
    /// Starts the sub-agent, and runs the turn that shows its question.
    Task<TurnResult> ask() {
        (void)co_await turn_of("ann", "go");
        while (delivered.empty()) co_await changed.wait();
        Envelope message = delivered.front();
        delivered.clear();
        co_return co_await framework->process_inbound(std::move(message));
    }
    /// Changes the name of the question of the session's run.
    Task<> rename_question(std::string to) {
        const std::shared_ptr<TapeStore> store = co_await framework->tape_store();
        TapeCheckpointer memory(store);
        const std::string name = tape_name(framework->workspace(), "telegram:7");
        std::vector<cubepi::PendingRequest> pending = co_await memory.load_pending_requests(name);
        cubepi::PendingRequest one = pending.at(0);
        (void)co_await memory.clear_pending_request(name, one.run_id, one.request.question_id);
        one.request.request_id = std::move(to);
        co_await memory.save_pending_request(name, one.run_id, one.request);
    }
    Task<> wait_for_end() {
        while (delivered.empty()) co_await changed.wait();
        Envelope message = delivered.front();
        (void)co_await framework->process_inbound(std::move(message));
    }
    bool is_written() const { return std::filesystem::exists(root / "work" / "x"); }
};

/// The only output of the turn, which is a question.
Envelope question_in(const TurnResult& turn) {
    EXPECT_EQ(turn.outbounds.size(), 1u);
    if (turn.outbounds.empty()) return Envelope("");
    EXPECT_EQ(turn.outbounds[0].kind, envelope_kind::question);
    EXPECT_EQ(turn.outbounds[0].chat_id, "7");
    return turn.outbounds[0];
}

std::string name_in(const Envelope& question) {
    const Json* const request = question.rest.if_contains(question_key);
    return request ? std::string(request->at("request_id").as_string()) : std::string();
}

TEST_F(BackgroundQuestions, D128_Approver_AnswersInTheChat) {
    start();
    const auto script = [&]() -> Task<> {
        const TurnResult asked = co_await ask();
        const Envelope question = question_in(asked);
        EXPECT_NE(question.content_text().find("sub-agent"), std::string::npos)
            << question.content_text();
        EXPECT_FALSE(is_written());
        const TurnResult answered = co_await turn_of("boss", ",approve " + name_in(question));
        EXPECT_EQ(answered.model_output, "The sub-agent has the answer.");
        EXPECT_NE(answered.state.service<AcceptedAnswer>(), nullptr);
        co_await wait_for_end();
        EXPECT_TRUE(saw("completed"));
    };
    run(script());
    EXPECT_TRUE(is_written());
}

TEST_F(BackgroundQuestions, B25_OtherUser_MayNotAnswer) {
    start();
    const auto script = [&]() -> Task<> {
        const TurnResult asked = co_await ask();
        const std::string name = name_in(question_in(asked));
        for (const char* const command : {",approve ", ",deny ", ",abandon "}) {
            const TurnResult refused = co_await turn_of("ann", command + name);
            EXPECT_NE(refused.model_output.find("You may not answer"), std::string::npos)
                << refused.model_output;
        }
        EXPECT_EQ(agents->list("telegram:7").at(0).state, cubepi::SubagentTaskState::running);
        const TurnResult denied = co_await turn_of("boss", ",deny " + name + " no");
        EXPECT_EQ(denied.model_output, "The sub-agent has the answer.");
        co_await wait_for_end();
    };
    run(script());
    EXPECT_FALSE(is_written());
}

TEST_F(BackgroundQuestions, D126_TaskAfterAnAnswer_BelongsToTheAsker) {
    std::vector<cubepi::FauxStep> steps(30, model());
    steps[0] = test::calling("write", {{"path", "y"}, {"content", "z"}}, "w0");
    steps[1] =
        test::calling("subagent", {{"prompt", "task one"}, {"run_in_background", true}}, "s0");
    add_builtin(std::move(steps), options);
    const auto script = [&]() -> Task<> {
        const TurnResult asked = co_await turn_of("ann", "go");
        const std::string name = name_in(question_in(asked));
        (void)co_await turn_of("boss", ",approve " + name);
        while (delivered.empty()) co_await changed.wait();
        EXPECT_EQ(sender_of(delivered.front()), "ann") << "whose rules hold for the results";
        EXPECT_EQ(delivered.front().chat_id, "7");
    };
    run(script());
}

TEST_F(BackgroundQuestions, D83_BeginningOfTwoNames_AnswersNeither) {
    std::vector<cubepi::FauxStep> steps(30, model());
    steps[3] = test::calling("write", {{"path", "z"}, {"content", "z"}}, "w0");
    add_builtin(std::move(steps), options);
    const auto script = [&]() -> Task<> {
        const TurnResult asked = co_await ask();
        const std::string name = name_in(question_in(asked));
        const TurnResult also = co_await turn_of("ann", "more");
        (void)question_in(also);
        const std::string begin = name.substr(0, 4);
        co_await rename_question(begin + "ffffff");
        const TurnResult refused = co_await turn_of("boss", ",approve " + begin);
        EXPECT_NE(refused.model_output.find("is not the name of one"), std::string::npos)
            << refused.model_output;
        EXPECT_NE(refused.model_output.find(begin + "ffffff"), std::string::npos);
        EXPECT_EQ(agents->list("telegram:7").at(0).state, cubepi::SubagentTaskState::running);
        const TurnResult answered = co_await turn_of("boss", ",approve " + name);
        EXPECT_EQ(answered.model_output, "The sub-agent has the answer.");
        co_await wait_for_end();
    };
    run(script());
    EXPECT_TRUE(is_written());
    EXPECT_FALSE(std::filesystem::exists(root / "work" / "z"));
}

TEST_F(BackgroundQuestions, D83_IdOfTheEndpoint_NamesNoQuestion) {
    start();
    const auto script = [&]() -> Task<> {
        const TurnResult asked = co_await ask();
        (void)question_in(asked);
        const TurnResult wrong = co_await turn_of("boss", ",approve w1");
        EXPECT_EQ(wrong.model_output.find("has the answer"), std::string::npos)
            << wrong.model_output;
        EXPECT_EQ(agents->list("telegram:7").at(0).state, cubepi::SubagentTaskState::running);
    };
    run(script());
    EXPECT_FALSE(is_written());
}

TEST_F(BackgroundQuestions, D128_OtherSession_CannotAnswer) {
    start();
    const auto script = [&]() -> Task<> {
        const TurnResult asked = co_await ask();
        Envelope other = Envelope(",approve " + name_in(question_in(asked))).on("telegram", "8");
        other.context["sender_id"] = "boss";
        const TurnResult wrong = co_await framework->process_inbound(std::move(other));
        EXPECT_EQ(wrong.model_output.find("has the answer"), std::string::npos)
            << wrong.model_output;
    };
    run(script());
    EXPECT_FALSE(is_written());
}

TEST_F(BackgroundQuestions, D128_Question_IsShownOnceInItsChat) {
    start();
    const auto script = [&]() -> Task<> {
        const TurnResult asked = co_await ask();
        const Envelope question = question_in(asked);
        const TurnResult other = co_await turn_of("ann", "hello");
        EXPECT_EQ(other.outbounds.size(), 1u);
        EXPECT_EQ(other.outbounds.at(0).kind, envelope_kind::normal);
        const TurnResult withdrawn = co_await turn_of("boss", ",abandon " + name_in(question));
        EXPECT_EQ(withdrawn.model_output, "The sub-agent has the answer.");
        co_await wait_for_end();
        EXPECT_TRUE(saw("withdrawn by the user"));
    };
    run(script());
    EXPECT_FALSE(is_written());
}

/// The stages of a turn that may fail, each by a plugin that is asked before the builtin one, or after it.
class FailedQuestions : public BackgroundQuestions,
                        public testing::WithParamInterface<std::pair<const char*, bool>> {};

TEST_P(FailedQuestions, D183_FailedTurn_AnotherOneShowsTheQuestion) {
    bool fails = true;
    const auto fail_in = [&fails](const Envelope& message) {
        if (fails && message.rest.contains(task_results_key))
            throw cubepi::Error(cubepi::ErrorCode::unavailable, "it is down");
    };
    const auto [stage, is_after] = GetParam();
    Plugin failing;
    failing.name = "failing";
    if (std::string_view(stage) == "render") {
        failing.render_outbound = [fail_in](RenderOutboundCall& call) -> EnvelopeBatch {
            fail_in(call.message);
            return {};
        };
    } else {
        failing.run_model = [fail_in](RunModelCall& call) -> Task<std::optional<std::string>> {
            fail_in(call.message);
            co_return std::nullopt;
        };
    }
    if (!is_after) start();
    framework->add(std::move(failing));
    if (is_after) start();
    const auto next = [&]() -> Task<cubepi::Outcome<TurnResult>> {
        while (delivered.empty()) co_await changed.wait();
        Envelope message = delivered.front();
        delivered.clear();
        Task<TurnResult> turn = framework->process_inbound(std::move(message));
        co_return co_await cubepi::outcome_of(std::move(turn));
    };
    const auto script = [&]() -> Task<> {
        (void)co_await turn_of("ann", "go");
        const cubepi::Outcome<TurnResult> failed = co_await next();
        EXPECT_FALSE(failed.ok());
        EXPECT_EQ(delivered.size(), 1u);
        const cubepi::Outcome<TurnResult> also_failed = co_await next();
        EXPECT_FALSE(also_failed.ok());
        EXPECT_TRUE(delivered.empty()) << "without end otherwise";
        fails = false;
        const TurnResult next_turn = co_await turn_of("ann", "and now?");
        EXPECT_EQ(next_turn.outbounds.size(), 2u);
        (void)co_await turn_of("boss", ",deny " + name_in(next_turn.outbounds.back()));
        co_await wait_for_end();
    };
    run(script());
    EXPECT_FALSE(is_written());
}

INSTANTIATE_TEST_SUITE_P(Stages, FailedQuestions,
                         testing::Values(std::pair("model", false), std::pair("render", false),
                                         std::pair("render", true)));

TEST_F(BackgroundQuestions, D128_CancelledTask_HasNoQuestion) {
    start();
    const auto script = [&]() -> Task<> {
        const TurnResult asked = co_await ask();
        const std::string name = name_in(question_in(asked));
        EXPECT_TRUE(agents->cancel("telegram:7", agents->list("telegram:7").at(0).id));
        co_await wait_for_end();
        const TurnResult late = co_await turn_of("boss", ",approve " + name);
        EXPECT_EQ(late.model_output.find("has the answer"), std::string::npos) << late.model_output;
    };
    run(script());
    EXPECT_FALSE(is_written());
}

TEST_F(BackgroundQuestions, D85_NoHostForQuestions_RefusesTheCall) {
    options.deliver_results = nullptr;
    start();
    const auto script = [&]() -> Task<> {
        (void)co_await turn_of("ann", "go");
        while (!saw("a sub-agent in the background cannot ask the user")) co_await changed.wait();
    };
    run(script());
    EXPECT_FALSE(is_written());
}

}  // namespace
}  // namespace bub
