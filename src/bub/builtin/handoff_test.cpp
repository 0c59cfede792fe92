// A conversation that exceeds the model's context window: the summary, the hand-off, and their entries.

#include <gtest/gtest.h>

#include <bub/builtin/builtin_test_support.hpp>
#include <bub/builtin/turn/conversation_digest.hpp>
#include <bub/event_stream.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/faux.hpp>

namespace bub::detail {
namespace {

using cubepi::faux_assistant_message;
using cubepi::faux_tool_call;
using cubepi::Message;
using cubepi::MessageList;
using cubepi::user_message;

Message result_of(const std::string& tool, const std::string& text) {
    cubepi::ToolResultMessage result;
    result.tool_name = tool;
    cubepi::TextContent block;
    block.text = text;
    result.content.push_back(std::move(block));
    return Message(std::move(result));
}

Message calling(const std::string& tool) {
    return Message(faux_assistant_message(faux_tool_call(tool), cubepi::stop_reason::tool_use));
}

MessageList long_conversation() {
    MessageList messages;
    for (int i = 0; i < 20; ++i) {
        messages.push_back(user_message("question " + std::to_string(i) + std::string(80, '.')));
        messages.push_back(Message(faux_assistant_message("answer " + std::to_string(i))));
    }
    return messages;
}

}  // namespace

TEST(ConversationDigest, Digest_ContainsTextsCallsAndResults) {
    MessageList messages;
    messages.push_back(user_message("look"));
    messages.push_back(calling("list"));
    messages.push_back(result_of("list", "a.txt"));
    messages.push_back(Message(faux_assistant_message("", cubepi::stop_reason::error, "too long")));
    const ConversationDigest digest(messages);
    EXPECT_EQ(digest.message_count(), 3u);
    EXPECT_EQ(digest.text(1'000), "User: look\nAssistant calls list: {}\nResult of list: a.txt\n");
}

TEST(ConversationDigest, ConversationOfOneInput_HasNoHistory) {
    MessageList messages;
    messages.push_back(
        cubepi::synthetic_user_message("[Anchor created: session/start]: {}", "anchor"));
    messages.push_back(user_message("one"));
    EXPECT_FALSE(ConversationDigest(messages).has_history());
    messages.push_back(user_message("two"));
    EXPECT_TRUE(ConversationDigest(messages).has_history());
    MessageList handed_off;
    handed_off.push_back(cubepi::synthetic_user_message(
        "[Anchor created: phase/2]: {\"summary\": \"x\"}", "anchor"));
    handed_off.push_back(user_message("one"));
    const ConversationDigest digest(handed_off);
    EXPECT_TRUE(digest.has_history());
    EXPECT_TRUE(digest.text(1'000).starts_with("Note, not by the user: [Anchor"))
        << digest.text(1'000);
}

TEST(ConversationDigest, LongConversation_KeepsFirstAndNewestMessages) {
    const ConversationDigest digest(long_conversation());
    ASSERT_GT(digest.size(), 2'000u);
    for (const std::size_t limit : {200u, 500u, 1'000u, 2'000u, 100'000u}) {
        const std::string text = digest.text(limit);
        EXPECT_LE(text.size(), limit);
        EXPECT_NE(text.find("answer 19"), std::string::npos) << text;
    }
    const std::string text = digest.text(1'000);
    EXPECT_NE(text.find("question 0"), std::string::npos) << text;
    EXPECT_NE(text.find(" messages omitted]"), std::string::npos) << text;
    EXPECT_EQ(text.find("question 5"), std::string::npos) << text;
}

TEST(ConversationDigest, Shortening_CutsBetweenCharacters) {
    std::string text;
    for (int i = 0; i < 500; ++i) text += "\xE2\x82\xAC\xF0\x9F\x98\x80";
    for (std::size_t limit = 0; limit < 300; ++limit) {
        const std::string cut = shortened_middle(text, limit);
        EXPECT_LE(cut.size(), limit);
        EXPECT_TRUE(cubepi::is_utf8(cut)) << limit;
    }
    EXPECT_EQ(shortened_middle("short", 5), "short");
}

}  // namespace bub::detail

namespace bub {
namespace {

using cubepi::ModelRequest;

cubepi::FauxStep overflow(std::optional<std::int64_t> window = {}) {
    cubepi::ErrorInfo info;
    info.code = cubepi::ErrorCode::context_length;
    info.context_window = window;
    return cubepi::faux_failure("the prompt is too long", info);
}

cubepi::FauxStep busy() {
    cubepi::ErrorInfo info;
    info.code = cubepi::ErrorCode::auth;
    return cubepi::faux_failure("the server is on fire", info);
}

class HandsOff : public test::Builtin {
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

    /// Starts a framework whose events and results are recorded.
    void start(std::vector<cubepi::FauxStep> steps, BuiltinOptions options = {}) {
        options.on_result = [this](const cubepi::RunResult& result, const TurnContext&) {
            results.push_back(result);
        };
        options.tape_command = "cubepi tape show";
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
    JsonObject summary_event() {
        JsonObject data;
        for (const TapeEntry& entry : tape("cli:chat")) {
            if (entry.kind == entry_kind::event && entry_name(entry) == "summary")
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

constexpr const char* anchor = "auto_handoff/context_overflow";

TEST_F(HandsOff, B10_OversizedConversation_ContinuesFromTheModelsSummary) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer("noted"));
    steps.push_back(overflow());
    steps.push_back(answer("The user prefers Postgres."));
    steps.push_back(answer("as you wish"));
    start(std::move(steps));
    (void)ask("we chose Postgres");
    EXPECT_EQ(ask("continue"), "as you wish");
    ASSERT_EQ(asked.size(), 3u);
    // The summary: no tools, the conversation as text.
    EXPECT_EQ(asked[1].tools, 0u);
    ASSERT_EQ(asked[1].texts.size(), 1u);
    for (const char* part : {"User: we chose Postgres\n", "Assistant: noted\n", "User: continue\n"})
        EXPECT_NE(asked[1].texts[0].find(part), std::string::npos) << asked[1].texts[0];
    // The next request: the anchor with the summary, and the input.
    ASSERT_EQ(asked[2].texts.size(), 2u);
    EXPECT_TRUE(asked[2].texts[0].starts_with(
        "[Anchor created: auto_handoff/context_overflow]: {\"summary\": \"The user prefers "
        "Postgres.\""))
        << asked[2].texts[0];
    EXPECT_TRUE(asked[2].texts[0].ends_with(hand_off_label)) << asked[2].texts[0];
    EXPECT_EQ(asked[2].texts[1], "continue");
    EXPECT_GT(asked[2].tools, 0u);
    EXPECT_NE(asked[2].system_prompt, asked[1].system_prompt);
}

TEST_F(HandsOff, Summary_IsReportedBeforeAndAfterwards) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer("noted"));
    steps.push_back(overflow());
    steps.push_back(answer("a summary"));
    steps.push_back(answer("done"));
    start(std::move(steps));
    (void)ask("one");
    EXPECT_EQ(ask("two"), "done") << "the summary is not part of the answer";
    ASSERT_EQ(notices.size(), 2u);
    EXPECT_EQ(notices[0].code, "context_overflow");
    EXPECT_EQ(notices[0].text,
              "the conversation is too long for scripted; summarizing 3 messages ...");
    EXPECT_EQ(notices[0].details.at("messages"), Json(3));
    EXPECT_EQ(notices[1].code, "context_handoff");
    EXPECT_TRUE(notices[1].text.starts_with("continuing from a summary of 3 messages"))
        << notices[1].text;
    EXPECT_TRUE(notices[1].text.ends_with(",tape_search query=WORD, or cubepi tape show"))
        << notices[1].text;
    EXPECT_EQ(notices[1].details.at("summarized"), Json(true));
    EXPECT_TRUE(notices[1].details.at("usage").as_object().contains("output_tokens"));
    EXPECT_EQ(summary_event().at("status"), Json("ok"));
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::anchor, anchor), 1u);
    // The first answer, the summary, and the answer after it; the request that was too long has no usage.
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::event, "run"), 3u);
}

TEST_F(HandsOff, DroppedMessages_AreFoundOnTheTape) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer("noted"));
    steps.push_back(overflow());
    steps.push_back(answer("a summary"));
    steps.push_back(answer("done"));
    start(std::move(steps));
    (void)ask("remember the heliotrope");
    (void)ask("two");
    EXPECT_NE(say(",tape_search query=heliotrope").model_output.find("remember the heliotrope"),
              std::string::npos);
}

TEST_F(HandsOff, OversizedSummaryRequest_IsRetriedWithLess) {
    std::vector<cubepi::FauxStep> steps;
    const std::string many(20'000, 'x');
    for (int i = 0; i < 4; ++i) steps.push_back(answer("noted"));
    steps.push_back(overflow(8'000));
    for (int i = 0; i < 2; ++i) {
        steps.emplace_back([this](const ModelRequest& request) -> cubepi::AssistantMessage {
            note(request);
            cubepi::ErrorInfo info;
            info.code = cubepi::ErrorCode::context_length;
            cubepi::throw_provider_error(info, "the prompt is too long");
        });
    }
    steps.push_back(answer("a short summary"));
    steps.push_back(answer("done"));
    start(std::move(steps));
    for (int i = 0; i < 4; ++i) (void)ask("question " + std::to_string(i) + many);
    asked.clear();
    EXPECT_EQ(ask("the last one"), "done");
    ASSERT_EQ(asked.size(), 4u);
    // The window of 8,000 tokens is known: 16,000 bytes, then half of that, then half again.
    EXPECT_LT(asked[0].texts[0].size(), 16'200u);
    EXPECT_GT(asked[0].texts[0].size(), 12'000u);
    EXPECT_LT(asked[1].texts[0].size(), 8'200u);
    EXPECT_LT(asked[2].texts[0].size(), 4'200u);
    for (int i = 0; i < 3; ++i)
        EXPECT_NE(asked[static_cast<std::size_t>(i)].texts[0].find("User: the last one"),
                  std::string::npos);
    EXPECT_NE(asked[3].texts[0].find("a short summary"), std::string::npos);
    EXPECT_EQ(notices_of("context_handoff").at(0).details.at("calls"), Json(3));
}

TEST_F(HandsOff, FailedSummary_IsReportedAndTheTurnContinues) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer("noted"));
    steps.push_back(overflow());
    steps.push_back(busy());
    steps.push_back(answer("done"));
    start(std::move(steps));
    (void)ask("one");
    EXPECT_EQ(ask("two"), "done");
    const std::vector<cubepi::Notice> after = notices_of("context_handoff");
    ASSERT_EQ(after.size(), 1u);
    EXPECT_TRUE(after[0].text.starts_with(
        "no summary of the conversation; continuing without its 3 messages"))
        << after[0].text;
    EXPECT_NE(after[0].text.find("the server is on fire"), std::string::npos) << after[0].text;
    EXPECT_NE(after[0].text.find(",tape_search"), std::string::npos) << after[0].text;
    EXPECT_EQ(after[0].details.at("summarized"), Json(false));
    EXPECT_EQ(summary_event().at("status"), Json("failed"));
    EXPECT_EQ(asked.back().texts[0].find("summary"), std::string::npos);
    EXPECT_EQ(asked.back().texts[1], "two");
}

TEST_F(HandsOff, EmptySummary_CountsAsFailed) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer("noted"));
    steps.push_back(overflow());
    steps.push_back(answer(" \n"));
    steps.push_back(answer("done"));
    start(std::move(steps));
    (void)ask("one");
    EXPECT_EQ(ask("two"), "done");
    EXPECT_EQ(summary_event().at("error"), Json("the model returned no text"));
}

TEST_F(HandsOff, OversizedFirstMessage_HasNothingToSummarize) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(overflow());
    steps.push_back(answer("done"));
    start(std::move(steps));
    EXPECT_EQ(ask("one"), "done");
    EXPECT_EQ(faux.call_count(), 2u);
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_EQ(notices[0].code, "context_handoff");
    EXPECT_EQ(summary_event().at("status"), Json("nothing"));
}

TEST_F(HandsOff, ToolCalls_AreSummarizedWithTheirResults) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer(test::calling("tape_info")));
    steps.push_back(overflow());
    steps.push_back(answer("tape_info was called"));
    steps.push_back(answer("done"));
    start(std::move(steps));
    EXPECT_EQ(ask("look"), "done");
    ASSERT_EQ(asked.size(), 3u);
    EXPECT_NE(asked[1].texts[0].find("Assistant calls tape_info: {}"), std::string::npos);
    EXPECT_NE(asked[1].texts[0].find("Result of tape_info: name: "), std::string::npos);
    EXPECT_FALSE(asked[2].has_results);
    EXPECT_EQ(asked[2].texts.size(), 2u);
}

TEST_F(HandsOff, MessageDuringTheTurn_IsRepeated) {
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back([this](const ModelRequest&) -> Task<cubepi::AssistantMessage> {
        const auto inbox = co_await framework->steering_inbox();
        inbox->enqueue("cli:chat", Envelope("and be quick"));
        co_return test::calling("tape_info");
    });
    steps.push_back(overflow());
    steps.push_back(answer("a summary"));
    steps.push_back(answer("done"));
    start(std::move(steps));
    EXPECT_EQ(ask("look"), "done");
    ASSERT_EQ(asked.back().texts.size(), 3u);
    EXPECT_EQ(asked.back().texts[1], "look");
    EXPECT_EQ(asked.back().texts[2], "and be quick");
}

BuiltinOptions with_price(double max_spend) {
    BuiltinOptions options;
    options.configure = [max_spend](cubepi::AgentOptions& agent, const TurnContext&) {
        cubepi::Model model = agent.model.spec();
        cubepi::ModelCost& cost = model.cost.emplace();
        cost.input = cost.cache_read = cost.cache_write = 0.0;
        cost.output = 1'000'000.0;
        model.max_tokens = 100;
        agent.model = cubepi::BoundModel(agent.model.provider(), std::move(model));
        agent.limits.max_spend = max_spend;
    };
    return options;
}

TEST_F(HandsOff, D24_UsageAndCostOfTurn_IncludeTheSummary) {
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(answer(test::calling("tape_info")));
    steps.push_back(overflow());
    steps.push_back(answer("a summary"));
    steps.push_back(answer("done"));
    start(std::move(steps), with_price(0.0));
    EXPECT_EQ(ask("look"), "done");
    // A dollar for each token, of three answers.
    double dollars = 0;
    std::size_t answers = 0;
    for (const TapeEntry& entry : tape("cli:chat")) {
        if (entry.kind != entry_kind::event || entry_name(entry) != "run") continue;
        const JsonObject* usage = entry.payload.at("data").at("usage").if_object();
        dollars += usage->at("completion_tokens").to_number<double>();
        ++answers;
    }
    EXPECT_EQ(answers, 3u);
    ASSERT_EQ(results.size(), 1u) << "one turn has one result";
    EXPECT_TRUE(results[0]);
    ASSERT_TRUE(results[0].cost);
    EXPECT_DOUBLE_EQ(*results[0].cost, dollars);
    EXPECT_EQ(results[0].usage.output_tokens, static_cast<std::int64_t>(dollars));
    const double summary =
        notices_of("context_handoff").at(0).details.at("cost").to_number<double>();
    EXPECT_GT(summary, 0.0);
    EXPECT_LT(summary, dollars);
}

TEST_F(HandsOff, D24_Summary_CountsTowardMaxSpend) {
    std::vector<cubepi::FauxStep> steps;
    const std::string words(4'000, 'w');
    steps.push_back(answer(test::calling("tape_info")));
    steps.push_back(overflow());
    steps.push_back(answer(words.c_str()));
    steps.push_back(answer("never sent"));
    start(std::move(steps), with_price(500.0));
    EXPECT_EQ(ask("look"), "");
    EXPECT_EQ(faux.pending_response_count(), 1u);
    ASSERT_EQ(results.size(), 1u);
    ASSERT_EQ(results[0].outcome, cubepi::RunOutcome::limited);
    EXPECT_NE(std::string(results[0].error().what()).find("max_spend"), std::string::npos);
    // The hand-off has happened: the next turn continues from the summary.
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::anchor, anchor), 1u);
}

TEST_F(HandsOff, D24_Summary_CountsTowardMaxTurns) {
    for (const std::size_t most : {3u, 2u}) {
        std::vector<cubepi::FauxStep> steps;
        steps.push_back(answer(test::calling("tape_info")));
        steps.push_back(overflow());
        if (most == 3) steps.push_back(answer("a summary"));
        steps.push_back(answer(test::calling("tape_info", {}, "c2")));
        steps.push_back(answer("never sent"));
        notices.clear();
        results.clear();
        framework = std::make_unique<Framework>(FrameworkOptions{.workspace = root / "work"});
        BuiltinOptions options;
        options.max_steps = most;
        options.home = root / std::to_string(most);
        start(std::move(steps), std::move(options));
        (void)ask("look");
        ASSERT_EQ(results.size(), 1u);
        EXPECT_EQ(results[0].outcome, cubepi::RunOutcome::limited);
        EXPECT_EQ(faux.pending_response_count(), 1u);
        const std::vector<cubepi::Notice> after = notices_of("context_handoff");
        ASSERT_EQ(after.size(), 1u);
        EXPECT_EQ(after[0].details.at("summarized"), Json(most == 3));
        if (most == 2) {
            EXPECT_NE(after[0].text.find("max_turns (2) leaves no model call"), std::string::npos)
                << after[0].text;
        }
    }
}

/// The turn is cancelled during the summary.
TEST_F(HandsOff, D7_StopDuringSummary_LeavesTheConversationUnchanged) {
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
    (void)ask("one");
    Envelope inbound = Envelope("two").on("cli", "chat");
    std::exception_ptr failure;
    try {
        (void)cubepi::run(cubepi::cancel_on(stop.get_token(),
                                            framework->process_inbound(std::move(inbound), true)));
    } catch (...) {
        failure = std::current_exception();
    }
    EXPECT_TRUE(failure && cubepi::is_cancellation(failure));
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::anchor, anchor), 0u);
    EXPECT_EQ(count(tape("cli:chat"), entry_kind::event, "summary"), 0u);
    EXPECT_EQ(ask("three"), "done");
    const std::string& conversation = asked[1].texts[0];
    for (const char* part : {"User: one\n", "User: two\n", "User: three\n"})
        EXPECT_NE(conversation.find(part), std::string::npos) << conversation;
}

}  // namespace
}  // namespace bub
