#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/ask_user_tool.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/testing/manual_clock.hpp>

#include "../terminal/prompter.hpp"
#include "question_host.hpp"

namespace cubepi::app {

namespace {

using std::chrono::seconds;

/// Answers questions from a list. After the last answer the input ends, or waits if `waits_at_end` is set.
class ScriptedPrompter final : public Prompter {
public:
    explicit ScriptedPrompter(std::deque<std::string> list) : answers(std::move(list)) {}

    void print(TerminalView text) override { shown += text.str(); }
    void withdraw() override { ++withdrawn; }
    Task<std::optional<std::string>> read(TerminalText prompt, std::string) override {
        shown += prompt.str();
        ++asked;
        std::optional<std::string> answer;
        if (answers.empty()) {
            if (waits_at_end) co_await never.wait();
            co_return answer;
        }
        answer = std::move(answers.front());
        answers.pop_front();
        shown += *answer + "\n";
        co_return answer;
    }

    std::deque<std::string> answers;
    bool waits_at_end = false;
    std::string shown;
    int asked = 0;
    int withdrawn = 0;
    AsyncEvent never;
};

/// Answers when it is told to.
class WaitingPrompter final : public Prompter {
public:
    void print(TerminalView) override {}
    Task<std::optional<std::string>> read(TerminalText, std::string) override {
        ++asked;
        co_await answered.wait();
        co_return std::optional<std::string>("y");
    }
    AsyncEvent answered;
    int asked = 0;
};

class TurnPrompterTest : public ::testing::Test {
protected:
    AgentEvent event(std::uint64_t seq) const {
        AgentEvent made;
        made.run = run_;
        made.seq = seq;
        return made;
    }
    void prepare() {
        boost::asio::co_spawn(io_, questions_.prepare(),
                              [this](const std::exception_ptr&) { prepared_ = true; });
        work();
    }
    void ask() {
        boost::asio::co_spawn(io_, questions_.read(TerminalView("? ")),
                              [](const std::exception_ptr&, const std::optional<std::string>&) {});
        work();
    }
    void work() {
        io_.restart();
        io_.poll();
    }

