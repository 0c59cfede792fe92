// Turns whose run is suspended because it asks the user (B23 to B25).

#include <bub/builtin/builtin_test_support.hpp>

#include <chrono>
#include <tuple>

#include <bub/builtin/client_tools.hpp>
#include <bub/questions.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_session.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace bub {
namespace {

struct PathArgs {
    std::string path;
};

class Questions : public test::Builtin {
protected:
    Questions() {
        extra_tools.push_back(
            cubepi::tool<PathArgs>("remove", "Removes a file.", [this](PathArgs args) {
                removed.push_back(args.path);
                return "removed " + args.path;
            }));
    }

    static Task<cubepi::ApprovalDecision> ask_about_removals(
        const cubepi::BeforeToolCallContext& call) {
        if (call.tool_call.name == "remove") co_return cubepi::ApprovalDecision(cubepi::AskUser());
        co_return cubepi::ApprovalDecision(cubepi::Approve());
    }

    void add(std::vector<cubepi::FauxStep> steps) {
        TurnQuestions questions;
        questions.policy = ask_about_removals;
        add(std::move(steps), std::move(questions));
    }
    void add(std::vector<cubepi::FauxStep> steps, TurnQuestions questions) {
        BuiltinOptions options;
        options.questions = std::move(questions);
        add_builtin(std::move(steps), std::move(options));
    }
    /// A message of a user of a chat service.
    TurnResult say_as(const std::string& user, const std::string& text, bool alone = false) {
        Envelope message = Envelope(text).on("telegram", "chat");
        message.context["sender_id"] = user;
        if (alone) message.context["private_chat"] = true;
        return cubepi::run(framework->process_inbound(std::move(message), false));
    }
    /// A message of a program that offers a tool of its own.
    TurnResult say_with_tool(const std::string& name) {
        Envelope message = Envelope("Go").on("cli", "chat");
        JsonObject tool{{"name", name}, {"parameters", JsonObject{{"type", "object"}}}};
        message.rest[client_tools_key] = JsonObject{{"tools", JsonArray{std::move(tool)}}};
        return cubepi::run(framework->process_inbound(std::move(message), false));
    }
    static cubepi::AssistantMessage which_color() {
        return test::calling(
            "ask_user",
            {{"questions", JsonArray{JsonObject{{"key", "color"}, {"prompt", "Which?"}}}}});
    }
    static std::string id_of(const TurnResult& asked) {
        return std::string(
            asked.outbounds.front().rest.at(question_key).at("question_id").as_string());
    }
    /// The name of the question with which the turn has ended.
    static std::string name_of(const TurnResult& asked) {
        return question_name(
            cubepi::hitl_request_from_json(asked.outbounds.front().rest.at(question_key)));
    }
    static cubepi::AssistantMessage removal(std::string path = "/tmp/x", std::string id = "c1") {
        return test::calling("remove", {{"path", std::move(path)}}, std::move(id));
    }
    /// Replaces the framework, as a restart of the process does.
    void restart(std::vector<cubepi::FauxStep> steps) {
        FrameworkOptions options;
        options.workspace = root / "work";
        framework = std::make_unique<Framework>(std::move(options));
        add(std::move(steps));
    }
    std::string last_turn_status() {
        std::string status;
        for (const TapeEntry& entry : tape("cli:chat")) {
            if (entry.kind == entry_kind::event && entry_name(entry) == "turn")
                status = std::string(entry.payload.at("data").at("status").as_string());
        }
        return status;
    }
    static std::vector<std::string> kinds(const TurnResult& result) {
        std::vector<std::string> kinds;
        for (const Envelope& one : result.outbounds) kinds.push_back(one.kind.value_or(""));
        return kinds;
    }

    std::vector<std::string> removed;
};

TEST_F(Questions, B23_TurnThatAsks_EndsSuspendedWithItsQuestion) {
    add({removal(), "done"});
    const TurnResult result = say("Clean up");
    ASSERT_EQ(kinds(result), std::vector<std::string>{"question"});
    const Envelope& question = result.outbounds.front();
    EXPECT_NE(question.content_text().find(",approve " + name_of(result)), std::string::npos);
    EXPECT_EQ(question.rest.at(question_key).at("question_id"), "c1");
    EXPECT_EQ(last_turn_status(), "suspended");
    EXPECT_TRUE(removed.empty());
}

TEST_F(Questions, B23_Answer_ContinuesTheRun) {
    add({removal(), "All clean."});
    (void)say("Clean up");
    const TurnResult result = say(",approve c1");
    EXPECT_EQ(result.model_output, "All clean.");
    EXPECT_EQ(removed, std::vector<std::string>{"/tmp/x"});
    EXPECT_EQ(last_turn_status(), "ok");
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::event, "hitl.answer"), 1u);
    const auto accepted = result.state.service<AcceptedAnswer>();
    ASSERT_TRUE(accepted);
    EXPECT_EQ(accepted->question.size(), question_name_size);
    EXPECT_EQ(accepted->answer.at("decision"), "approve");
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::tool_result), 1u);
}

TEST_F(Questions, D90_MessageBehindUncontinuedAnswer_WaitsForNextQuestion) {
    add({removal("/tmp/one", "c1"), removal("/tmp/two", "c2"), "All clean.", "Then this."});
    (void)say("Clean up");
    // A process that was killed after it had stored the answer.
    const auto store = cubepi::run(framework->tape_store());
    const std::string name = tape_name(framework->workspace(), "cli:chat");
    TapeCheckpointer memory(store);
    const auto pending = cubepi::run(memory.load_pending_requests(name));
    ASSERT_EQ(pending.size(), 1u);
    cubepi::AnswerRecord record;
    record.run_id = pending.front().run_id;
    record.question_id = pending.front().request.question_id;
    record.answer = cubepi::Json(cubepi::to_json(cubepi::ApproveAnswer()));
    record.answered_at = pending.front().request.created_at;
    cubepi::run(memory.answer_request(name, record));
    const TurnResult second = say("And then?");
    const auto open = second.state.service<OpenQuestions>();
    ASSERT_TRUE(open);
    EXPECT_TRUE(open->unread) << "the manager repeats the message after the answer";
    EXPECT_EQ(say(",approve c2").model_output, "All clean.");
    EXPECT_EQ(say("And then?").model_output, "Then this.");
}

TEST_F(Questions, D83_CallIdRepeated_OldAnswersAreRefused) {
    add({removal("/tmp/one"), removal("/tmp/two"), "All clean."});
    const std::string first = name_of(say("Clean up"));
    const std::string second = name_of(say(",approve " + first));
    EXPECT_NE(first, second);
    for (const std::string& answer : {",approve " + first, std::string(",approve c1")}) {
        const TurnResult refused = say(answer);
        EXPECT_EQ(removed, std::vector<std::string>{"/tmp/one"}) << answer;
        EXPECT_NE(refused.model_output.find(",approve " + second), std::string::npos)
            << refused.model_output;
        EXPECT_TRUE(refused.state.service<RefusedAnswer>());
    }
    EXPECT_EQ(say(",approve " + second).model_output, "All clean.");
    EXPECT_EQ(removed, (std::vector<std::string>{"/tmp/one", "/tmp/two"}));
}

