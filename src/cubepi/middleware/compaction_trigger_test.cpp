#include <cubepi/middleware/compaction_test_support.hpp>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/testing/manual_clock.hpp>

// When a history is compacted: limits, and the model's window, which may have to be found.

namespace cubepi {
namespace {

using namespace compaction_test;
using cubepi::testing::ManualClock;

struct ShortPrompt {
    const bool* is_short;
    std::string transform_system_prompt(std::string prompt, HookContext&) const {
        return *is_short ? "Be brief." : std::move(prompt);
    }
};

TEST(Compaction, D111_ThirdCall_EstimateIsWithinTenPercent) {
    for (const double bytes_per_token : {1.6, 2.5, 4.0, 6.0}) {
        CompactionOptions options;
        options.max_tokens_before_compact = 100'000;
        CompactedChat chat(std::move(options));
        chat.main.bytes_per_token = bytes_per_token;
        chat.open();
        std::int64_t estimate = 0;
        for (int i = 0; i < 20; ++i) {
            EXPECT_TRUE(chat.prompt(
                words("w" + std::to_string(i), 100 + 977U * static_cast<std::size_t>(i % 4))));
        }
        // A manual compaction reports what the next request would have.
        CompactionMiddleware middleware(chat.options);
        const std::string next = words("next", 700);
        MessageList history = chat.agent->state().messages;
        history.push_back(user_message(next));
        auto account = std::make_shared<RunAccount>(RunInfo());
        const ManualCompaction done =
            run(middleware.compact_now(history, JsonObject(), "", account, Runtime::standard()));
        estimate = done.report.before;
        EXPECT_TRUE(chat.prompt(next));
        const auto reported = static_cast<double>(
            *chat.agent->state().messages.back().assistant()->usage->input_tokens);
        EXPECT_NEAR(static_cast<double>(estimate), reported, reported * 0.1);
    }
}

TEST(Compaction, D111_ShareOfWindow_IsTheTrigger) {
    CompactionOptions options;
    options.context_window = 4'000;
    CompactedChat chat(std::move(options));
    const Notice notice = chat.fill();
    EXPECT_GE(notice.details.at("before").to_number<int>(), 3'200);
    EXPECT_LT(notice.details.at("before").to_number<int>(), 4'000);
}

TEST(Compaction, D111_FewLongMessages_AreSummarizedBeforeARefusal) {
    CompactionOptions options;
    options.context_window = 4'000;
    CompactedChat chat(std::move(options));
    chat.main.window = 4'000;
    EXPECT_TRUE(chat.prompt(words("pasted", 11'200)));  // 70 % of the window
    EXPECT_TRUE(chat.helper.seen.empty()) << "a prompt is not summarized before it is sent";
    EXPECT_TRUE(chat.prompt(words("question", 400)));
    const std::vector<Notice> done = chat.notices->with("compaction");
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].details.at("reason"), Json("limit"));
    EXPECT_EQ(done[0].details.at("summarized").to_number<int>(), 2);
    EXPECT_TRUE(chat.notices->with("context_overflow").empty());
    EXPECT_EQ(chat.main.seen.back().messages.back().text(), words("question", 400));
}

TEST(Compaction, D111_FewShortMessages_AreNotSummarized) {
    CompactionOptions options;
    options.context_window = 4'000;
    CompactedChat chat(std::move(options));
    chat.main.fixed = 3'300;  // tools and system prompt
    EXPECT_TRUE(chat.prompt(words("question", 400)));
    EXPECT_TRUE(chat.prompt(words("question", 400)));
    EXPECT_TRUE(chat.helper.seen.empty()) << "a summary would not help";
}

TEST(Compaction, D111_WindowOfTheModel_IsTheTrigger) {
    CompactionOptions options;
    options.max_tokens_before_compact = 1'000'000;
    CompactedChat chat(std::move(options));
    chat.main.known_window = chat.main.window = 4'000;
    EXPECT_EQ(chat.fill().details.at("reason"), Json("limit"));
    EXPECT_TRUE(chat.notices->with("context_overflow").empty());
}

TEST(Compaction, D111_UnknownWindow_IsLearnedFromARefusal) {
    CompactionOptions options;
    options.max_tokens_before_compact = 1'000'000;
    CompactedChat chat(std::move(options));
    chat.main.window = 4'000;
    EXPECT_EQ(chat.fill().details.at("reason"), Json("overflow"));
    EXPECT_EQ(chat.notices->with("context_overflow").size(), 1u);
    // The next process knows it.
    chat.open();
    EXPECT_EQ(chat.fill().details.at("reason"), Json("limit"));
}

/// Each process asks once it is worth it; a request waits for the answer.
TEST(Compaction, D111_WindowOfServersList_IsTheTrigger) {
    CompactionOptions options;
    options.max_tokens_before_compact = 1'000'000;
    std::size_t asked = 0;
    options.find_window = [&asked]() -> Task<std::optional<std::int64_t>> {
        ++asked;
        co_await yield_now();
        co_return 5'000;
    };
    CompactedChat chat(std::move(options));
    chat.main.fixed = 500;
    EXPECT_TRUE(chat.prompt("short"));
    EXPECT_EQ(asked, 0u) << "any window has so much";
    const Notice notice = chat.fill();
    EXPECT_EQ(notice.details.at("reason"), Json("limit"));
    EXPECT_GE(notice.details.at("before").to_number<int>(), 4'000);
    EXPECT_EQ(asked, 1u);
    // That of the model is better.
    chat.main.known_window = 100'000;
    chat.open();
    for (int i = 0; i < 60; ++i) EXPECT_TRUE(chat.prompt(words("item", 400)));
    EXPECT_TRUE(chat.notices->with("compaction").empty());
    EXPECT_LE(asked, 2u);
}

TEST(Compaction, D111_WindowThatIsNotFound_StaysUnknown) {
    struct Case {
        const char* name;
        std::function<Task<std::optional<std::int64_t>>()> find;
    };
    const auto fails = []() -> Task<std::optional<std::int64_t>> {
        co_await yield_now();
        throw Error(ErrorCode::connect, "refused");
    };
    const auto throws = []() -> Task<std::optional<std::int64_t>> {
        throw std::runtime_error("no list");
    };
    const auto lists_none = []() -> Task<std::optional<std::int64_t>> { co_return std::nullopt; };
    const auto lists_zero = []() -> Task<std::optional<std::int64_t>> { co_return 0; };
    for (const Case& one : {Case{"fails", fails}, Case{"throws", throws}, Case{"none", lists_none},
                            Case{"zero", lists_zero}}) {
        CompactionOptions options;
        options.max_tokens_before_compact = 1'000'000;
        options.find_window = one.find;
        CompactedChat chat(std::move(options));
        for (int i = 0; i < 20; ++i) EXPECT_TRUE(chat.prompt(words("item", 1'000))) << one.name;
        EXPECT_TRUE(chat.notices->all.empty()) << one.name;
    }
}

/// A server that does not answer delays a request for five seconds, once in a run.
TEST(Compaction, D111_ListThatHangs_IsNotWaitedForAgain) {
    const auto clock = std::make_shared<ManualClock>();
    CompactionOptions options;
    options.max_tokens_before_compact = 1'000'000;
    std::size_t asked = 0;
    options.find_window = [clock, &asked]() -> Task<std::optional<std::int64_t>> {
        ++asked;
        clock->advance(std::chrono::seconds(5));
        co_await clock->sleep_until(clock->now() + std::chrono::hours(1));
        co_return 5'000;
    };
    CompactedChat chat(std::move(options));
    chat.runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
    chat.file = words("file", 9'000);
    std::size_t number = 0;
    chat.main = Server([&number](const ModelRequest&) {
        return ++number < 5 ? calls("read", {}, "c" + std::to_string(number)) : says("done");
    });
    EXPECT_TRUE(chat.prompt("read"));
    EXPECT_EQ(number, 5u);
    EXPECT_EQ(asked, 1u);
}

/// An abort while the list is awaited ends the run.
TEST(Compaction, D111_AbortDuringTheSearch_EndsTheRun) {
    CompactionOptions options;
    options.max_tokens_before_compact = 1'000'000;
    Agent* agent = nullptr;
    AsyncEvent never;
    options.find_window = [&agent, &never]() -> Task<std::optional<std::int64_t>> {
        agent->abort();
        co_await never.wait();
        co_return 5'000;
    };
    CompactedChat chat(std::move(options));
    chat.open();
    agent = chat.agent.get();
    EXPECT_EQ(chat.prompt(words("item", 20'000)).outcome, RunOutcome::aborted);
    EXPECT_TRUE(chat.main.seen.empty());
}

TEST(Compaction, D111_ServerCutsSilently_IsNoticed) {
    CompactionOptions options;
    options.max_tokens_before_compact = 1'000'000;
    CompactedChat chat(std::move(options));
    chat.main.window = 4'000;
    chat.main.cuts = true;
    const Notice notice = chat.fill();
    EXPECT_EQ(chat.notices->with("context_cut").size(), 1u);
    EXPECT_NEAR(chat.notices->with("context_cut")[0].details.at("tokens").to_number<double>(),
                4'000, 400);
    EXPECT_LT(chat.agent->state().messages.size(), 60u);
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(chat.prompt(words("item", 400)));
    EXPECT_LT(bytes_of(chat.main.seen.back()), 4'000u * 4) << "requests stay below the cut";
}

/// There are servers that report the same count for each request, or any.
TEST(Compaction, D111_CountsThatDoNotGrow_AreIgnored) {
    const std::vector<std::vector<std::int64_t>> reports = {
        {9},
        {300},
        {5'000},
        {1'200, 310, 290, 305},
        {5'000, 4'990, 5'010, 4'980},
        {40'000, 2'600, 40'000, 2'600, 40'000, 2'600, 40'000, 2'600}};
    for (const std::vector<std::int64_t>& report : reports) {
        CompactionOptions options;
        options.max_tokens_before_compact = 1'000'000;
        CompactedChat chat(std::move(options));
        chat.main.counts = [&report](std::size_t call) {
            return report[std::min(call, report.size()) - 1];
        };
        for (int i = 0; i < 12; ++i) EXPECT_TRUE(chat.prompt(words("item", 1'000)));
        EXPECT_TRUE(chat.notices->with("context_cut").empty()) << report.front();
        EXPECT_TRUE(chat.notices->with("compaction").empty()) << report.front();
        EXPECT_EQ(chat.main.seen.back().messages.size(), 23u);
    }
}

/// The same history with fewer tools and a shorter system prompt is a smaller request.
TEST(Compaction, D111_SmallerPrompt_IsNotACut) {
    CompactionOptions options;
    options.max_tokens_before_compact = 1'000'000;
    CompactedChat chat(std::move(options));
    chat.system_prompt = words("rules", 12'000);
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(chat.prompt(words("item", 1'000)));
    chat.system_prompt = "Be brief.";
    chat.open();
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(chat.prompt("short"));
    EXPECT_TRUE(chat.notices->with("context_cut").empty());
    EXPECT_TRUE(chat.helper.seen.empty());
    // Within one run, a middleware changes the system prompt.
    chat.system_prompt = words("rules", 12'000);
    chat.open();
    bool is_short = false;
    chat.more = {ShortPrompt{&is_short}};
    chat.open();
    std::size_t number = 0;
    chat.file = "a line";
    chat.main = Server([&](const ModelRequest&) {
        is_short = ++number >= 5;
        return number < 8 ? calls("read", {}, "c" + std::to_string(number)) : says("done");
    });
    EXPECT_TRUE(chat.prompt("read"));
    EXPECT_TRUE(chat.notices->with("context_cut").empty());
}

TEST(Compaction, D111_LearnedWindow_IsForgottenWhenMoreIsReported) {
    CompactionOptions options;
    options.window_share = 1.5;  // beyond the window
    options.max_tokens_before_compact = 1'000'000;
    CompactedChat chat(std::move(options));
    run(chat.store->append("t", MessageList{user_message("hello", "u")}, AppendOptions()));
    run(chat.store->save_extra(
        "t", boost::json::parse(R"({"compaction_view":{"window":1000,"window_model":"m"}})")
                 .as_object()));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(chat.prompt(words("item", 1'700)));
    EXPECT_FALSE(chat.extra().at("compaction_view").as_object().contains("window"));
    EXPECT_TRUE(chat.helper.seen.empty());
}

}  // namespace
}  // namespace cubepi
