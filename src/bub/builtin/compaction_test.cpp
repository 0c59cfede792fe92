// A conversation that becomes too long for the model: its compaction within a turn and by a command, and the tape.

#include <gtest/gtest.h>

#include <bub/builtin/builtin_test_support.hpp>
#include <bub/event_stream.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/provider/faux.hpp>

namespace bub {
namespace {

using cubepi::faux_assistant_message;
using cubepi::ModelRequest;

cubepi::FauxStep overflow(std::optional<std::int64_t> window = {}) {
    cubepi::ErrorInfo info;
    info.code = cubepi::ErrorCode::context_length;
    info.context_window = window;
    return cubepi::faux_failure("the prompt is too long", info);
}

class Compacts : public test::Builtin {
protected:
    /// One request to the model.
    struct Asked {
        std::string system_prompt;
        std::vector<std::string> texts;
        std::size_t tools = 0;
        bool has_results = false;
    };
    cubepi::FauxStep answer(cubepi::AssistantMessage message) {
        return [this, message](const ModelRequest& request) {
            note(request);
            return message;
        };
    }
    cubepi::FauxStep answer(const char* text) { return answer(faux_assistant_message(text)); }
    void note(const ModelRequest& request) {
        Asked one;
        one.system_prompt = request.system_prompt.str();
        one.tools = request.tools ? request.tools->size() : 0;
        for (const cubepi::Message& message : request.messages) {
            one.texts.push_back(message.text());
            one.has_results = one.has_results || message.tool_result();
        }
        asked.push_back(std::move(one));
    }

    /// Expects that the turn of a message is stopped before a compaction is complete.
    void expect_stopped(const std::string& text, std::stop_token stop) {
        Envelope inbound = Envelope(text).on("cli", "chat");
        std::exception_ptr failure;
        try {
            (void)cubepi::run(cubepi::cancel_on(
                std::move(stop), framework->process_inbound(std::move(inbound), true)));
        } catch (...) {
            failure = std::current_exception();
        }
        EXPECT_TRUE(failure && cubepi::is_cancellation(failure));
        EXPECT_EQ(count(tape("cli:chat"), entry_kind::event, "compaction"), 0u);
    }

    /// Starts a framework whose events and results are recorded.
    void start(std::vector<cubepi::FauxStep> steps, BuiltinOptions options = {}) {
        options.on_result = [this](const cubepi::RunResult& result, const TurnContext&) {
            results.push_back(result);
        };
        add_builtin(std::move(steps), std::move(options));
        framework->bind_router(std::make_shared<Listening>(notices));
    }
    std::string ask(std::string text) { return say(std::move(text), "cli", true).model_output; }

    std::vector<cubepi::Notice> notices_of(const std::string& code) const {
        std::vector<cubepi::Notice> found;
        for (const cubepi::Notice& notice : notices) {
            if (notice.code == code) found.push_back(notice);
        }
        return found;
    }
    JsonObject compaction_event() {
        JsonObject data;
        for (const TapeEntry& entry : tape("cli:chat")) {
            if (entry.kind == entry_kind::event && entry_name(entry) == "compaction")
                data = entry.payload.at("data").as_object();
        }
        return data;
    }

    std::vector<Asked> asked;
    std::vector<cubepi::Notice> notices;
    std::vector<cubepi::RunResult> results;

private:
    class Listening : public OutboundChannelRouter {
    public:
        explicit Listening(std::vector<cubepi::Notice>& notices) : notices_(notices) {}
        EventStream wrap_stream(const Envelope&, EventStream stream) override {
            return EventStream::map(std::move(stream), [this](StreamEvent event) {
                const auto* notice =
                    event.agent_event ? event.agent_event->get_if<cubepi::NoticeEvent>() : nullptr;
                if (notice) notices_.push_back(notice->notice);
                return std::optional<StreamEvent>(std::move(event));
            });
        }
        Task<bool> dispatch_output(TurnOutput) override { co_return true; }