TEST_F(Questions, D83_WithdrawalOfOldQuestion_LeavesTheOpenOne) {
    add({removal("/tmp/one"), removal("/tmp/two"), "All clean."});
    const std::string first = name_of(say("Clean up"));
    const std::string second = name_of(say(",approve " + first));
    (void)say(",abandon " + first);
    EXPECT_EQ(say(",approve " + second).model_output, "All clean.");
}

TEST_F(Questions, B23_AnswerAfterRestart_ContinuesTheRun) {
    add({removal()});
    (void)say("Clean up");
    restart({"All clean."});
    const TurnResult result = say(",approve c1");
    EXPECT_EQ(result.model_output, "All clean.");
    EXPECT_EQ(removed, std::vector<std::string>{"/tmp/x"});
    // Once: the question is answered.
    const TurnResult again = say(",approve c1");
    EXPECT_NE(again.model_output.find("no question"), std::string::npos);
    EXPECT_EQ(removed.size(), 1u);
}

TEST_F(Questions, D42_LateAnswer_RepeatsTextsOfItsTurn) {
    add({removal(), "done", "second", "third"});
    (void)say("Clean up");
    const auto answer = [this] {
        Envelope message = Envelope(",approve c1").on("cli", "chat");
        message.inbound_id = "a1";
        return cubepi::run(framework->process_inbound(std::move(message), false)).model_output;
    };
    EXPECT_EQ(answer(), "done");
    EXPECT_EQ(say("Two").model_output, "second");
    EXPECT_EQ(answer(), "done");
    EXPECT_EQ(say("Three").model_output, "third");
    EXPECT_EQ(removed.size(), 1u);
}

TEST_F(Questions, Denial_ReachesTheModel) {
    add({removal(), "As you wish."});
    (void)say("Clean up");
    EXPECT_EQ(say(",deny c1 not today").model_output, "As you wish.");
    EXPECT_TRUE(removed.empty());
}

TEST_F(Questions, B25_SenderWithoutOperatorRights_CannotAnswer) {
    add({removal(), "done"});
    const TurnResult asked = say("Clean up", "telegram");
    ASSERT_EQ(kinds(asked), std::vector<std::string>{"question"});
    const TurnResult refused = say(",approve c1", "telegram");
    EXPECT_NE(refused.model_output.find("only an operator"), std::string::npos);
    EXPECT_TRUE(refused.state.service<RefusedAnswer>());
    EXPECT_TRUE(removed.empty());
    Envelope wrong = Envelope(",approve other").on("telegram", "chat");
    wrong.from_operator = true;
    const TurnResult stale = cubepi::run(framework->process_inbound(std::move(wrong), false));
    EXPECT_TRUE(stale.state.service<RefusedAnswer>());
    Envelope answer = Envelope(",approve c1").on("telegram", "chat");
    answer.from_operator = true;
    const TurnResult result = cubepi::run(framework->process_inbound(std::move(answer), false));
    EXPECT_EQ(result.model_output, "done");
    EXPECT_FALSE(result.state.service<RefusedAnswer>());
    EXPECT_EQ(removed.size(), 1u);
}

TEST_F(Questions, B25_AskedUser_AnswersAndWithdrawsQuestions) {
    add({which_color(), "Teal it is.", which_color(), removal(), "done"});
    const TurnResult asked = say_as("ada", "Paint it");
    EXPECT_NE(
        say_as("bob", ",answer " + id_of(asked) + " red").model_output.find("only an operator"),
        std::string::npos);
    EXPECT_NE(say_as("bob", ",abandon").model_output.find("only an operator"), std::string::npos);
    EXPECT_EQ(say_as("ada", ",answer " + id_of(asked) + " teal").model_output, "Teal it is.");
    (void)say_as("ada", "And the door");
    EXPECT_EQ(say_as("ada", ",abandon").model_output, "The question was withdrawn.");
    (void)say_as("ada", "Clean up");
    EXPECT_NE(say_as("ada", ",approve c1").model_output.find("only an operator"), std::string::npos)
        << "calls are approved by operators";
    EXPECT_TRUE(removed.empty());
}

TEST_F(Questions, B25_Approvers_MayAnswer) {
    TurnQuestions questions;
    questions.policy = ask_about_removals;
    questions.may_answer = [](const Envelope& message, const cubepi::HitlRequest&) {
        return sender_of(message) == "boss";
    };
    add({removal(), "done"}, std::move(questions));
    (void)say_as("ada", "Clean up");
    EXPECT_NE(say_as("ada", ",approve c1").model_output.find("only an operator"),
              std::string::npos);
    EXPECT_EQ(say_as("boss", ",approve c1").model_output, "done");
    EXPECT_EQ(removed.size(), 1u);
}

TEST_F(Questions, B24_TextInPrivateChat_IsTheAnswer) {
    add({which_color(), "Teal it is.", removal(), "done"});
    (void)say_as("ada", "Paint it", true);
    EXPECT_EQ(say_as("bob", "red", true).model_output, "") << "another user";
    EXPECT_EQ(say_as("ada", "teal", true).model_output, "Teal it is.");
    (void)say_as("ada", "Clean up", true);
    EXPECT_EQ(say_as("ada", "yes", true).model_output, "") << "a call is approved with ,approve";
    EXPECT_TRUE(removed.empty());
}

TEST_F(Questions, B24_TextOfHook_IsNotAnAnswer) {
    add({which_color(), "Teal it is."});
    std::string command;
    Plugin writer;
    writer.name = "writer";
    writer.resolve_session = [&command](ResolveSessionCall& call) {
        if (call.message.content == "hello") call.message.content = command;
        return std::optional<std::string>();
    };
    framework->add(std::move(writer));
    command = ",answer " + id_of(say_as("ada", "Paint it")) + " red";
    EXPECT_EQ(kinds(say_as("ada", "hello")), std::vector<std::string>{"error"}) << "not read";
    EXPECT_EQ(say_as("ada", command).model_output, "Teal it is.");
}

TEST_F(Questions, B24_TextOlderThanQuestion_IsNotTheAnswer) {
    add({which_color(), "Teal it is."});
    (void)say_as("ada", "Paint it", true);
    Envelope older = Envelope("no, the other one").on("telegram", "chat");
    older.context["sender_id"] = "ada";
    older.context["private_chat"] = true;
    const std::chrono::hours hour(1);
    older.note_arrival(std::chrono::system_clock::now() - hour);
    const TurnResult told = cubepi::run(framework->process_inbound(std::move(older), false));
    EXPECT_EQ(kinds(told), std::vector<std::string>{"error"});
    EXPECT_EQ(say_as("ada", "teal", true).model_output, "Teal it is.");
}