    boost::asio::io_context io_;
    testing::ManualClock clock_;
    std::shared_ptr<WaitingPrompter> prompter_ = std::make_shared<WaitingPrompter>();
    std::shared_ptr<const RunInfo> run_ = std::make_shared<const RunInfo>();
    int ended_ = 0;
    TurnPrompter questions_{prompter_, clock_, io_.get_executor(), [this] { ++ended_; }};
    bool prepared_ = false;
};

TEST_F(TurnPrompterTest, Question_WaitsUntilEarlierEventsAreShown) {
    questions_.emitted(event(7));
    questions_.shown(event(5));
    prepare();
    EXPECT_FALSE(prepared_);
    questions_.shown(event(6));
    work();
    EXPECT_FALSE(prepared_);
    EXPECT_EQ(ended_, 0) << "text that is still to come would be torn apart";
    questions_.shown(event(7));
    work();
    EXPECT_TRUE(prepared_);
    EXPECT_EQ(ended_, 1);
}

TEST_F(TurnPrompterTest, EventsNeverShown_DoNotHoldUpQuestion) {
    questions_.emitted(event(7));
    prepare();
    EXPECT_FALSE(prepared_);
    clock_.advance(seconds(1));
    work();
    EXPECT_TRUE(prepared_);
}

TEST_F(TurnPrompterTest, Question_MeasuresTheTimeOfTheUser) {
    ask();
    clock_.advance(seconds(3));
    EXPECT_EQ(questions_.waited(), seconds(3)) << "while the question is open";
    ask();
    clock_.advance(seconds(2));
    prompter_->answered.set();
    work();
    clock_.advance(seconds(9));
    EXPECT_EQ(questions_.waited(), seconds(5)) << "two questions at once count once";
}

HitlOption option(std::string label, std::string value, bool allow_input = false) {
    HitlOption made;
    made.label = std::move(label);
    made.value = std::move(value);
    made.allow_input = allow_input;
    return made;
}

HitlQuestion question(std::string key) {
    HitlQuestion made;
    made.key = std::move(key);
    made.prompt = "Which " + made.key + "?";
    return made;
}

HitlQuestion colors(bool multi_select = false, bool allow_input = false) {
    HitlQuestion made = question("color");
    made.multi_select = multi_select;
    made.options = {option("Dark red", "red"), option("Blue", "blue"),
                    option("Other", "other", allow_input)};
    return made;
}

TEST(TypedAnswer, Option_IsNamedByNumberLabelOrValue) {
    for (const std::string_view text : {"1", " dark RED ", "red"}) {
        const TypedAnswer answer = read_typed_answer(colors(), text);
        EXPECT_EQ(answer.problem, "") << text;
        EXPECT_EQ(answer.value, Json("red")) << text;
    }
    for (const std::string_view text : {"0", "4", "green", "re"}) {
        const TypedAnswer answer = read_typed_answer(colors(), text);
        EXPECT_NE(answer.problem.find("is not an option; enter a number from 1 to 3"),
                  std::string::npos)
            << text;
    }
}

TEST(TypedAnswer, OtherText_IsAcceptedIfOptionAllowsInput) {
    EXPECT_EQ(read_typed_answer(colors(false, true), "green").value, Json("green"));
    EXPECT_EQ(read_typed_answer(question("name"), " Ada ").value, Json("Ada"));
}

TEST(TypedAnswer, SeveralOptions_AreAListWithoutRepetitions) {
    EXPECT_EQ(read_typed_answer(colors(true), "2, dark red,2,").value,
              Json(JsonArray{"blue", "red"}));
    EXPECT_FALSE(read_typed_answer(colors(true), "2, green").problem.empty());
}

TEST(TypedAnswer, Skipping_IsAcceptedForOptionalQuestionsOnly) {
    HitlQuestion optional = colors();
    optional.required = false;
    EXPECT_EQ(read_typed_answer(optional, "  ").problem, "");
    EXPECT_TRUE(read_typed_answer(optional, "").value.is_null());
    EXPECT_FALSE(read_typed_answer(colors(), "").problem.empty());
}

TEST(AskDialog, EachQuestion_IsAskedUntilAnswerIsAccepted) {
    ScriptedPrompter prompter({"green", "2", "", "Ada"});
    AskRequest request;
    request.questions = {colors(), question("name")};
    const std::optional<JsonObject> answers =
        run(AskDialog(prompter, Style()).ask(std::move(request)));
    EXPECT_EQ(answers, (JsonObject{{"color", "blue"}, {"name", "Ada"}}));
    EXPECT_NE(prompter.shown.find("? The model asks:\n  │ Which color?\n  │ 1  Dark red\n"),
              std::string::npos)
        << prompter.shown;
}

TEST(AskDialog, ModelText_IsFramedWithoutControlCharacters) {
    ScriptedPrompter prompter({"x"});
    AskRequest request;
    request.questions = {question("\x1b[2Jname\n? Run this command")};
    (void)run(AskDialog(prompter, Style()).ask(std::move(request)));
    EXPECT_EQ(prompter.shown.find('\x1b'), std::string::npos);
    EXPECT_EQ(prompter.shown.find("\n? Run"), std::string::npos) << prompter.shown;
}

TEST(AskDialog, EndOfInput_AnswersNothing) {
    ScriptedPrompter prompter({"1"});
    AskRequest request;
    request.questions = {colors(), question("name")};
    EXPECT_FALSE(run(AskDialog(prompter, Style()).ask(std::move(request))));
}

TEST(AskDialog, Confirmation_TakesYesOrNo) {
    ScriptedPrompter prompter({"maybe", "YES", "n"});
    AskDialog dialog(prompter, Style());
    ConfirmRequest request;
    request.prompt = "Sure?";
    EXPECT_EQ(run(dialog.confirm(request)), true);
    EXPECT_EQ(run(dialog.confirm(request)), false);
    EXPECT_EQ(run(dialog.confirm(request)), std::nullopt);
}

/// An agent with the tool "touch", which needs approval, and the tool ask_user.
class QuestionHostTest : public ::testing::Test {
protected:
    void answer(std::deque<std::string> answers) {
        prompter_ = std::make_shared<ScriptedPrompter>(std::move(answers));
        ToolApproval::Options options;
        options.server_of = [this](const std::string&) { return std::optional(server_); };
        approval_ =
            std::make_shared<ToolApproval>(ToolRules(), channel_, prompter_, std::move(options));
        auto save = [this](const std::string& rule) { saved_.push_back(rule); };
        host_ = std::make_shared<QuestionHost>(channel_, prompter_, Style(), approval_, save);
    }