    private:
        std::vector<cubepi::Notice>& notices_;
    };
};

std::string long_text(const std::string& word) {
    std::string text;
    while (text.size() < 4'000) text += word + " ";
    return text;
}

TEST_F(Compacts, D113_OversizedConversation_ContinuesFromASummary) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer("noted"));
    steps.push_back(overflow());
    steps.push_back(answer("The user prefers Postgres."));
    steps.push_back(answer("as you wish"));
    steps.push_back(answer("still here"));
    start(std::move(steps));
    (void)ask(long_text("Postgres"));
    EXPECT_EQ(ask("continue"), "as you wish") << "the summary is not part of the answer";
    ASSERT_EQ(asked.size(), 3u);
    EXPECT_EQ(asked[1].tools, 0u);
    EXPECT_NE(asked[1].texts[0].find("User: Postgres Postgres"), std::string::npos);
    EXPECT_TRUE(asked[2].texts[0].starts_with(cubepi::summary_prefix)) << asked[2].texts[0];
    EXPECT_NE(asked[2].texts[0].find("The user prefers Postgres."), std::string::npos);
    EXPECT_EQ(asked[2].texts.back(), "continue");
    EXPECT_GT(asked[2].tools, 0u);
    // The next turn continues from the same summary, and the tape has everything.
    EXPECT_EQ(ask("more"), "still here");
    EXPECT_EQ(asked[3].texts[0], asked[2].texts[0]);
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::anchor), 1u) << "no hand-off";
    EXPECT_NE(say(",tape_search query=Postgres").model_output.find("Postgres Postgres"),
              std::string::npos);
}

TEST_F(Compacts, D113_Compaction_IsReportedAndRecorded) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer("noted"));
    steps.push_back(overflow());
    steps.push_back(answer("a summary"));
    steps.push_back(answer("done"));
    start(std::move(steps));
    (void)ask(long_text("one"));
    EXPECT_EQ(ask("two"), "done");
    EXPECT_EQ(notices_of("context_overflow").size(), 1u);
    ASSERT_EQ(notices_of("compaction").size(), 1u);
    const std::string text = notices_of("compaction")[0].text;
    EXPECT_TRUE(text.starts_with("compacted the conversation from about ")) << text;
    EXPECT_EQ(compaction_event().at("compacted"), Json(true));
    // The first answer, the summary, and the answer after it.
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::event, "run"), 3u);
}

TEST_F(Compacts, D113_ShareOfWindow_CompactsBeforeARefusal) {
    std::vector<cubepi::FauxStep> steps;
    for (int i = 0; i < 40; ++i) steps.push_back(answer("noted"));
    BuiltinOptions options;
    options.context_window = [](const cubepi::BoundModel&) { return 20'000; };
    start(std::move(steps), std::move(options));
    for (int i = 0; i < 20 && notices_of("compaction").empty(); ++i)
        (void)ask(long_text("item" + std::to_string(i)));
    ASSERT_GE(notices_of("compaction").size(), 1u);
    EXPECT_EQ(notices_of("compaction")[0].details.at("reason"), Json("limit"));
    EXPECT_TRUE(notices_of("context_overflow").empty());
}

TEST_F(Compacts, D111_PastedFile_IsSummarizedBeforeARefusal) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer("noted"));
    steps.push_back(answer("The file has 4711 lines."));
    steps.push_back(answer("4711"));
    BuiltinOptions options;
    // The file has most of it, and the tools have a part.
    options.context_window = [](const cubepi::BoundModel&) { return 60'000; };
    start(std::move(steps), std::move(options));
    std::string pasted;
    while (pasted.size() < 180'000) pasted += long_text("line");
    (void)ask(pasted);
    EXPECT_TRUE(notices_of("compaction").empty());
    EXPECT_EQ(ask(long_text("question") + long_text("question") + long_text("question")), "4711");
    ASSERT_EQ(notices_of("compaction").size(), 1u);
    EXPECT_EQ(notices_of("compaction")[0].details.at("reason"), Json("limit"));
    EXPECT_TRUE(notices_of("context_overflow").empty());
}

TEST_F(Compacts, D113_CommandWithInstructions_CompactsAndUndoes) {
    std::vector<cubepi::FauxStep> steps;
    for (int i = 0; i < 3; ++i) steps.push_back(answer("noted"));
    steps.push_back(answer("Ports: 4711."));
    for (int i = 0; i < 2; ++i) steps.push_back(answer("yes"));
    start(std::move(steps));
    for (int i = 0; i < 3; ++i) (void)ask(long_text("item" + std::to_string(i)));
    const std::string output = say(",compact the ports matter").model_output;
    EXPECT_TRUE(output.starts_with("compacted the conversation")) << output;
    EXPECT_NE(asked[3].texts[0].find("What matters to the user: the ports matter"),
              std::string::npos);
    const std::int64_t compacted = compaction_event().at("after").as_int64();
    (void)ask("and now?");
    EXPECT_NE(asked[4].texts[0].find("Ports: 4711."), std::string::npos);
    EXPECT_EQ(say(",compact undo").model_output, "The next request has the whole conversation.");
    EXPECT_EQ(compaction_event().at("undone"), Json(true));
    EXPECT_GT(compaction_event().at("after").as_int64(), compacted);
    (void)ask("all of it?");
    EXPECT_GT(asked[5].texts.size(), 8u);
    EXPECT_EQ(asked[5].texts[0].find("Ports: 4711."), std::string::npos);
}

/// The instructions are a sentence; the summary is paid for, and its tokens are on the tape.
TEST_F(Compacts, D113_CommandWithApostrophe_CountsItsCost) {
    std::vector<cubepi::FauxStep> steps;
    for (int i = 0; i < 3; ++i) steps.push_back(answer("noted"));
    steps.push_back(answer("Ids: 4711."));
    start(std::move(steps));
    for (int i = 0; i < 3; ++i) (void)ask(long_text("item" + std::to_string(i)));
    ASSERT_EQ(results.size(), 3u);
    const std::size_t calls = count(tape("cli:chat"), entry_kind::event, "run");
    const std::string output = say(",compact keep the user's ids").model_output;
    EXPECT_TRUE(output.starts_with("compacted the conversation")) << output;
    EXPECT_NE(asked[3].texts[0].find("What matters to the user: keep the user's ids"),
              std::string::npos);
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::event, "run"), calls + 1);
    ASSERT_EQ(results.size(), 4u);
    EXPECT_GT(results[3].usage.input_tokens.value_or(0), 1'000);
    EXPECT_TRUE(results[3]);
    EXPECT_FALSE(results[3].text().empty());
    ASSERT_FALSE(results[3].new_messages.empty());
    EXPECT_EQ(results[3].new_messages[0].assistant()->model_id.str(), "scripted");
}