TEST_F(Questions, B24_TextOfSchedule_IsNotTheAnswer) {
    add({which_color(), "Teal it is."});
    (void)say_as("ada", "Paint it", true);
    Envelope fired = Envelope("[Scheduled message]").on("telegram", "chat");
    fired.context["sender_id"] = "ada";
    fired.context["private_chat"] = true;
    fired.rest[before_question_key] = true;
    const TurnResult told = cubepi::run(framework->process_inbound(std::move(fired), false));
    EXPECT_EQ(kinds(told), std::vector<std::string>{"error"});
}

TEST_F(Questions, B10_HandOffWithAskingSubagent_FollowsTheAnswer) {
    cubepi::AssistantMessage both =
        test::calling("tape_handoff", {{"name", "chapter"}, {"summary", "s"}}, "h1");
    const cubepi::AssistantMessage other =
        test::calling("subagent", {{"prompt", "clean up"}}, "s1");
    for (const auto& block : other.content) both.content.push_back(block);
    std::vector<std::string> texts;
    const auto listen = [&texts](const cubepi::ModelRequest& request) {
        for (const cubepi::Message& one : request.messages) texts.push_back(one.text());
        return cubepi::faux_assistant_message("Next.");
    };
    add({both, removal(), "cleaned", "Done.", listen});
    EXPECT_EQ(kinds(say("Clean up")), std::vector<std::string>{"question"});
    EXPECT_EQ(say(",approve").model_output, "Done.");
    EXPECT_EQ(removed.size(), 1u);
    EXPECT_EQ(say("And now?").model_output, "Next.");
    ASSERT_FALSE(texts.empty());
    EXPECT_TRUE(texts.front().starts_with("[Anchor created: chapter]")) << texts.front();
}

TEST_F(Questions, B10_HandOffCommandDuringQuestion_IsRefused) {
    add({removal(), "All clean."});
    (void)say("Clean up");
    EXPECT_THROW((void)say(",tape.handoff name=chapter"), cubepi::Error);
    EXPECT_EQ(say(",approve").model_output, "All clean.");
    EXPECT_EQ(say(",tape.handoff name=chapter").model_output, "anchor added: chapter");
}

TEST_F(Questions, B23_ResetDuringQuestion_EndsIt) {
    add({removal(), "fine"});
    (void)say("Clean up");
    (void)say(",tape.reset archive=false");
    EXPECT_NE(say(",approve").model_output.find("no question"), std::string::npos);
    EXPECT_EQ(say("hello").model_output, "fine");
    EXPECT_TRUE(removed.empty());
}

/// A message during a question, and whether it has an id.
class RecordedMeanwhile : public Questions,
                          public ::testing::WithParamInterface<std::pair<const char*, bool>> {};

TEST_P(RecordedMeanwhile, B20_Record_IsReadAfterTheResult) {
    std::string read;
    const auto listen = [&read](const cubepi::ModelRequest& request) {
        for (const cubepi::Message& one : request.messages) read += one.text() + "\n";
        return cubepi::faux_assistant_message("Next.");
    };
    add({removal(), "All clean.", listen});
    Plugin other;
    other.name = "other";
    other.run_model = [](RunModelCall& call) {
        std::optional<std::string> answer;
        if (call.message.content_text() == "ping") answer = "hi from the plugin";
        return answer;
    };
    framework->add(std::move(other));
    (void)say("Clean up");
    Envelope message = Envelope(GetParam().first).on("cli", "chat");
    if (GetParam().second) message.inbound_id = "m1";
    const TurnResult recorded = cubepi::run(framework->process_inbound(std::move(message), false));
    EXPECT_NE(recorded.model_output.find("hi"), std::string::npos);
    EXPECT_EQ(say(",approve").model_output, "All clean.");
    EXPECT_EQ(removed.size(), 1u);
    EXPECT_EQ(say("And now?").model_output, "Next.");
    const std::size_t result = read.find("removed /tmp/x");
    ASSERT_NE(result, std::string::npos) << read;
    EXPECT_NE(read.find("hi", result), std::string::npos) << read;
}
INSTANTIATE_TEST_SUITE_P(ShellAndPlugin, RecordedMeanwhile,
                         ::testing::Values(std::pair(",!echo hi", true), std::pair("ping", false),
                                           std::pair("ping", true)));

TEST_F(Questions, B23_RequestOfHiddenCall_BlocksNothing) {
    add({removal(), "fine", removal("/tmp/y"), "Done."});
    (void)say("Clean up");
    const auto store = cubepi::run(framework->tape_store());
    const std::string name = tape_name(framework->workspace(), "cli:chat");
    const Tape tape(store, name);
    cubepi::run(tape.append(message_entry("user", "written by another program")));
    EXPECT_NE(say(",approve").model_output.find("no question"), std::string::npos);
    EXPECT_EQ(say("hello").model_output, "fine");
    EXPECT_FALSE(has_suspended_run(cubepi::run(store->read_state(name))));
    (void)say("Clean up");
    EXPECT_EQ(say(",approve").model_output, "Done.");
    EXPECT_EQ(removed, std::vector<std::string>{"/tmp/y"});
}

TEST_F(Questions, B26_CallThatWrites_IsAskedAboutWithoutRules) {
    add({removal(), "done"}, TurnQuestions());
    EXPECT_EQ(kinds(say_as("ada", "Clean up")), std::vector<std::string>{"question"});
    EXPECT_TRUE(removed.empty());
}

TEST_F(Questions, B26_Rules_DecideByTheSender) {
    const auto rules = [](const Envelope& message) {
        SenderRules rules;
        if (sender_of(message) == "ada") rules.allow.allow(cubepi::ApprovalRule{"remove", "*"});
        if (sender_of(message) == "bob") rules.refuse = {"remove"};
        return rules;
    };
    TurnQuestions questions;
    questions.rules = rules;
    add({removal(), "removed", removal("/tmp/y", "c2"), "refused", removal("/tmp/z", "c3")},
        std::move(questions));
    EXPECT_EQ(say_as("ada", "Clean up").model_output, "removed");
    EXPECT_EQ(say_as("bob", "Clean up").model_output, "refused");
    EXPECT_EQ(kinds(say_as("eve", "Clean up")), std::vector<std::string>{"question"});
    EXPECT_EQ(removed, std::vector<std::string>{"/tmp/x"});
}