    AgentTool touch() {
        return AgentTool(name_, description_, AgentTool::no_parameters(),
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
    // Of the tool "touch".
    std::string name_ = "touch";
    std::string description_ = "Writes.";
    std::string server_ = "the server";
};

TEST(QuestionHostChoice, QuestionMeanwhile_WaitsForItsTurn) {
    boost::asio::io_context io;
    const auto prompter = std::make_shared<WaitingPrompter>();
    const auto channel = std::make_shared<InMemoryChannel>();
    auto approval =
        std::make_shared<ToolApproval>(ToolRules(), channel, prompter, ToolApproval::Options());
    QuestionHost host(channel, prompter, Style(), std::move(approval), {});
    Choices choices;
    choices.text = TerminalView("Carry out the plan?");
    choices.all = yes_and_no();
    char chosen = 0;
    boost::asio::co_spawn(
        io, host.alone(prompter->choose(std::move(choices))),
        [&](const std::exception_ptr&, std::optional<Chosen> one) { chosen = one->key; });
    io.poll();
    HitlRequest request;
    request.payload = ConfirmRequest();
    Json answer;
    boost::asio::co_spawn(
        io, host.ask(std::move(request)),
        [&](const std::exception_ptr&, Json value) { answer = std::move(value); });
    io.restart();
    io.poll();
    EXPECT_EQ(prompter->asked, 1);
    prompter->answered.set();
    io.restart();
    io.poll();
    EXPECT_EQ(prompter->asked, 2);
    EXPECT_EQ(chosen, 'y');
    EXPECT_FALSE(answer.is_null());
}

TEST_F(QuestionHostTest, YesOrNo_RunsOrRefusesTheCall) {
    answer({"y", "N"});
    const auto results =
        prompt({faux_tool_call("touch", {}, "c1"), faux_tool_call("touch", {}, "c2")});
    ASSERT_EQ(results.size(), 2U);
    EXPECT_EQ(calls_.size(), 1U);
    EXPECT_EQ(decision(results[0]), "human_approve");
    EXPECT_EQ(decision(results[1]), "human_deny");
    EXPECT_EQ(Message(results[1]).text(), "The user refused this call.");
}

TEST_F(QuestionHostTest, Always_AddsRuleThatAllowsTheNextCall) {
    answer({"a", "y"});
    const auto results =
        prompt({faux_tool_call("touch", {}, "c1"), faux_tool_call("touch", {}, "c2")});
    EXPECT_EQ(calls_.size(), 2U) << prompter_->shown;
    EXPECT_EQ(saved_, std::vector<std::string>{"touch: *"});
    ASSERT_EQ(approval_->rules().rules().size(), 1U);
    EXPECT_TRUE(prompter_->answers.empty());
}

TEST_F(QuestionHostTest, D148_ChangedMcpTool_IsAskedAboutAgain) {
    answer({"a", "y", "n"});
    name_ = "mcp__git__touch";
    (void)prompt({faux_tool_call(name_, {}, "c1"), faux_tool_call(name_, {}, "c2")});
    EXPECT_EQ(calls_.size(), 2U) << prompter_->shown;
    ASSERT_EQ(saved_.size(), 1U);
    EXPECT_TRUE(saved_[0].starts_with("mcp__git__touch: sha256:")) << saved_[0];
    EXPECT_EQ(ApprovalRule::parse(saved_[0]).text(), saved_[0]);
    EXPECT_THROW(ApprovalRule::parse("mcp__git__touch: sha256:12"), Error);
    EXPECT_THROW(ApprovalRule::parse("write" + saved_[0].substr(saved_[0].find(':'))), Error);
    description_ = "Deletes.";
    (void)prompt({faux_tool_call(name_, {}, "c3")});
    EXPECT_EQ(calls_.size(), 2U);
    EXPECT_TRUE(prompter_->answers.empty());
}

TEST_F(QuestionHostTest, D148_AnotherServerOfTheName_IsAskedAbout) {
    answer({"a", "n"});
    name_ = "mcp__git__touch";
    (void)prompt({faux_tool_call(name_, {}, "c1")});
    server_ = "another server";
    (void)prompt({faux_tool_call(name_, {}, "c2")});
    EXPECT_EQ(calls_.size(), 1U) << prompter_->shown;
    EXPECT_TRUE(prompter_->answers.empty());
}

TEST_F(QuestionHostTest, EditedArguments_ReplaceThoseOfTheCall) {
    answer({"e", "[1]", "e", R"({"path": "b"})"});
    const auto results = prompt({faux_tool_call("touch", {{"path", "a"}}, "c1")});
    ASSERT_EQ(calls_.size(), 1U) << prompter_->shown;
    EXPECT_EQ(calls_.front(), (JsonObject{{"path", "b"}}));
    EXPECT_EQ(decision(results.front()), "edit");
    EXPECT_NE(prompter_->shown.find("must be a JSON object"), std::string::npos);
}

TEST_F(QuestionHostTest, Reason_IsPartOfTheResult) {
    answer({"no, wait", "n  not now ", "r", "too late"});
    const auto results =
        prompt({faux_tool_call("touch", {}, "c1"), faux_tool_call("touch", {}, "c2")});
    ASSERT_EQ(results.size(), 2U);
    EXPECT_TRUE(calls_.empty()) << prompter_->shown;
    EXPECT_EQ(Message(results[0]).text(), "The user refused this call: not now");
    EXPECT_EQ(Message(results[1]).text(), "The user refused this call: too late");
}

TEST_F(QuestionHostTest, D131_ModeAll_AsksNothing) {
    answer({});
    approval_->set_mode(ApprovalMode::all);
    (void)prompt({faux_tool_call("touch", {}, "c1")});
    EXPECT_EQ(calls_.size(), 1U);
    EXPECT_EQ(prompter_->asked, 0);
}

TEST_F(QuestionHostTest, D131_AcceptEdits_AsksAboutOtherTools) {
    answer({"n"});
    approval_->set_mode(ApprovalMode::accept_edits);
    (void)prompt({faux_tool_call("touch", {}, "c1")});
    EXPECT_TRUE(calls_.empty());
    EXPECT_EQ(prompter_->asked, 1);
}

TEST_F(QuestionHostTest, D131_Plan_RefusesDespiteRule) {
    answer({});
    approval_->add_rule(ApprovalRule::parse("touch: *"));
    approval_->set_mode(ApprovalMode::plan);
    const auto results = prompt({faux_tool_call("touch", {}, "c1")});
    EXPECT_TRUE(calls_.empty());
    EXPECT_EQ(decision(results.front()), "policy_deny");
}

TEST(ApprovalModes, NextMode_GoesThroughAll) {
    ApprovalMode mode = ApprovalMode::ask;
    for (const char* name : {"accept-edits", "plan", "all", "ask"}) {
        mode = mode_after(mode);
        EXPECT_EQ(mode_named(name), mode);
    }
    EXPECT_EQ(mode_named("yolo"), std::nullopt);
}

TEST_F(QuestionHostTest, EndOfInput_RefusesTheCall) {
    answer({});
    const auto results = prompt({faux_tool_call("touch", {}, "c1")});
    EXPECT_TRUE(calls_.empty());
    EXPECT_EQ(Message(results.front()).text(), "Refused: the input has ended.");
}

TEST_F(QuestionHostTest, Abort_WithdrawsTheQuestion) {
    answer({});
    prompter_->waits_at_end = true;
    const auto results = prompt({faux_tool_call("touch", {}, "c1")}, true);
    EXPECT_TRUE(calls_.empty());
    EXPECT_EQ(prompter_->withdrawn, 1);
    EXPECT_TRUE(channel_->pending().empty());
}

TEST_F(QuestionHostTest, QuestionOfTheModel_IsAnswered) {
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

TEST_F(QuestionHostTest, QuestionsSharingAKey_AreCancelledNotRepeated) {
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
