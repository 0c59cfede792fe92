#include <cubepi/hitl/suspension_test_support.hpp>

// The state that a suspended run saves besides its messages and requests.

namespace cubepi {
namespace {

using namespace hitl_test;

using Words = std::vector<std::string>;

struct SuspensionState : ::testing::Test {
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    Words effects;

    using Change = std::function<void(AgentOptions&, const std::shared_ptr<HitlChannel>&)>;

    void suspend(Change change = {}, int nth = 1) {
        Process first(store, faux, effects, {}, std::move(change));
        ASSERT_EQ(first.prompt_and_detach(nth).outcome, RunOutcome::suspended);
    }
    /// Answers c1 in another process. Returns the blocks of its notices about the prompt's prefix.
    Words breaks_after_answer(Change change) {
        Process second(store, faux, effects, {}, std::move(change));
        EXPECT_EQ(second.respond("c1", approve()).outcome, RunOutcome::completed);
        Words blocks;
        for (const Notice& notice : second.notices) {
            if (notice.code == "cache_prefix_break")
                blocks.emplace_back(notice.details.at("block").as_string());
        }
        return blocks;
    }
    CheckpointData thread() { return *run(store->load("t")); }
};

AnswerOrigin origin(std::string user, std::string channel) {
    AnswerOrigin made;
    made.user = std::move(user);
    made.channel = std::move(channel);
    return made;
}

Json trace_of(const Message& result) { return result.tool_result()->details.at("hitl"); }

void with_prompt(AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
    options.system_prompt = "Be brief.";
}

TEST_F(SuspensionState, D56_TheSamePromptInAnotherProcessHasNoPrefixBreak) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    suspend(with_prompt);
    EXPECT_EQ(breaks_after_answer(with_prompt), Words());
}

TEST_F(SuspensionState, D56_AChangedSystemPromptInAnotherProcessIsReported) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    suspend(with_prompt);
    EXPECT_EQ(breaks_after_answer({}), Words{"system_prompt"});
}

TEST_F(SuspensionState, D56_AChangedToolListInAnotherProcessIsReported) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    suspend();
    const auto more_tools = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.tools.push_back(tool<PathArgs>("ls", "Lists.", [](PathArgs) { return ""; }));
    };
    EXPECT_EQ(breaks_after_answer(more_tools), Words{"tools/1"});
}

TEST_F(SuspensionState, D56_AChangedHistoryInAnotherProcessIsReported) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    suspend();
    const auto rewrite = [](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
        options.transform_context = [](MessageList messages, HookContext&) -> Task<MessageList> {
            MessageList changed;
            changed.push_back(user_message("another prompt"));
            for (std::size_t i = 1; i < messages.size(); ++i) changed.push_back(messages[i]);
            co_return changed;
        };
    };
    EXPECT_EQ(breaks_after_answer(rewrite), Words{"messages"});
}

void inject_a_note(AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
    options.after_model_response = [](AssistantMessage answer,
                                      HookContext&) -> Task<std::optional<TurnAction>> {
        std::optional<TurnAction> action;
        if (answer.has_tool_calls()) {
            action.emplace();
            action->inject_messages.push_back(user_message("note"));
        }
        co_return action;
    };
}

TEST_F(SuspensionState, D59_InjectedMessagesAreAddedWhenTheTurnContinues) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    suspend(inject_a_note);
    EXPECT_EQ(thread().extra.size(), 1u);
    EXPECT_EQ(breaks_after_answer(inject_a_note), Words());
    EXPECT_EQ(texts_of(thread().messages), (Words{"hi", "", "removed /a", "note", "done"}));
    EXPECT_TRUE(thread().extra.empty());
}

TEST_F(SuspensionState, D59_InjectedMessagesSurviveASecondSuspension) {
    faux.set_responses({calling({rm_call("/a", "c1"), rm_call("/b", "c2")}), "done"});
    suspend(inject_a_note, 2);
    {
        Process second(store, faux, effects, {}, inject_a_note);
        EXPECT_EQ(second.respond("c1", approve()).outcome, RunOutcome::suspended);
        const RunResult again = second.run_with(
            second.agent->resume(), [&](const HitlRequest&) { (void)second.agent->detach(); });
        EXPECT_EQ(again.outcome, RunOutcome::suspended);
    }
    Process third(store, faux, effects, {}, inject_a_note);
    EXPECT_EQ(third.respond("c2", approve()).outcome, RunOutcome::completed);
    EXPECT_EQ(texts_of(thread().messages),
              (Words{"hi", "", "removed /a", "removed /b", "note", "done"}));
}

TEST_F(SuspensionState, D60_AnAbandonedTurnLeavesNoState) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "fresh"});
    suspend(inject_a_note);
    Process second(store, faux, effects);
    run(second.agent->abort_pending("left"));
    EXPECT_TRUE(thread().extra.empty());
    EXPECT_EQ(second.prompt().outcome, RunOutcome::completed);
    EXPECT_EQ(thread().messages.size(), 6u);  // without the note
}

TEST_F(SuspensionState, D59_AnsweredInTheSameProcessNoStateIsLeft) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    Process only(store, faux, effects, {}, inject_a_note);
    (void)only.prompt([&](const HitlRequest&) { only.answer("c1", approve()); });
    EXPECT_EQ(texts_of(thread().messages), (Words{"hi", "", "removed /a", "note", "done"}));
    EXPECT_TRUE(thread().extra.empty());
}

TEST_F(SuspensionState, D54_TheResultNamesWhoAnswered) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    Process only(store, faux, effects);
    (void)only.prompt(
        [&](const HitlRequest&) { only.answer("c1", approve(), origin("ann", "terminal")); });
    EXPECT_EQ(trace_of(thread().messages[2]),
              Json({{"decision", "human_approve"}, {"user", "ann"}, {"channel", "terminal"}}));
}

TEST_F(SuspensionState, D54_TheResultNamesWhoAnsweredBeforeTheRestart) {
    faux.set_responses({calling({rm_call("/a", "c1"), rm_call("/b", "c2")}), "done"});
    suspend({}, 2);
    Process second(store, faux, effects);
    Task<RunResult> first_answer =
        second.agent->respond("c2", deny("no"), origin("bob", "telegram:42"));
    EXPECT_EQ(run(std::move(first_answer)).outcome, RunOutcome::suspended);
    Process third(store, faux, effects);
    Task<RunResult> second_answer = third.agent->respond("c1", approve(), origin("ann", ""));
    EXPECT_EQ(run(std::move(second_answer)).outcome, RunOutcome::completed);
    EXPECT_EQ(trace_of(thread().messages[2]),
              Json({{"decision", "human_approve"}, {"user", "ann"}}));
    EXPECT_EQ(trace_of(thread().messages[3]), Json({{"decision", "human_deny"},
                                                    {"reason", "no"},
                                                    {"user", "bob"},
                                                    {"channel", "telegram:42"}}));
}

}  // namespace
}  // namespace cubepi