TEST_F(Questions, B26_RulesOfAsker_HoldInTheAnswersTurn) {
    TurnQuestions questions;
    questions.rules = [](const Envelope& message) {
        SenderRules rules;
        if (sender_of(message) == "boss") rules.allow.allow(cubepi::ApprovalRule{"remove", "*"});
        return rules;
    };
    questions.may_answer = [](const Envelope&, const cubepi::HitlRequest&) { return true; };
    add({removal(), removal("/tmp/y", "c2"), "done"}, std::move(questions));
    (void)say_as("eve", "Clean up");
    EXPECT_EQ(kinds(say_as("boss", ",approve c1")), std::vector<std::string>{"question"})
        << "the second call is asked about, too";
    EXPECT_EQ(removed, std::vector<std::string>{"/tmp/x"});
    EXPECT_EQ(say_as("boss", ",approve c2").model_output, "done");
}

/// Returns rules by which one user removes without a question; all users may answer.
TurnQuestions removals_of(std::string user) {
    TurnQuestions questions;
    questions.rules = [user = std::move(user)](const Envelope& message) {
        SenderRules rules;
        if (sender_of(message) == user) rules.allow.allow(cubepi::ApprovalRule{"remove", "*"});
        return rules;
    };
    questions.may_answer = [](const Envelope&, const cubepi::HitlRequest&) { return true; };
    return questions;
}

/// Records for which messages agents were made, and at whose cost models were called.
class RunsOfAsker : public Questions {
protected:
    void start(std::vector<cubepi::FauxStep> steps) {
        BuiltinOptions options;
        options.questions = removals_of("boss");
        options.configure = [this](cubepi::AgentOptions&, const TurnContext& turn) {
            if (turn.message) acted_for.push_back(*turn.message);
        };
        options.metered_model = [this](const cubepi::BoundModel& model, const JsonObject& origin) {
            payers.push_back(cubepi::detail::text_member(origin, "user"));
            return model;
        };
        add_builtin(std::move(steps), std::move(options));
    }
    TurnResult say(Envelope message, const std::string& user) {
        message.context["sender_id"] = user;
        return cubepi::run(framework->process_inbound(std::move(message), false));
    }

    std::vector<Envelope> acted_for;
    std::vector<std::string> payers;
};

TEST_F(RunsOfAsker, B25_AnswerOfAnotherUser_ConfiguresForTheAsker) {
    start({removal(), "done"});
    Envelope asked = Envelope("Clean up").on("telegram", "chat");
    asked.context["sender"] = "Eve";
    (void)say(std::move(asked), "eve");
    // Of a user in another chat, whose channel has merged the sessions.
    Envelope answer = Envelope(",approve c1").on("console", "desk");
    answer.session_id = "telegram:chat";
    answer.inbound_id = "7";
    answer.from_operator = true;
    EXPECT_EQ(say(std::move(answer), "boss").model_output, "done");
    ASSERT_EQ(acted_for.size(), 2u);
    const Envelope& run = acted_for.back();
    EXPECT_EQ(run.channel, "telegram");
    EXPECT_EQ(run.chat_id, "chat");
    EXPECT_EQ(sender_of(run), "eve");
    EXPECT_FALSE(run.is_operator());
    EXPECT_EQ(run.inbound_id, std::nullopt) << "it names a message of another chat";
    EXPECT_EQ(std::count(payers.begin(), payers.end(), "boss"), 0);
}

TEST_F(RunsOfAsker, D288_AnswerInTheChat_IsNamedByOutputs) {
    start({removal(), "done"});
    (void)say(Envelope("Clean up").on("telegram", "chat"), "eve");
    Envelope answer = Envelope(",approve c1").on("telegram", "chat");
    answer.inbound_id = "7";
    (void)say(std::move(answer), "boss");
    ASSERT_EQ(acted_for.size(), 2u);
    EXPECT_EQ(sender_of(acted_for.back()), "eve");
    EXPECT_EQ(acted_for.back().inbound_id, "7");
}

TEST_F(RunsOfAsker, D250_AnswerToUnpromptedRun_LeavesItUnprompted) {
    start({removal(), removal("/tmp/y", "c2"), "done", removal("/tmp/z", "c3"), "done"});
    Envelope firing = Envelope("[Scheduled message]").on("telegram", "chat");
    firing.rest[task_results_key] = true;
    (void)say(std::move(firing), "eve");
    (void)say(Envelope(",approve c1").on("telegram", "chat"), "boss");
    // The second question belongs to the same run.
    EXPECT_EQ(say(Envelope(",approve c2").on("telegram", "chat"), "boss").model_output, "done");
    ASSERT_EQ(acted_for.size(), 3u);
    for (const Envelope& run : acted_for) EXPECT_TRUE(run.rest.contains(task_results_key));
    (void)say(Envelope("Clean up").on("telegram", "chat"), "eve");
    (void)say(Envelope(",approve c3").on("telegram", "chat"), "boss");
    EXPECT_FALSE(acted_for.back().rest.contains(task_results_key));
}

TEST_F(RunsOfAsker, D85_SubagentOfCommand_HasRulesOfItsSender) {
    start({removal(), "not allowed", removal(), "removed"});
    (void)say(Envelope(",subagent prompt=go").on("cli", "chat"), "eve");
    EXPECT_TRUE(removed.empty());
    EXPECT_EQ(std::count(payers.begin(), payers.end(), "eve"), std::ssize(payers));
    payers.clear();
    (void)say(Envelope(",subagent prompt=go").on("cli", "chat"), "boss");
    EXPECT_EQ(removed, std::vector<std::string>{"/tmp/x"});
    EXPECT_FALSE(payers.empty());
    EXPECT_EQ(std::count(payers.begin(), payers.end(), "boss"), std::ssize(payers));
}

TEST_F(Questions, D85_SubagentOfCommand_IsDeniedByRules) {
    std::string told;
    TurnQuestions questions;
    questions.rules = [](const Envelope&) {
        SenderRules rules;
        rules.allow.restrict({cubepi::ApprovalRule{"remove", "*"}, cubepi::RuleEffect::deny, {}});
        return rules;
    };
    add({removal(), cubepi::FauxStep([&told](const cubepi::ModelRequest& request) {
             told = request.messages.back().text();
             return faux_assistant_message("not allowed");
         })},
        std::move(questions));
    (void)say(",subagent prompt=go");
    EXPECT_NE(told.find("Refused by the rule"), std::string::npos) << told;
    EXPECT_TRUE(removed.empty());
}

TEST_F(Questions, B23_ResetAfterOneAnswer_LeavesNoSuspendedRun) {
    cubepi::AssistantMessage both = removal("/tmp/one", "c1");
    const cubepi::AssistantMessage other = removal("/tmp/two", "c2");
    for (const auto& block : other.content) both.content.push_back(block);
    add({both, "done"});
    (void)say("Clean up");
    (void)say(",approve c1");
    (void)say(",tape.reset archive=false");
    const auto store = cubepi::run(framework->tape_store());
    const std::string name = tape_name(framework->workspace(), "cli:chat");
    EXPECT_FALSE(has_suspended_run(cubepi::run(store->read_state(name))));
    EXPECT_EQ(say("Something else").model_output, "done");
}