TEST_F(Compacts, D113_InheritingSubagent_ContinuesFromTheSummary) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer("noted"));
    steps.push_back(overflow());
    steps.push_back(answer("The user prefers Postgres."));
    steps.push_back(answer("as you wish"));
    steps.push_back(answer(
        test::calling("subagent", JsonObject{{"prompt", "look it up"}, {"session", "inherit"}})));
    steps.push_back(answer("found"));
    steps.push_back(answer("done"));
    start(std::move(steps));
    (void)ask(long_text("Postgres"));
    (void)ask("continue");
    EXPECT_EQ(ask("delegate"), "done");
    ASSERT_EQ(asked.size(), 6u);
    const Asked& child = asked[4];
    EXPECT_NE(child.texts.back().find("look it up"), std::string::npos);
    EXPECT_EQ(child.texts[0], asked[3].texts[0]) << "the same summary";
    EXPECT_TRUE(child.texts[0].starts_with(cubepi::summary_prefix)) << child.texts[0];
}

TEST_F(Compacts, D113_NothingToCompact_SaysSo) {
    start({});
    EXPECT_NE(say(",compact").model_output.find("not compacted"), std::string::npos);
}

TEST_F(Compacts, D113_HandOffAfterCompaction_BeginsANewChapter) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer("noted"));
    steps.push_back(overflow());
    steps.push_back(answer("an old summary"));
    steps.push_back(answer("done"));
    steps.push_back(answer("new"));
    start(std::move(steps));
    (void)ask(long_text("one"));
    (void)ask("two");
    (void)say(",tape_handoff name=next summary=fresh");
    EXPECT_EQ(ask("three"), "new");
    for (const std::string& text : asked.back().texts)
        EXPECT_EQ(text.find("an old summary"), std::string::npos) << text;
}

TEST_F(Compacts, D113_MessageDuringTheTurn_SurvivesTheCompaction) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer("noted"));
    steps.emplace_back([this](const ModelRequest&) -> Task<cubepi::AssistantMessage> {
        const auto inbox = co_await framework->steering_inbox();
        inbox->enqueue("cli:chat", Envelope("and be quick"));
        co_return test::calling("tape_info");
    });
    steps.push_back(overflow());
    steps.push_back(answer("a summary"));
    steps.push_back(answer("done"));
    start(std::move(steps));
    (void)ask(long_text("one"));
    EXPECT_EQ(ask("look"), "done");
    EXPECT_EQ(asked.back().texts.back(), "and be quick");
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::message), 5u);
}

