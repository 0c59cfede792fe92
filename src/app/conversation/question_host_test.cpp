#include "question_host.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/ask_user_tool.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/provider/faux.hpp>

#include "scripted_prompter_test_support.hpp"

namespace cubepi::app {
namespace {

/// An agent with the tool "touch", which needs approval, and the tool ask_user.
class QuestionHostTest : public ::testing::Test {
protected:
    void answer(std::deque<std::string> answers) {
        prompter_ = std::make_shared<ScriptedPrompter>(std::move(answers));
        approval_ = std::make_shared<ToolApproval>(ToolRules(), channel_, prompter_,
                                                   ToolApproval::Options());
        auto save = [this](const std::string& rule) { saved_.push_back(rule); };
        host_ = std::make_shared<QuestionHost>(channel_, prompter_, Style(), approval_, save);
    }

    AgentTool touch() {
        return AgentTool("touch", "Writes.", AgentTool::no_parameters(),
                         [this](JsonObject args, ToolContext&) {
                             calls_.push_back(std::move(args));
                             return AgentToolResult("done");
                         });
    }

    /// Runs a prompt whose answer calls `tools`, while the host answers. Returns the results of the calls.
    std::vector<ToolResultMessage> prompt(ContentList<AssistantContent> calls,
                                          bool aborts = false) {
        FauxProvider faux;
        faux.set_responses(
            {faux_assistant_message(std::move(calls), stop_reason::tool_use), "I see."});
        AgentOptions options;
        options.model = faux.model();
        options.tools = {touch(), ask_user_tool(channel_)};
        options.channel = channel_;
        options.middleware.emplace_back(approval_);
        Agent agent(std::move(options));
        agent.subscribe([this](const AgentEvent&) { host_->refresh(); });
        const RunResult result = run(with_host(agent, aborts));
        std::vector<ToolResultMessage> results;
        for (const Message& message : result.new_messages) {
            if (message.tool_result()) results.push_back(*message.tool_result());
        }
        return results;
    }

    Task<> abort_at_question(Agent& agent) {
        while (prompter_->asked == 0) co_await boost::asio::post(boost::asio::use_awaitable);
        agent.abort();
    }

    Task<RunResult> with_host(Agent& agent, bool aborts) {
        BackgroundScope scope(co_await this_executor);
        scope.spawn(host_->run());
        if (aborts) scope.spawn(abort_at_question(agent));
        co_return co_await with_cleanup(agent.prompt("go"), scope.close());
    }

    static Json decision(const ToolResultMessage& result) {
        const Json* trace = result.details.get_object().if_contains("hitl");
        return trace ? trace->get_object().at("decision") : Json();
    }

    std::shared_ptr<InMemoryChannel> channel_ = std::make_shared<InMemoryChannel>();
    std::shared_ptr<ScriptedPrompter> prompter_;
    std::shared_ptr<ToolApproval> approval_;
    std::shared_ptr<QuestionHost> host_;
    std::vector<JsonObject> calls_;
    std::vector<std::string> saved_;
};

TEST_F(QuestionHostTest, YesRunsACallAndNoRefusesIt) {
    answer({"y", "N"});
    const auto results =
        prompt({faux_tool_call("touch", {}, "c1"), faux_tool_call("touch", {}, "c2")});
    ASSERT_EQ(results.size(), 2U);
    EXPECT_EQ(calls_.size(), 1U);
    EXPECT_EQ(decision(results[0]), "human_approve");
    EXPECT_EQ(decision(results[1]), "human_deny");
    EXPECT_EQ(Message(results[1]).text(), "The user refused this call.");
}

TEST_F(QuestionHostTest, AlwaysAddsARuleThatAllowsTheNextCall) {
    answer({"a", "y"});
    const auto results =
        prompt({faux_tool_call("touch", {}, "c1"), faux_tool_call("touch", {}, "c2")});
    EXPECT_EQ(calls_.size(), 2U) << prompter_->shown;
    EXPECT_EQ(saved_, std::vector<std::string>{"touch: *"});
    ASSERT_EQ(approval_->rules().rules().size(), 1U);
    EXPECT_TRUE(prompter_->answers.empty());
}

TEST_F(QuestionHostTest, EditedArgumentsReplaceThoseOfTheCall) {
    answer({"e", "[1]", "e", R"({"path": "b"})"});
    const auto results = prompt({faux_tool_call("touch", {{"path", "a"}}, "c1")});
    ASSERT_EQ(calls_.size(), 1U) << prompter_->shown;
    EXPECT_EQ(calls_.front(), (JsonObject{{"path", "b"}}));
    EXPECT_EQ(decision(results.front()), "edit");
    EXPECT_NE(prompter_->shown.find("must be a JSON object"), std::string::npos);
}

TEST_F(QuestionHostTest, TheEndOfTheInputRefusesACall) {
    answer({});
    const auto results = prompt({faux_tool_call("touch", {}, "c1")});
    EXPECT_TRUE(calls_.empty());
    EXPECT_EQ(Message(results.front()).text(), "Refused: the input has ended.");
}

TEST_F(QuestionHostTest, AnAbortWithdrawsTheQuestion) {
    answer({});
    prompter_->waits_at_end = true;
    const auto results = prompt({faux_tool_call("touch", {}, "c1")}, true);
    EXPECT_TRUE(calls_.empty());
    EXPECT_EQ(prompter_->withdrawn, 1);
    EXPECT_TRUE(channel_->pending().empty());
}

TEST_F(QuestionHostTest, AQuestionOfTheModelIsAnswered) {
    answer({"", "teal"});
    const JsonObject question{{"key", "color"}, {"prompt", "Which?"}};
    const auto results =
        prompt({faux_tool_call("ask_user", {{"questions", JsonArray{question}}}, "c1")});
    ASSERT_EQ(results.size(), 1U);
    JsonObject trace = results.front().details.at("hitl").as_object();
    EXPECT_TRUE(trace.erase("user")) << "of the system";
    EXPECT_EQ(
        trace,
        (JsonObject{{"kind", "ask"}, {"answers", {{"color", "teal"}}}, {"channel", "terminal"}}));
}

TEST_F(QuestionHostTest, QuestionsThatShareAKeyAreCancelledInsteadOfAskedAgainAndAgain) {
    answer({"b", "other"});
    const JsonObject free{{"key", "color"}, {"prompt", "Which?"}};
    JsonObject choice = free;
    choice["options"] = JsonArray{JsonObject{{"label", "b"}, {"value", "b"}}};
    const auto results =
        prompt({faux_tool_call("ask_user", {{"questions", JsonArray{choice, free}}}, "c1")});
    ASSERT_EQ(results.size(), 1U);
    EXPECT_TRUE(results.front().is_error);
    EXPECT_NE(Message(results.front()).text().find("was rejected"), std::string::npos);
}

}  // namespace
}  // namespace cubepi::app