TEST_F(Questions, D17_PathLeadsElsewhere_ApprovalDoesNotHold) {
    const std::filesystem::path work = root / "work";
    for (const char* const name : {".git", "docs"})
        std::filesystem::create_directories(work / name);
    std::filesystem::create_directory_symlink("docs", work / "d");
    add({test::calling("write", {{"path", "d/config"}, {"content", "new"}}, "c1"), "done"},
        TurnQuestions());
    const TurnResult asked = say("Write it");
    ASSERT_EQ(kinds(asked), std::vector<std::string>{"question"});
    EXPECT_NE(asked.outbounds.front().content_text().find("The path leads to \"docs/config\"."),
              std::string::npos);
    std::filesystem::remove(work / "d");
    std::filesystem::create_directory_symlink(".git", work / "d");
    EXPECT_EQ(kinds(say(",approve c1")), std::vector<std::string>{"question"});
    EXPECT_FALSE(std::filesystem::exists(work / ".git/config"));
    std::filesystem::remove(work / "d");
    std::filesystem::create_directory_symlink("docs", work / "d");
    (void)say(",approve c1");
    EXPECT_FALSE(std::filesystem::exists(work / ".git/config"));
}

/// Rules that a reload of the configuration can change while a question waits.
class ChangingRules : public Questions {
protected:
    TurnQuestions changing() {
        TurnQuestions questions;
        questions.rules = [this](const Envelope&) { return rules; };
        return questions;
    }
    SenderRules rules;
};

TEST_F(ChangingRules, D157_StoredRefusal_CountsMoreThanANewRule) {
    add({removal(), "As you wish."}, changing());
    (void)say("Clean up");
    rules.allow.allow(cubepi::ApprovalRule{"remove", "*"});
    EXPECT_EQ(say(",deny c1 not today").model_output, "As you wish.");
    EXPECT_TRUE(removed.empty());
}

TEST_F(ChangingRules, D156_DenyRule_RefusesAnApprovedCall) {
    add({removal(), "As you wish."}, changing());
    (void)say("Clean up");
    rules.allow.restrict({cubepi::ApprovalRule{"remove", "*"}, cubepi::RuleEffect::deny, {}});
    EXPECT_EQ(say(",approve c1").model_output, "As you wish.");
    EXPECT_TRUE(removed.empty());
}

TEST_F(Questions, B24_OtherText_IsToldTheOpenQuestion) {
    add({removal(), "done"});
    const std::string name = name_of(say("Clean up"));
    const TurnResult told = say("Are you there?");
    EXPECT_EQ(told.model_output, "");
    ASSERT_EQ(kinds(told), std::vector<std::string>{"error"});
    EXPECT_NE(told.outbounds.front().content_text().find(",approve " + name), std::string::npos);
    ASSERT_TRUE(told.state.service<OpenQuestions>());
    EXPECT_TRUE(told.state.service<OpenQuestions>()->unread);
    EXPECT_EQ(say(",approve").model_output, "done");
}

TEST_F(Questions, B24_UnnamedAnswerOlderThanQuestion_IsRefused) {
    add({removal(), "done"});
    const std::string name = name_of(say("Clean up"));
    Envelope older = Envelope(",approve").on("cli", "chat");
    older.note_arrival(std::chrono::system_clock::now() - std::chrono::hours(1));
    const TurnResult refused = cubepi::run(framework->process_inbound(std::move(older), false));
    EXPECT_NE(refused.model_output.find("before this one was asked"), std::string::npos)
        << refused.model_output;
    EXPECT_NE(refused.model_output.find(",approve " + name), std::string::npos);
    EXPECT_TRUE(removed.empty());
    EXPECT_EQ(say(",approve").model_output, "done");
}

TEST_F(Questions, B24_Abandon_WithdrawsTheQuestion) {
    add({removal(), "next"});
    (void)say("Clean up");
    EXPECT_EQ(say(",abandon").model_output, "The question was withdrawn.");
    EXPECT_EQ(say("Something else").model_output, "next");
    EXPECT_TRUE(removed.empty());
}

TEST_F(Questions, BadAnswer_IsRejectedAndQuestionStaysOpen) {
    add({removal(), "done"});
    const std::string name = name_of(say("Clean up"));
    EXPECT_NE(say(",answer c1 perhaps").model_output.find("rejected"), std::string::npos);
    EXPECT_NE(say(",approve c9").model_output.find(name), std::string::npos);
    EXPECT_EQ(say(",approve c1").model_output, "done");
    EXPECT_EQ(removed.size(), 1u);
}

TEST_F(Questions, Model_AsksTheUser) {
    add({test::calling("ask_user", {{"questions", JsonArray{JsonObject{{"key", "color"},
                                                                       {"prompt", "Which?"}}}}}),
         "Teal it is."});
    const TurnResult asked = say("Paint it");
    ASSERT_EQ(kinds(asked), std::vector<std::string>{"question"});
    EXPECT_NE(asked.outbounds.front().content_text().find("Which?"), std::string::npos);
    EXPECT_EQ(say(",answer  teal").model_output.find("Teal"), std::string::npos)
        << "'teal' is read as an id";
    const std::string id(
        asked.outbounds.front().rest.at(question_key).at("question_id").as_string());
    EXPECT_EQ(say(",answer " + id + " teal").model_output, "Teal it is.");
}

TEST_F(Questions, B23_StreamingTurn_EndsWithTheEventSuspended) {
    add({removal(), "done"});
    const TurnResult result = say("Clean up", "cli", true);
    EXPECT_EQ(kinds(result), std::vector<std::string>{"question"});
}

// Subagents (D85): the policy of the parent binds them, and their questions are asked in the parent's turn.

cubepi::AssistantMessage to_subagent(std::string session = "temp", std::string id = "c1") {
    return test::calling("subagent", {{"prompt", "clean up"}, {"session", std::move(session)}},
                         std::move(id));
}

TEST_F(Questions, D85_SubagentNeedsApproval_TurnIsSuspended) {
    add({to_subagent(), removal(), "removed it", "All clean."});
    const TurnResult asked = say("Clean up");
    ASSERT_EQ(kinds(asked), std::vector<std::string>{"question"});
    EXPECT_TRUE(removed.empty());
    const TurnResult result = say(",approve " + id_of(asked));
    EXPECT_EQ(result.model_output, "All clean.");
    EXPECT_EQ(removed, std::vector<std::string>{"/tmp/x"});
    // The conversation of the subagent is gone; the result is on the tape of the session.
    const auto store = cubepi::run(framework->tape_store());
    EXPECT_EQ(cubepi::run(store->all_tapes()).size(), 1u);
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::tool_result), 1u);
}