TEST_F(Compacts, D113_Recall_IsATool) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer("noted"));
    steps.push_back(overflow());
    steps.push_back(answer("a summary"));
    steps.push_back(answer(test::calling("recall", JsonObject{{"find", "one one"}})));
    steps.push_back(answer("done"));
    start(std::move(steps));
    (void)ask(long_text("one"));
    EXPECT_EQ(ask("look"), "done");
    EXPECT_NE(asked.back().texts.back().find("user: one one"), std::string::npos)
        << asked.back().texts.back();
}

TEST_F(Compacts, D113_SwitchedOff_TheRefusalIsTheFailure) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer("noted"));
    steps.push_back(overflow());
    BuiltinOptions options;
    options.compaction.reset();
    start(std::move(steps), std::move(options));
    (void)ask(long_text("one"));
    EXPECT_THROW((void)ask("two"), cubepi::Error);
}

BuiltinOptions with_price(double max_spend) {
    BuiltinOptions options;
    options.configure = [max_spend](cubepi::AgentOptions& agent, const TurnContext&) {
        cubepi::Model model = agent.model.spec();
        cubepi::ModelCost& cost = model.cost.emplace();
        cost.input = cost.cache_read = cost.cache_write = 0.0;
        cost.output = 1'000'000.0;
        agent.model = cubepi::BoundModel(agent.model.provider(), std::move(model));
        agent.limits.max_spend = max_spend;
    };
    return options;
}

TEST_F(Compacts, D24_UsageAndCostOfTurn_IncludeTheSummary) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer("noted"));
    steps.push_back(overflow());
    steps.push_back(answer("a summary"));
    steps.push_back(answer("done"));
    start(std::move(steps), with_price(0.0));
    (void)ask(long_text("one"));
    EXPECT_EQ(ask("look"), "done");
    ASSERT_EQ(results.size(), 2u);
    ASSERT_TRUE(results[1].cost);
    const double summary = notices_of("compaction").at(0).details.at("cost").to_number<double>();
    EXPECT_GT(summary, 0.0);
    EXPECT_LT(summary, *results[1].cost);
}

/// The turn is cancelled during the summary.
TEST_F(Compacts, D7_StopDuringSummary_LeavesTheConversationUnchanged) {
    std::vector<cubepi::FauxStep> steps;
    std::stop_source stop;
    steps.push_back(answer("noted"));
    steps.push_back(overflow());
    steps.emplace_back([&stop](const ModelRequest&) -> Task<cubepi::AssistantMessage> {
        stop.request_stop();
        // Ended by the cancellation.
        const std::shared_ptr<cubepi::Clock> clock = cubepi::Runtime::standard()->clock;
        co_await clock->sleep_until(cubepi::Clock::time_point::max());
        co_return faux_assistant_message("never sent");
    });
    steps.push_back(overflow());
    steps.push_back(answer("a summary"));
    steps.push_back(answer("done"));
    start(std::move(steps));
    (void)ask(long_text("one"));
    expect_stopped("two", stop.get_token());
    EXPECT_EQ(ask("three"), "done");
    EXPECT_NE(asked[1].texts[0].find("User: one one"), std::string::npos);
    EXPECT_EQ(asked[2].texts.back(), "three");
}

/// A summary that arrives after the stop does not count, although the command would have time to end.
TEST_F(Compacts, D7_StopOfTheCommand_LeavesTheConversationUnchanged) {
    std::vector<cubepi::FauxStep> steps;
    std::stop_source stop;
    for (int i = 0; i < 3; ++i) steps.push_back(answer("noted"));
    steps.emplace_back([&stop](const ModelRequest&) -> Task<cubepi::AssistantMessage> {
        stop.request_stop();
        for (int i = 0; i < 20; ++i) co_await cubepi::yield_now();
        co_return faux_assistant_message("a late summary");
    });
    steps.push_back(answer("done"));
    start(std::move(steps));
    for (int i = 0; i < 3; ++i) (void)ask(long_text("item" + std::to_string(i)));
    expect_stopped(",compact", stop.get_token());
    EXPECT_EQ(ask("and now?"), "done");
    EXPECT_EQ(asked.back().texts.size(), asked[2].texts.size() + 2);
}

}  // namespace
}  // namespace bub
