#include <cubepi/middleware/compaction_test_support.hpp>

#include <set>

#include <cubepi/provider/faux.hpp>
#include <cubepi/testing/manual_clock.hpp>

// Views, records, overflows, and summarizers that fail.

namespace cubepi {
namespace {

using namespace compaction_test;
using cubepi::testing::ManualClock;

TEST(Compaction, D110_LimitReached_SummaryReplacesOldMessages) {
    CompactedChat chat;
    const Notice notice = chat.fill();
    EXPECT_TRUE(notice.details.at("compacted").as_bool());
    EXPECT_LT(notice.details.at("after").to_number<int>(),
              notice.details.at("before").to_number<int>());
    const MessageList& sent = chat.main.seen.back().messages;
    EXPECT_EQ(sent[0].text(), std::string(summary_prefix) + "The summary of rivers.");
    EXPECT_TRUE(is_synthetic_message(sent[0]));
    EXPECT_LT(sent.size(), chat.agent->state().messages.size());
    EXPECT_EQ(sent.back().text().substr(0, 4), "item") << "the prompt is there";
    EXPECT_TRUE(is_legal_transcript(sent));
    EXPECT_NE(text_of(chat.helper.seen.at(0)).find("item0 item0"), std::string::npos);
    EXPECT_EQ(chat.helper.seen.size(), 1u);
}

TEST(Compaction, D110_NextProcess_SendsTheSameView) {
    CompactedChat chat;
    (void)chat.fill();
    EXPECT_TRUE(chat.prompt("one more"));
    PrefixGuard guard;
    EXPECT_FALSE(guard.check(chat.main.seen.back()));
    chat.open();
    EXPECT_TRUE(chat.prompt("after the restart"));
    EXPECT_FALSE(guard.check(chat.main.seen.back())) << "the prefix is the same";
    EXPECT_EQ(chat.helper.seen.size(), 1u) << "no second summary";
}

TEST(Compaction, D110_Compaction_BreaksThePrefixOnce) {
    CompactedChat chat;
    (void)chat.fill();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(chat.prompt("short"));
    EXPECT_EQ(chat.notices->with("cache_prefix_break").size(), 1u);
}

TEST(Compaction, D110_Record_LeavesTheHistoryWhole) {
    CompactedChat chat;
    (void)chat.fill();
    const std::size_t count = chat.agent->state().messages.size();
    EXPECT_EQ(run(chat.store->load("t"))->messages.size(), count);
    const JsonObject extra = chat.extra();
    const auto state = CompactionState::from_json(extra.at("compaction"));
    ASSERT_TRUE(state);
    EXPECT_EQ(static_cast<std::int64_t>(state->summarized_message_refs.size()),
              extra.at("compaction_until_msg_index").to_number<std::int64_t>());
    EXPECT_EQ(state->summarized_message_refs[0].substr(0, 7), "sha256:");
}

TEST(Compaction, D110_Undo_SendsTheWholeHistory) {
    CompactedChat chat;
    (void)chat.fill();
    const auto& state = chat.agent->state();
    run(chat.store->save_extra("t", CompactionMiddleware::undo(state.messages, state.extra)));
    chat.open();
    EXPECT_TRUE(chat.prompt("again"));
    EXPECT_EQ(chat.main.seen.back().messages.size() + 1, chat.agent->state().messages.size());
    EXPECT_EQ(chat.extra().if_contains("compaction"), nullptr);
    // It is compacted again when it has grown.
    EXPECT_EQ(chat.helper.seen.size(), 1u);
    (void)chat.fill();
    EXPECT_EQ(chat.helper.seen.size(), 2u);
}

TEST(Compaction, D110_MalformedState_IsDropped) {
    for (
        const char* text :
        {R"({"compaction":7})", R"({"compaction":{"summary":3}})",
         R"({"compaction":{"summary":"s","summarized_message_refs":["x"]},"compaction_until_msg_index":1})",
         R"({"compaction":{"summary":"s","summarized_message_refs":["id:u"]},"compaction_until_msg_index":-1})",
         R"({"compaction":{"summary":"s","summarized_message_refs":["id:u"]},"compaction_until_msg_index":99999999999})",
         R"({"compaction":{"summary":"s","summarized_message_refs":[1]},"compaction_until_msg_index":1})",
         R"({"compaction":{"summary":"s","preserved_tool_results":[1]},"compaction_until_msg_index":1})",
         R"({"compaction_view":{"made_at":-5,"shortened_until":12345678901234}})",
         R"({"compaction_view":[],"compaction_failures":"x","compaction_low_savings_count":1e300})"}) {
        CompactedChat chat;
        run(chat.store->append("t", MessageList{user_message("hello", "u")}, AppendOptions()));
        run(chat.store->save_extra("t", boost::json::parse(text).as_object()));
        EXPECT_TRUE(chat.prompt("again")) << text;
        EXPECT_EQ(chat.main.seen.back().messages.size(), 2u) << text;
    }
}

/// `run_id` is that of the summarized message: CubePi refers to one of its own run before it has an id.
void expect_record_of_cubepi_used(const char* run_id) {
    CompactedChat chat;
    // As CubePi 0.13.6 writes them.
    MessageList messages;
    UserMessage first;
    first.content.emplace_back(TextContent{"one"});
    first.timestamp = 1795801591.0;
    first.run_id = run_id;
    first.metadata = JsonObject{{"b", 1}, {"a", JsonObject{{"z", nullptr}, {"é", 1.5}}}};
    messages.push_back(Message(first));
    messages.push_back(user_message("two"));
    run(chat.store->append("t", messages, AppendOptions()));
    JsonObject extra =
        boost::json::parse(R"({"compaction":{"summary":"Rivers.","summarized_message_ids":[],
        "summarized_message_refs":["sha256:1ef4ca2862f3af32ac4dc4f23a0eac0f0ca9a65b9a3b8eb9c8d6c0fdfab0d5a3"],
        "last_summarized_message_id":null,"is_fallback":false,
        "preserved_tool_results":[{"tool_name":"read","tool_call_id":"c","text":"verbatim"}]},
        "compaction_until_msg_index":1,"compaction_failures":0,"compaction_fallback_runs":0})")
            .as_object();
    extra["compaction"].as_object()["summarized_message_refs"].as_array()[0] =
        "sha256:02e1cbb449f1c629da78696e0f10e68892df1c67d95793d7d1062f9c9ab69986";
    // Of an earlier record of ours, which this one has replaced.
    extra["compaction_view"] =
        JsonObject{{"until", 2}, {"made_at", 2}, {"tokens", 900'000}, {"shortened_until", 2}};
    run(chat.store->save_extra("t", std::move(extra)));
    EXPECT_TRUE(chat.prompt("three"));
    const MessageList& sent = chat.main.seen.back().messages;
    ASSERT_EQ(sent.size(), 3u);
    EXPECT_NE(sent[0].text().find("Rivers."), std::string::npos);
    EXPECT_NE(sent[0].text().find("read (c): verbatim"), std::string::npos);
    EXPECT_TRUE(chat.helper.seen.empty());
}

TEST(Compaction, D110_StateOfCubePi_IsUsed) {
    expect_record_of_cubepi_used("");
    expect_record_of_cubepi_used("r1");
}

TEST(Compaction, D110_OldToolResults_AreShortenedFirst) {
    CompactionOptions options;
    options.max_tokens_before_compact = 4'000;
    CompactedChat chat(std::move(options));
    std::size_t number = 0;
    chat.main = Server([&number](const ModelRequest& request) {
        if (request.messages.back().tool_result()) return says("done");
        return calls("read", {}, "c" + std::to_string(++number));
    });
    const Notice notice = chat.fill();
    EXPECT_EQ(notice.details.at("summarized").to_number<int>(), 0);
    EXPECT_GT(notice.details.at("shortened").to_number<int>(), 2);
    EXPECT_TRUE(chat.helper.seen.empty()) << "no model was needed";
    const ModelRequest& request = chat.main.seen.back();
    EXPECT_EQ(request.messages[2].text(),
              "[read: 3000 bytes, left out here; recall with message 3 reads them]");
    EXPECT_TRUE(is_legal_transcript(request.messages));
    PrefixGuard guard;
    (void)guard.check(chat.main.seen.back());
    chat.open();
    EXPECT_TRUE(chat.prompt("x"));
    EXPECT_FALSE(guard.check(chat.main.seen.at(chat.main.seen.size() - 2)));
}

TEST(Compaction, D110_Recall_ReadsShortenedResults) {
    CompactionOptions options;
    options.max_tokens_before_compact = 4'000;
    CompactedChat chat(std::move(options));
    std::size_t number = 0;
    bool recalls = false;
    chat.main = Server([&](const ModelRequest& request) {
        if (request.messages.back().tool_result()) return says("done");
        JsonObject which{{"message", 3}};
        if (recalls) return calls("recall", std::move(which), "r");
        return calls("read", {}, "c" + std::to_string(++number));
    });
    (void)chat.fill();
    recalls = true;
    EXPECT_TRUE(chat.prompt("recall it"));
    EXPECT_NE(chat.main.seen.back().messages.back().text().find(chat.file), std::string::npos);
}

TEST(Compaction, D110_GoalAndTodos_StayWordForWord) {
    CompactedChat chat;
    chat.open();
    chat.agent->set_extra("goal",
                          JsonObject{{"condition", "all 7 tests pass"}, {"status", "active"}});
    chat.agent->set_extra(
        "todos", JsonArray{JsonObject{{"content", "write the docs"}, {"status", "pending"}},
                           JsonObject{{"content", "was done"}, {"status", "completed"}}, 5, "x"});
    (void)chat.fill();
    const std::string text = chat.main.seen.back().messages[0].text();
    EXPECT_NE(text.find("Goal: all 7 tests pass\n"), std::string::npos);
    EXPECT_NE(text.find("- [pending] write the docs\n"), std::string::npos);
    EXPECT_EQ(text.find("was done"), std::string::npos);
    // The next summary is written from the notes without that part, which is added as it is then.
    chat.agent->set_extra("goal", nullptr);
    for (int i = 0; chat.helper.seen.size() < 2 && i < 100; ++i)
        EXPECT_TRUE(chat.prompt(words("more", 400)));
    EXPECT_EQ(text_of(chat.helper.seen.back()).find("Goal: all 7"), std::string::npos);
    EXPECT_EQ(chat.main.seen.back().messages[0].text().find("Goal: all 7"), std::string::npos);
    EXPECT_NE(chat.main.seen.back().messages[0].text().find("write the docs"), std::string::npos);
}

TEST(Compaction, D110_PreservedMessagesAndTools_StayWordForWord) {
    CompactionOptions options;
    options.preserved_tools = {"read"};
    options.max_tokens_before_compact = 6'000;
    CompactedChat chat(std::move(options));
    bool reads = true;
    chat.main = Server([&reads](const ModelRequest&) {
        return std::exchange(reads, false) ? calls("read", {}, "c1") : says(words("answer", 300));
    });
    UserMessage rule;
    rule.content.emplace_back(TextContent{"never touch prod-7"});
    rule.metadata = JsonObject{{"preserve", true}};
    chat.open();
    EXPECT_TRUE(run(chat.agent->prompt(Message(rule))));
    (void)chat.fill();
    const std::string text = chat.main.seen.back().messages[0].text();
    EXPECT_NE(text.find("never touch prod-7"), std::string::npos);
    EXPECT_NE(text.find("read (c1): " + chat.file), std::string::npos);
}

TEST(Compaction, D110_PreservedParts_AreBoundedTogether) {
    CompactionOptions options;
    options.preserved_tools = {"read"};
    options.preserve = [](const Message& message) { return message.user() != nullptr; };
    options.max_tokens_before_compact = 4'000;
    options.context_window = 8'000;
    CompactedChat chat(std::move(options));
    std::size_t number = 0;
    chat.main = Server([&](const ModelRequest& request) {
        if (request.messages.back().tool_result()) return says(words("answer", 300));
        chat.file = words("file" + std::to_string(number / 3), 900);  // each is read several times
        return calls("read", {}, "c" + std::to_string(++number));
    });
    for (int i = 0; i < 60; ++i) EXPECT_TRUE(chat.prompt(words("item" + std::to_string(i), 200)));
    EXPECT_GE(chat.helper.seen.size(), 3u);
    const std::string summary = chat.main.seen.back().messages[0].text();
    EXPECT_LT(summary.size(), 4'000u + 1'000u);
    EXPECT_NE(summary.find("more are left out here; recall reads them"), std::string::npos);
    const auto state = CompactionState::from_json(chat.extra().at("compaction"));
    std::set<std::string> texts;
    for (const PreservedToolResult& one : state->preserved_tool_results)
        EXPECT_TRUE(texts.insert(one.text).second) << "twice";
    EXPECT_FALSE(chat.notices->with("compaction").empty());
}

TEST(Compaction, D110_LongToolLoop_KeepsTheRequest) {
    CompactionOptions options;
    options.prune_tool_outputs = false;
    CompactedChat chat(std::move(options));
    chat.file = words("data", 600);
    std::size_t number = 0;
    chat.main = Server([&number](const ModelRequest&) {
        return ++number < 30 ? calls("read", {}, "c" + std::to_string(number)) : says("done");
    });
    EXPECT_TRUE(chat.prompt("Find the cause of ticket 4711."));
    EXPECT_GE(chat.helper.seen.size(), 1u);
    for (const ModelRequest& request : chat.main.seen) {
        EXPECT_NE(text_of(request).find("ticket 4711"), std::string::npos);
        EXPECT_TRUE(is_legal_transcript(request.messages)) << "a call and its result are together";
    }
}

// Overflow.

TEST(Compaction, D112_Overflow_RequestIsRepeatedOnce) {
    CompactionOptions options;
    options.max_tokens_before_compact = 1'000'000;
    CompactedChat chat(std::move(options));
    chat.main.window = 3'000;
    chat.main.names_window = false;
    EXPECT_EQ(chat.fill().details.at("reason"), Json("overflow"));
    EXPECT_EQ(chat.agent->state().messages.back().assistant()->error_message.str(), "");
    EXPECT_EQ(chat.helper.seen.size(), 1u);
}

/// There are servers that begin an answer before they refuse: listeners see one answer, whose start precedes it.
TEST(Compaction, D112_OverflowAfterStart_RequestIsRepeatedOnce) {
    CompactionOptions options;
    options.max_tokens_before_compact = 1'000'000;
    CompactedChat chat(std::move(options));
    chat.main.window = 3'000;
    chat.main.begins = true;
    chat.open();
    std::size_t starts = 0;
    std::size_t ends = 0;
    const Subscription listener = chat.agent->subscribe([&](const AgentEvent& event) {
        const auto* start = event.get_if<MessageStartEvent>();
        const auto* end = event.get_if<MessageEndEvent>();
        if (start && start->message.assistant()) ++starts;
        if (end && end->message.assistant()) ++ends;
        EXPECT_LE(starts - ends, 1u);
    });
    EXPECT_EQ(chat.fill().details.at("reason"), Json("overflow"));
    EXPECT_EQ(chat.agent->state().messages.back().assistant()->error_message.str(), "");
    EXPECT_EQ(chat.helper.seen.size(), 1u);
    EXPECT_EQ(starts, ends);
    EXPECT_EQ(starts, chat.main.seen.size() - 1) << "nothing of the refused answer";
}

/// A request that fills the window has an answer that is cut off: the next one is compacted first, once.
TEST(Compaction, D112_AnswerCutByWindow_IsCompactedBeforeNext) {
    CompactionOptions options;
    options.max_tokens_before_compact = 1'000'000;
    CompactedChat chat(std::move(options));
    bool is_full = false;
    chat.main = Server([&is_full](const ModelRequest&) {
        AssistantMessage answer = says("Half");
        if (is_full) answer.stop_reason = stop_reason::shared("model_context_window_exceeded");
        return answer;
    });
    for (int i = 0; i < 6; ++i) EXPECT_TRUE(chat.prompt(words("item", 400)));
    is_full = true;
    EXPECT_TRUE(chat.prompt("more"));
    EXPECT_TRUE(chat.helper.seen.empty());
    is_full = false;
    EXPECT_TRUE(chat.prompt("again"));
    ASSERT_EQ(chat.notices->with("compaction").size(), 1u);
    EXPECT_TRUE(chat.notices->with("compaction")[0].details.at("compacted").as_bool());
    EXPECT_LT(chat.main.seen.back().messages.size(), 10u);
    EXPECT_TRUE(chat.prompt("and again"));
    EXPECT_EQ(chat.helper.seen.size(), 1u);
}

TEST(Compaction, D112_OverflowWithFailedSummary_UsesTheFallback) {
    CompactionOptions options;
    options.max_tokens_before_compact = 1'000'000;
    CompactedChat chat(std::move(options));
    chat.main.window = 3'000;
    chat.helper = Server([](const ModelRequest&) { return says(""); });
    const Notice notice = chat.fill();
    EXPECT_TRUE(notice.details.at("fallback").as_bool());
    EXPECT_NE(chat.last_request().find("- User: item0 item0"), std::string::npos);
}

TEST(Compaction, D112_HugeRecentResult_IsShortenedAtAnOverflow) {
    CompactionOptions options;
    options.max_tokens_before_compact = 1'000'000;
    CompactedChat chat(std::move(options));
    chat.main.window = 5'000;
    chat.file = words("huge", 40'000);
    chat.main = Server([](const ModelRequest& request) {
        return request.messages.back().tool_result() ? says("done") : calls("read", {}, "c1");
    });
    chat.main.window = 5'000;
    EXPECT_TRUE(chat.prompt("read it"));
    EXPECT_NE(chat.last_request().find("[read: 40000 bytes"), std::string::npos);
    EXPECT_NE(chat.last_request().find("read it"), std::string::npos);
}

/// The system prompt and the tools are nearly all of a request, and it is refused.
TEST(Compaction, D112_ShortHistoryAtAnOverflow_IsSummarized) {
    CompactionOptions options;
    options.keep_tail_tokens = 8'001;
    options.max_tokens_before_compact = 1'000'000;
    CompactedChat chat(std::move(options));
    chat.main.fixed = 9'000;
    EXPECT_TRUE(chat.prompt("Use Postgres."));
    chat.main.window = 9'070;
    chat.main.names_window = false;
    EXPECT_TRUE(chat.prompt("Continue."));
    EXPECT_EQ(chat.helper.seen.size(), 1u);
    EXPECT_EQ(chat.main.seen.back().messages.size(), 2u);
}

TEST(Compaction, D112_SecondOverflow_IsTheFailure) {
    CompactionOptions options;
    options.max_tokens_before_compact = 1'000'000;
    CompactedChat chat(std::move(options));
    chat.main.window = 200;
    const RunResult result = chat.prompt("hello");
    EXPECT_EQ(result.outcome, RunOutcome::failed);
    EXPECT_EQ(result.error().code(), ErrorCode::context_length);
    EXPECT_LE(chat.main.seen.size(), 2u);
}

TEST(Compaction, D112_WindowSmallerThanPrompt_StopsCompacting) {
    CompactionOptions options;
    options.context_window = 200;
    CompactedChat chat(std::move(options));
    chat.main.fixed = 5'000;
    for (int i = 0; i < 40; ++i) EXPECT_TRUE(chat.prompt("short question"));
    EXPECT_LE(chat.helper.seen.size(), 10u) << "not one summary for each call";
}

// Summarizers that fail.

TEST(Compaction, D112_BadSummaries_AreFailuresThenFallback) {
    const std::vector<Server::Answer> bad = {
        [](const ModelRequest&) { return says(" \n"); },
        [](const ModelRequest&) { return calls("read", {}, "c"); },
        [](const ModelRequest&) {
            AssistantMessage answer = says("The first half");
            answer.stop_reason = stop_reason::shared(stop_reason::length);
            return answer;
        },
        [](const ModelRequest&) {
            AssistantMessage answer = says("The first half");
            answer.stop_reason = stop_reason::shared("abort");
            return answer;
        },
        [](const ModelRequest&) { return says(words("larger", 60'000)); },
        [](const ModelRequest&) {
            AssistantMessage answer = says("partial");
            answer.stop_reason = stop_reason::shared(stop_reason::error);
            answer.error_message = "no credit";
            return answer;
        },
    };
    for (const Server::Answer& answer : bad) {
        CompactionOptions options;
        options.max_summary_tokens = 50'000;
        CompactedChat chat(std::move(options));
        chat.helper = Server(answer);
        chat.open();
        for (int i = 0; i < 14; ++i) EXPECT_TRUE(chat.prompt(words("item", 400)));
        const std::vector<Notice> done = chat.notices->with("compaction");
        ASSERT_GE(done.size(), 3u);
        EXPECT_FALSE(done[0].details.at("compacted").as_bool());
        EXPECT_FALSE(done[1].details.at("compacted").as_bool());
        EXPECT_TRUE(done[2].details.at("fallback").as_bool());
        EXPECT_FALSE(done[2].details.at("error").as_string().empty());
        EXPECT_EQ(chat.helper.seen.size(), 3u) << "the breaker is open";
        EXPECT_NE(chat.main.seen.back().messages[0].text().find("No model"), std::string::npos);
    }
}

TEST(Compaction, D112_OpenBreaker_TriesTheModelLater) {
    CompactedChat chat;
    bool works = false;
    chat.helper = Server([&works](const ModelRequest&) { return says(works ? "Good." : ""); });
    chat.open();
    for (int i = 0; i < 14; ++i) EXPECT_TRUE(chat.prompt(words("item", 400)));
    works = true;
    for (int i = 0; i < 100 && chat.helper.seen.size() < 4; ++i)
        EXPECT_TRUE(chat.prompt(words("item", 400)));
    EXPECT_TRUE(chat.main.seen.back().messages[0].text().find("Good.") != std::string::npos);
    EXPECT_EQ(chat.extra().at("compaction_failures"), Json(0));
}

TEST(Compaction, D112_HangingSummary_TimesOut) {
    auto clock = std::make_shared<ManualClock>();
    auto runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
    FauxProvider faux;
    faux.set_responses({FauxStep([clock](const ModelRequest&) -> Task<AssistantMessage> {
        clock->advance(std::chrono::hours(1));
        co_await clock->sleep_until(clock->now() + std::chrono::hours(10));
        co_return says("late");
    })});
    CompactionOptions options;
    options.summary_model = faux.model("helper");
    CompactionMiddleware middleware(std::move(options));
    MessageList history;
    for (int i = 0; i < 10; ++i) history.push_back(user_message(words("x", 900)));
    auto account = std::make_shared<RunAccount>(RunInfo());
    const ManualCompaction done =
        run(middleware.compact_now(history, JsonObject(), "", account, runtime));
    EXPECT_TRUE(!done.report.compacted);
    EXPECT_NE(done.report.error.find("summary"), std::string::npos) << done.report.error;
}

TEST(Compaction, D120_SummaryWithoutUsage_CountsInFull) {
    auto clock = std::make_shared<ManualClock>();
    auto runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
    FauxProvider faux;
    faux.set_responses({FauxStep([clock](const ModelRequest&) -> Task<AssistantMessage> {
        clock->advance(std::chrono::hours(1));
        co_await clock->sleep_until(clock->now() + std::chrono::hours(10));
        co_return says("late");
    })});
    Model helper;
    helper.id = "helper";
    helper.max_tokens = 2'000;
    helper.cost.emplace();
    helper.cost->input = 0.0;
    helper.cost->output = 1e6;
    CompactionOptions options;
    options.summary_model = faux.model(helper);
    CompactionMiddleware middleware(std::move(options));
    MessageList history;
    for (int i = 0; i < 10; ++i) history.push_back(user_message(words("x", 900)));
    auto account = std::make_shared<RunAccount>(RunInfo());
    account->set_max_spend(3'000.0);
    ManualCompaction done =
        run(middleware.compact_now(history, JsonObject(), "", account, runtime));
    EXPECT_EQ(done.report.cost, 2'000.0);
    EXPECT_EQ(account->spending().cost, 2'000.0) << "the endpoint may bill it";
    account->count(Usage(), 1'000.0);
    done = run(middleware.compact_now(history, JsonObject(), "", account, runtime));
    EXPECT_NE(done.report.error.find("max_spend"), std::string::npos) << done.report.error;
    EXPECT_EQ(faux.call_count(), 1u);
}

TEST(Compaction, D112_AbortDuringTheSummary_ChangesNothing) {
    CompactedChat chat;
    bool aborted = false;
    chat.helper = Server([&](const ModelRequest&) {
        aborted = true;
        chat.agent->abort();
        return says("too late");
    });
    chat.open();
    RunResult result;
    for (int i = 0; i < 100 && !aborted; ++i) result = chat.prompt(words("item", 400));
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(chat.extra().if_contains("compaction"), nullptr);
    chat.helper = Server([](const ModelRequest&) { return says("Fine."); });
    EXPECT_TRUE(chat.prompt("continue"));
    EXPECT_NE(chat.main.seen.back().messages[0].text().find("Fine."), std::string::npos);
}

TEST(Compaction, D112_AbortDuringTheOverflowSummary_ChangesNothing) {
    CompactionOptions options;
    options.max_tokens_before_compact = 1'000'000;
    CompactedChat chat(std::move(options));
    chat.main.window = 3'000;
    bool aborted = false;
    chat.helper = Server([&](const ModelRequest&) {
        aborted = true;
        chat.agent->abort();
        return says("too late");
    });
    chat.open();
    RunResult result;
    for (int i = 0; i < 100 && !aborted; ++i) result = chat.prompt(words("item", 400));
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(chat.extra().if_contains("compaction"), nullptr);
    EXPECT_TRUE(chat.agent->state().messages.back().assistant());
}

// Cost, and summaries by hand.

TEST(Compaction, D110_Summary_IsChargedToTheRun) {
    CompactedChat chat;
    const Notice notice = chat.fill();
    EXPECT_FALSE(notice.details.contains("cost")) << "a model without a price";
    CompactedChat priced;
    Model spec;
    spec.id = "helper";
    spec.cost.emplace();
    spec.cost->input = 1'000'000.0;
    spec.cost->output = 0.0;
    priced.options.summary_model = BoundModel(priced.helper.model().provider(), std::move(spec));
    const Notice charged = priced.fill();
    EXPECT_GT(charged.details.at("cost").to_number<double>(), 300);
    EXPECT_NE(charged.text.find("$"), std::string::npos);
    EXPECT_EQ(CompactionMiddleware(priced.options).models.size(), 1u) << "tracers observe it";
}

TEST(Compaction, D110_ByHand_InstructionsReachTheSummary) {
    CompactedChat chat;
    chat.open();
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(chat.prompt(words("item", 300)));
    CompactionMiddleware middleware(chat.options);
    auto account = std::make_shared<RunAccount>(RunInfo());
    const ManualCompaction done =
        run(middleware.compact_now(chat.agent->state().messages, chat.agent->state().extra,
                                   "the ports", account, Runtime::standard()));
    ASSERT_TRUE(done.report.compacted) << done.report.error;
    EXPECT_NE(text_of(chat.helper.seen.back()).find("What matters to the user: the ports"),
              std::string::npos);
    for (const auto& [key, value] : done.extra) chat.agent->set_extra(key, value);
    EXPECT_TRUE(chat.prompt("next"));
    EXPECT_NE(chat.main.seen.back().messages[0].text().find("The summary of rivers."),
              std::string::npos);
    // Without new messages there is nothing to do.
    const ManualCompaction none = run(middleware.compact_now(
        MessageList{user_message("x")}, JsonObject(), "", account, Runtime::standard()));
    EXPECT_FALSE(none.report.compacted);
    EXPECT_TRUE(none.extra.empty());
}

// Compaction by the endpoint.

TEST(Compaction, D141_EndpointThatCompacts_IsAsked) {
    CompactionOptions options;
    options.context_window = 4'000;
    options.provider_share = 0.5;
    CompactedChat chat(std::move(options));
    chat.main = Server([&chat](const ModelRequest& request) {
        AssistantMessage answer = says(words("answer", 300));
        EXPECT_EQ(request.options.compact_at(), 2'000);
        const std::size_t calls = chat.main.seen.size();
        if (calls == 5) chat.main.fixed = 2'600;
        if (calls < 6) return answer;
        chat.main.fixed = -500;
        if (calls == 6)
            answer.extra["server_items"] = Json(
                JsonArray{JsonObject{{"at", 0}, {"item", JsonObject{{"type", "compaction"}}}}});
        return answer;
    });
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(chat.prompt(words("item", 400)));
    EXPECT_TRUE(chat.helper.seen.empty()) << "what was counted before counts no more";
    const std::vector<Notice> notices = chat.notices->with("compaction");
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_EQ(notices[0].details.at("reason"), Json("provider"));
}

TEST(Compaction, D110_NoSummaryModel_IsRefused) {
    EXPECT_THROW(CompactionMiddleware{CompactionOptions{}}, Error);
}

}  // namespace
}  // namespace cubepi