/// Sub-agents whose limits are those of a prompt: with or without sub-agents in the background, and each question answered by the
/// process that has asked it or by another one.
class LimitedSubagents : public Questions,
                         public ::testing::WithParamInterface<std::tuple<std::size_t, bool>> {
protected:
    LimitedSubagents() { limits.max_background = std::get<0>(GetParam()); }
    /// Has the model delegate four times. Returns the results.
    std::vector<std::string> delegate() {
        begin();
        delegated_ = 0;
        TurnResult result = say("Clean up");
        while (kinds(result) == std::vector<std::string>{"question"}) {
            if (std::get<1>(GetParam())) begin();
            result = say(",approve " + id_of(result));
        }
        EXPECT_EQ(result.model_output, "All clean.");
        std::vector<std::string> results;
        for (const cubepi::Message& one : agent_messages(tape("cli:chat")))
            if (one.tool_result()) results.push_back(one.text());
        return results;
    }

    cubepi::SubagentLimits limits;
    double spent = 0;  ///< USD, by sub-agents

private:
    struct CountCost {
        double* spent;
        cubepi::Model model;
        std::optional<cubepi::TurnAction> after_model_response(cubepi::AssistantMessage response,
                                                               cubepi::HookContext&) {
            *spent += cubepi::cost_of(response, model).value();
            return std::nullopt;
        }
    };
    void add_price(cubepi::AgentOptions& agent, const std::string& session_id) {
        cubepi::Model model = agent.model.spec();
        cubepi::ModelCost& cost = model.cost.emplace();
        cost.input = cost.cache_read = cost.cache_write = 100.0;
        cost.output = 0.0;
        if (session_id != "cli:chat") agent.middleware.emplace_back(CountCost{&spent, model});
        agent.model = cubepi::BoundModel(agent.model.provider(), std::move(model));
    }
    void begin() {
        make_framework(FrameworkOptions());
        BuiltinOptions options;
        options.questions.emplace().policy = ask_about_removals;
        options.subagents = limits;
        options.configure = [this](cubepi::AgentOptions& agent, const TurnContext& turn) {
            add_price(agent, turn.session_id);
        };
        const cubepi::FauxStep step(
            [this](const cubepi::ModelRequest& request) { return answer(request); });
        add_builtin(std::vector<cubepi::FauxStep>(40, step), std::move(options));
    }
    cubepi::AssistantMessage answer(const cubepi::ModelRequest& request) {
        bool is_subagent = false;
        for (const cubepi::Message& one : request.messages)
            is_subagent = is_subagent || (one.user() && one.text() == "clean up");
        const bool has_result = request.messages.back().tool_result() != nullptr;
        if (is_subagent) return has_result ? faux_assistant_message("cleaned") : removal();
        return delegated_++ == 4 ? faux_assistant_message("All clean.") : to_subagent();
    }

    int delegated_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Processes, LimitedSubagents,
                         ::testing::Combine(::testing::Values(std::size_t{0}, std::size_t{2}),
                                            ::testing::Bool()));

TEST_P(LimitedSubagents, D134_MaxTotalOfPrompt_HoldsAcrossApprovals) {
    limits.max_total = 2;
    const std::vector<std::string> results = delegate();
    ASSERT_EQ(results.size(), 4u);
    EXPECT_EQ(results[0], "cleaned");
    EXPECT_EQ(results[1], "cleaned");
    EXPECT_NE(results[2].find("max_total"), std::string::npos) << results[2];
    EXPECT_NE(results[3].find("max_total"), std::string::npos) << results[3];
    EXPECT_EQ(removed.size(), 2u);
}

TEST_P(LimitedSubagents, D134_MaxSpendOfPrompt_HoldsAcrossApprovals) {
    limits.max_spend = 1000.0;
    (void)delegate();
    ASSERT_GT(spent, 0.0);
    limits.max_spend = 2.5 * spent / 4;
    spent = 0;
    const std::vector<std::string> results = delegate();
    ASSERT_EQ(results.size(), 8u);
    const auto cleaned = std::count(results.begin() + 4, results.end(), "cleaned");
    EXPECT_GE(cleaned, 1);
    EXPECT_LE(cleaned, 2);
    EXPECT_LE(spent, limits.max_spend);
    EXPECT_NE(results.back().find("max_spend"), std::string::npos) << results.back();
}

TEST_F(Questions, D176_FailedRun_LeavesNoNotes) {
    add({to_subagent(), removal(), "cleaned", cubepi::faux_failure("on fire"), removal(), "Done."});
    (void)say("Clean up");
    EXPECT_ANY_THROW((void)say(",approve"));
    const auto store = cubepi::run(framework->tape_store());
    const std::string name = tape_name(framework->workspace(), "cli:chat");
    const JsonObject state = cubepi::run(store->read_state(name));
    EXPECT_FALSE(has_suspended_run(state)) << boost::json::serialize(state);
    EXPECT_EQ(boost::json::serialize(state).find(".subagents"), std::string::npos)
        << boost::json::serialize(state);
    // Another question can be asked, and its answer continues its own run.
    EXPECT_EQ(kinds(say("Once more")), std::vector<std::string>{"question"});
    EXPECT_EQ(say(",approve").model_output, "Done.");
    EXPECT_EQ(removed.size(), 2u);
}

TEST_F(Questions, D114_NamedSubagent_IsNamedInItsQuestion) {
    add({test::calling("subagent", {{"prompt", "clean up"}, {"name", "cleaner'\n"}}, "c1"),
         removal()});
    const TurnResult asked = say("Clean up");
    ASSERT_EQ(kinds(asked), std::vector<std::string>{"question"});
    const cubepi::HitlRequest request =
        cubepi::hitl_request_from_json(asked.outbounds.front().rest.at(question_key));
    EXPECT_EQ(request.extra.at("agent_path"), cubepi::JsonArray{"cleaner"});
}

TEST_F(Questions, D85_AnswerAfterRestart_SubagentContinues) {
    add({to_subagent(), removal("/tmp/a"), removal("/tmp/b", "c1")});
    const TurnResult first = say("Clean up");
    const TurnResult second = say(",approve " + id_of(first));
    ASSERT_EQ(kinds(second), std::vector<std::string>{"question"});
    EXPECT_EQ(removed, std::vector<std::string>{"/tmp/a"});
    restart({"removed both", "All clean."});
    EXPECT_EQ(say(",approve " + id_of(second)).model_output, "All clean.");
    EXPECT_EQ(removed, (std::vector<std::string>{"/tmp/a", "/tmp/b"}));
}

TEST_F(Questions, D85_SameCallTwice_IsAskedTwice) {
    add({to_subagent(), removal(), removal()});
    const TurnResult first = say("Clean up");
    const TurnResult second = say(",approve " + id_of(first));
    ASSERT_EQ(kinds(second), std::vector<std::string>{"question"}) << "an approval is used once";
    EXPECT_NE(id_of(first), id_of(second));
    EXPECT_EQ(removed.size(), 1u);
    restart({"removed it twice", "All clean."});
    EXPECT_EQ(say(",approve " + id_of(second)).model_output, "All clean.");
    EXPECT_EQ(removed.size(), 2u);
}

TEST_F(Questions, D85_ParentAbandoned_NamedSubagentGetsNextPrompt) {
    std::string asked;
    add({to_subagent("research"), removal(), to_subagent("research"),
         cubepi::FauxStep([&asked](const cubepi::ModelRequest& request) {
             asked = request.messages.back().text();
             return faux_assistant_message("new work");
         }),
         "Done."});
    const TurnResult first = say("Clean up");
    (void)say(",abandon " + id_of(first));
    EXPECT_EQ(say("Once more").model_output, "Done.");
    EXPECT_EQ(asked, "clean up");
    EXPECT_TRUE(removed.empty());
}

TEST_F(Questions, D85_NameInUse_OtherCallIsAnError) {
    cubepi::ContentList<cubepi::AssistantContent> both;
    for (const char* id : {"c1", "c2"}) {
        both.emplace_back(
            faux_tool_call("subagent", {{"prompt", "clean up"}, {"session", "research"}}, id));
    }
    std::vector<std::string> told;
    add({faux_assistant_message(std::move(both), cubepi::stop_reason::tool_use), removal(),
         "removed it", cubepi::FauxStep([&told](const cubepi::ModelRequest& request) {
             for (const cubepi::Message& one : request.messages) {
                 if (one.tool_result()) told.push_back(one.text());
             }
             return faux_assistant_message("Done.");
         })});
    const TurnResult asked = say("Clean up");
    ASSERT_EQ(kinds(asked), std::vector<std::string>{"question"});
    EXPECT_EQ(say(",approve " + id_of(asked)).model_output, "Done.");
    ASSERT_EQ(told.size(), 2u);
    const bool first_ran = told[0] == "removed it";
    EXPECT_EQ(told[first_ran ? 0 : 1], "removed it");
    EXPECT_NE(told[first_ran ? 1 : 0].find("in use"), std::string::npos) << told[first_ran ? 1 : 0];
    EXPECT_EQ(removed.size(), 1u);
}

TEST_F(Questions, D85_SubagentEndsWhileOtherWaits_LeavesNoTape) {
    cubepi::ContentList<cubepi::AssistantContent> both;
    for (const char* id : {"c1", "c2"})
        both.emplace_back(faux_tool_call("subagent", {{"prompt", "clean up"}}, id));
    add({faux_assistant_message(std::move(both), cubepi::stop_reason::tool_use), removal(),
         "nothing to do", "removed it", "Done."});
    const TurnResult asked = say("Clean up");
    ASSERT_EQ(kinds(asked), std::vector<std::string>{"question"});
    EXPECT_EQ(say(",approve " + id_of(asked)).model_output, "Done.");
    const auto store = cubepi::run(framework->tape_store());
    EXPECT_EQ(cubepi::run(store->all_tapes()).size(), 1u);
}

TEST_F(Questions, D85_SubagentIsDenied_ItGetsTheReason) {
    std::string told;
    add({to_subagent(), removal(), cubepi::FauxStep([&told](const cubepi::ModelRequest& request) {
             told = request.messages.back().text();
             return faux_assistant_message("not allowed");
         }),
         "As you wish."});
    const TurnResult asked = say("Clean up");
    EXPECT_EQ(say(",deny " + id_of(asked) + " not today").model_output, "As you wish.");
    EXPECT_NE(told.find("not today"), std::string::npos) << told;
    EXPECT_TRUE(removed.empty());
}

TEST_F(ChangingRules, D157_RefusalOfSubagentCall_OutweighsNewRule) {
    add({to_subagent(), removal(), "not allowed", "As you wish."}, changing());
    rules.allow.allow(cubepi::ApprovalRule{"subagent", "*"});
    const TurnResult asked = say("Clean up");
    rules.allow.allow(cubepi::ApprovalRule{"remove", "*"});
    EXPECT_EQ(say(",deny " + id_of(asked) + " not today").model_output, "As you wish.");
    EXPECT_TRUE(removed.empty());
}

TEST_F(Questions, D85_EqualCallIds_AreOtherSubagents) {
    add({to_subagent(), removal("/tmp/a"), "first", to_subagent(), removal("/tmp/b"), "second",
         "All clean."});
    const TurnResult first = say("Clean up");
    const TurnResult second = say(",approve " + id_of(first));
    ASSERT_EQ(kinds(second), std::vector<std::string>{"question"});
    EXPECT_NE(id_of(first), id_of(second));
    EXPECT_EQ(say(",approve " + id_of(second)).model_output, "All clean.");
    EXPECT_EQ(removed, (std::vector<std::string>{"/tmp/a", "/tmp/b"}));
}

TEST_F(Questions, D85_RefusedTool_IsRefusedToSubagentsToo) {
    for (const char* session : {"temp", "research", "inherit"}) {
        make_framework(FrameworkOptions());
        TurnQuestions questions;
        questions.rules = [](const Envelope&) {
            SenderRules rules;
            rules.allow.allow(cubepi::ApprovalRule("subagent", "*"));
            rules.refuse = {"remove"};
            return rules;
        };
        std::string told;
        add({to_subagent(session), removal(),
             cubepi::FauxStep([&told](const cubepi::ModelRequest& request) {
                 told = request.messages.back().text();
                 return faux_assistant_message("not allowed");
             }),
             "done"},
            std::move(questions));
        EXPECT_EQ(say("Clean up").model_output, "done") << session;
        EXPECT_NE(told.find("does not allow"), std::string::npos) << session << ": " << told;
        EXPECT_TRUE(removed.empty()) << session;
    }
}

TEST_F(Questions, D85_SubagentThatInherits_CannotAsk) {
    std::string told;
    add({to_subagent("inherit"), removal(),
         cubepi::FauxStep([&told](const cubepi::ModelRequest& request) {
             told = request.messages.back().text();
             return faux_assistant_message("not allowed");
         }),
         "done"});
    EXPECT_EQ(say("Clean up").model_output, "done");
    EXPECT_NE(told.find("cannot be asked"), std::string::npos) << told;
    EXPECT_TRUE(removed.empty());
}

/// Its history has calls of the client, whose tools it has not.
TEST_F(Questions, D214_SubagentThatInherits_HasNoClientTools) {
    for (const bool is_restricted : {false, true}) {
        make_framework(FrameworkOptions());
        JsonObject task{{"prompt", "do it"}, {"session", "inherit"}};
        if (is_restricted) task["allowed_tools"] = JsonArray{"shell"};
        std::string told;
        std::vector<std::string> offered;
        std::vector<std::string> offered_to_parent;
        const auto names_in = [](const cubepi::ModelRequest& request) {
            std::vector<std::string> names;
            for (const cubepi::ToolDefinition& tool : *request.tools)
                names.push_back(tool.name.str());
            return names;
        };
        add({cubepi::FauxStep([&](const cubepi::ModelRequest& request) {
                 offered_to_parent = names_in(request);
                 return test::calling("subagent", task);
             }),
             test::calling("bash", {{"cmd", "touch here"}}, "c2"),
             cubepi::FauxStep([&](const cubepi::ModelRequest& request) {
                 offered = names_in(request);
                 told = request.messages.back().text();
                 return faux_assistant_message("not possible");
             }),
             "done"});
        EXPECT_EQ(say_with_tool("bash").model_output, "done");
        EXPECT_NE(told.find(is_restricted ? "bash" : "a sub-agent cannot use this tool"),
                  std::string::npos)
            << told;
        EXPECT_FALSE(std::filesystem::exists(root / "work" / "here"));
        EXPECT_EQ(std::count(offered_to_parent.begin(), offered_to_parent.end(), "bash"), 1);
        if (!is_restricted) {
            EXPECT_EQ(offered, offered_to_parent) << "the prompt cache serves both";
        }
    }
}

TEST_F(Questions, D214_ClientsBash_IsNotTheShell) {
    add({test::calling("Bash", {{"cmd", "touch here"}}), "done"});
    const TurnResult result = say_with_tool("bash");
    ASSERT_EQ(kinds(result), std::vector<std::string>{"question"});
    const auto call = client_call_of(result.outbounds.front().rest.at(question_key).as_object());
    ASSERT_TRUE(call);
    EXPECT_EQ(call->name, "bash");
    EXPECT_EQ(call->arguments.at("cmd"), Json("touch here"));
    EXPECT_FALSE(std::filesystem::exists(root / "work" / "here"));
}

TEST_F(Questions, D214_PictureByUrl_IsNotFetched) {
    std::size_t pictures = 0;
    add({test::calling("camera"), cubepi::FauxStep([&](const cubepi::ModelRequest& request) {
             for (const auto& block : request.messages.back().tool_result()->content)
                 if (std::holds_alternative<cubepi::ImageContent>(block)) ++pictures;
             return faux_assistant_message("done");
         })});
    (void)say_with_tool("camera");
    Envelope message = Envelope("").on("cli", "chat");
    message.answer.emplace();
    message.answer->value = client_output(
        "shot", {"data:image/png;base64,AAAA", "data:image/png;base64,http://169.254.169.254/"});
    const TurnResult result = cubepi::run(framework->process_inbound(std::move(message), false));
    EXPECT_EQ(result.model_output, "done");
    EXPECT_EQ(pictures, 1u);
}

TEST_F(Questions, D85_TemporarySession_CannotAsk) {
    add({removal(), "not allowed"});
    Envelope message = Envelope("Clean up").on("cli", "chat");
    message.session_id = "temp/1";
    const TurnResult result = cubepi::run(framework->process_inbound(std::move(message), false));
    EXPECT_EQ(result.model_output, "not allowed");
    EXPECT_TRUE(removed.empty());
}

TEST_F(Questions, D85_SubagentAskedByCommand_CannotAsk) {
    add({removal(), "not allowed"});
    (void)say(",subagent prompt=go");
    EXPECT_TRUE(removed.empty());
}

/// Turns whose questions have a minute.
class ExpiringQuestions : public Questions {
protected:
    void begin(std::vector<cubepi::FauxStep> steps) {
        FrameworkOptions options;
        options.workspace = root / "work";
        options.runtime =
            std::make_shared<const cubepi::Runtime>(cubepi::Runtime().with_clock(clock));
        framework = std::make_unique<Framework>(std::move(options));
        TurnQuestions questions;
        questions.policy = ask_about_removals;
        questions.timeout = std::chrono::minutes(1);
        add(std::move(steps), std::move(questions));
    }
    TurnResult expire(const std::string& id, bool is_operator = true) {
        Envelope message = Envelope("").on("cli", "chat");
        message.answer.emplace().action = AnswerAction::expire;
        message.answer->question = id;
        message.from_operator = is_operator;
        return cubepi::run(framework->process_inbound(std::move(message), false));
    }

    std::shared_ptr<cubepi::testing::ManualClock> clock =
        std::make_shared<cubepi::testing::ManualClock>();
};

TEST_F(ExpiringQuestions, D65_ExpiredQuestion_ContinuesTheRunOnce) {
    begin({removal(), "no answer came"});
    (void)say("Clean up");
    clock->advance(std::chrono::minutes(1));
    const TurnResult continued = expire("c1");
    EXPECT_EQ(continued.model_output, "no answer came");
    EXPECT_TRUE(removed.empty());
    const TurnResult again = expire("c1");
    EXPECT_EQ(again.model_output, "");
    EXPECT_TRUE(again.outbounds.empty());
}

TEST_F(ExpiringQuestions, D65_LateAnswer_SaysThatTheTimeIsOver) {
    begin({removal(), "no answer came"});
    const std::string name = name_of(say("Clean up"));
    clock->advance(std::chrono::minutes(1));
    for (const bool has_continued : {false, true}) {
        if (has_continued) (void)expire("c1");
        for (const std::string& answer :
             {std::string(",approve"), ",approve " + name, std::string(",deny c1")}) {
            const TurnResult late = say(answer);
            EXPECT_NE(late.model_output.find("has expired"), std::string::npos)
                << answer << ": " << late.model_output;
            EXPECT_TRUE(late.state.service<RefusedAnswer>());
        }
    }
    EXPECT_EQ(say(",approve other").model_output.find("has expired"), std::string::npos);
    EXPECT_TRUE(removed.empty());
}

TEST_F(ExpiringQuestions, D65_QuestionWithTimeLeft_StaysOpen) {
    begin({removal(), "done"});
    (void)say("Clean up");
    const TurnResult early = expire("c1");
    EXPECT_TRUE(early.outbounds.empty()) << "the question is not asked again";
    EXPECT_TRUE(early.state.service<OpenQuestions>());
    EXPECT_EQ(say(",approve c1").model_output, "done");
}

TEST_F(ExpiringQuestions, D65_MessageOfNonOperator_DoesNotExpireQuestion) {
    begin({removal(), "done"});
    (void)say("Clean up");
    clock->advance(std::chrono::minutes(1));
    EXPECT_EQ(expire("c1", false).model_output, "error: empty prompt");
}

}  // namespace
}  // namespace bub
