#include <cubepi/tracing/recorder/run_log.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/provider/faux.hpp>
#include <cubepi/tracing/traced_test.hpp>

namespace cubepi::detail {
namespace {

using tracing_test::text;

/// Keeps the logs that it is to replay.
struct Keeper final : LogKeeper {
    void receive(std::shared_ptr<const SpanData> span) noexcept override {
        const std::lock_guard lock(mutex);
        spans.push_back(std::move(span));
    }
    bool replay_later(std::shared_ptr<RunLog> log) noexcept override {
        if (!accepts) return false;
        const std::lock_guard lock(mutex);
        posted.push_back(std::move(log));
        return true;
    }
    void wake_replays() noexcept override { ++wakes; }
    std::vector<std::string> names() const {
        std::vector<std::string> names;
        for (const auto& span : spans) names.push_back(span->name);
        return names;
    }

    bool accepts = true;
    std::atomic<int> wakes = 0;
    std::mutex mutex;
    std::vector<std::shared_ptr<const SpanData>> spans;
    std::vector<std::shared_ptr<RunLog>> posted;
};

constexpr RunLog::Time now{};

std::shared_ptr<const RunInfo> run_info(std::string id) {
    auto info = std::make_shared<RunInfo>();
    info->run_id = std::move(id);
    return info;
}

struct Logged {
    explicit Logged(bool takes_notes = true) { begin(takes_notes); }
    ~Logged() { keeper->posted.clear(); }
    void begin(bool takes_notes, std::string id = "r1") {
        auto losses = std::make_shared<LossReport>(nullptr);
        auto settings = std::make_shared<const RunTrace::Settings>(RunTrace::Settings{
            ContentFilter(!takes_notes, nullptr, losses), {}, true, std::move(losses)});
        TraceParent parent;
        parent.trace_id = TraceId::random();
        log->begin(keeper, takes_notes, std::move(settings), run_info(std::move(id)),
                   std::move(parent), now);
    }
    void start_tool(std::string id) const {
        ToolExecutionStartEvent event;
        event.tool_call_id = std::move(id);
        event.tool_name = "work";
        log->start_tool(event, ToolFacts(), now);
    }
    void end_tool(std::string id) const {
        ToolExecutionEndEvent event;
        event.tool_call_id = std::move(id);
        log->end_tool(event, now);
    }
    void end_turn(const AssistantMessage& answer) const {
        TurnEndEvent event;
        event.message = Message(answer);
        log->end_turn(event, now);
    }

    const std::shared_ptr<Keeper> keeper = std::make_shared<Keeper>();
    std::shared_ptr<RunLog> log = RunLog::create();
};

using Names = std::vector<std::string>;

TEST(RunLog, MakesSpansOfTheNotesWhenItIsReplayed) {
    const Logged it;
    it.log->start_turn(1, now);
    it.start_tool("c1");
    it.end_tool("c1");
    it.end_turn(faux_assistant_message("done"));
    it.log->end(RunEnding(), now);
    EXPECT_TRUE(it.keeper->spans.empty());
    ASSERT_EQ(it.keeper->posted.size(), 1u) << "once until it is replayed";
    EXPECT_EQ(it.keeper->wakes, 1);
    it.keeper->posted.front()->replay();
    EXPECT_EQ(it.keeper->names(), (Names{"execute_tool work", "cubepi.turn", "invoke_agent"}));
    it.log->replay();
    EXPECT_EQ(it.keeper->spans.size(), 3u) << "once";
}

TEST(RunLog, IsPostedAgainAfterAReplay) {
    const Logged it;
    it.log->start_turn(1, now);
    it.log->replay();
    it.log->end(RunEnding(), now);
    EXPECT_EQ(it.keeper->posted.size(), 2u);
}

TEST(RunLog, ReplaysItselfIfNoOneElseDoes) {
    const Logged it;
    it.keeper->accepts = false;
    it.start_tool("c1");
    it.end_tool("c1");
    EXPECT_EQ(it.keeper->names(), Names{"execute_tool work"});
    it.keeper->accepts = true;
    it.log->end(RunEnding(), now);
    EXPECT_EQ(it.keeper->posted.size(), 1u);
    it.log->replay();
    EXPECT_EQ(it.keeper->names(), (Names{"execute_tool work", "invoke_agent"}));
}

TEST(RunLog, D26_DoesNotGrowWithoutBoundsIfNoOneReplaysIt) {
    const Logged it;
    for (int i = 0; i < 1000; ++i) {
        it.start_tool("c1");
        it.end_tool("c1");
    }
    EXPECT_GE(it.keeper->spans.size(), 850u);
    EXPECT_LT(it.keeper->spans.size(), 1000u);
}

TEST(RunLog, TheTraceHasEverythingThatWasNotedBefore) {
    const Logged it;
    it.start_tool("c1");
    SpanContext context;
    it.log->with_trace([&](const RunTrace& trace) { context = trace.context_of_call("c1"); });
    it.end_tool("c1");
    it.log->replay();
    ASSERT_EQ(it.keeper->spans.size(), 1u);
    EXPECT_EQ(it.keeper->spans[0]->context.span_id, context.span_id);
    EXPECT_EQ(it.keeper->spans[0]->parent, it.log->context().span_id);
}

TEST(RunLog, ContentGoesToTheTraceDirectly) {
    const Logged it(false);
    it.start_tool("c1");
    it.end_tool("c1");
    EXPECT_TRUE(it.keeper->posted.empty());
    ASSERT_EQ(it.keeper->spans.size(), 1u);
    EXPECT_EQ(text(*it.keeper->spans[0], "gen_ai.tool.call.arguments"), "{}");
}

TEST(RunLog, CountsTheMessagesOfAllReplays) {
    const Logged it;
    it.log->start_message(Message(user_message("hi")));
    it.log->replay();
    it.log->start_message(Message(user_message("more")));
    it.log->start_message(Message(faux_assistant_message("answer")));
    it.log->end(RunEnding(), now);
    it.log->replay();
    ASSERT_EQ(it.keeper->spans.size(), 1u);
    EXPECT_EQ(text(*it.keeper->spans[0], "cubepi.input.messages.count"), "2");
}

/// The partial answer comes with the end of the turn only, so its note has it.
TEST(RunLog, AnAnswerThatWasDroppedHasItsUsage) {
    const Logged it;
    it.log->start_turn(1, now);
    ProviderCall call;
    call.request.model.id = "m";
    it.log->start_chat(call, RequestPayload(), now);
    it.log->end_chat(call, ProviderOutcome(), now);
    AssistantMessage partial = faux_assistant_message("par");
    partial.stop_reason = stop_reason::aborted;
    partial.usage = Usage{.input_tokens = 7};
    it.end_turn(partial);
    it.log->replay();
    ASSERT_EQ(it.keeper->names(), (Names{"chat m", "cubepi.turn"}));
    EXPECT_EQ(text(*it.keeper->spans[0], "gen_ai.usage.input_tokens"), "7");
    EXPECT_EQ(text(*it.keeper->spans[0], "cubepi.aborted"), "true");
    EXPECT_EQ(text(*it.keeper->spans[1], "cubepi.turn.stop_reason"), "aborted");
}

TEST(RunLog, D26_KeepsNoAnswerInItsNotes) {
    const Logged it;
    Message answer(faux_assistant_message("secret"));
    TurnEndEvent event;
    event.message = answer;
    ProviderCall call;
    ProviderOutcome outcome;
    outcome.message = answer;
    it.log->start_turn(1, now);
    it.log->start_chat(call, RequestPayload(), now);
    it.log->end_chat(call, outcome, now);
    it.log->end_turn(event, now);
    outcome.message = Message();
    event.message = Message();
    const AssistantMessage* const before = answer.assistant();
    const Message edited = std::move(answer).with_id("m2");
    EXPECT_EQ(edited.assistant(), before) << "edited in place: there is no other copy";
}

TEST(RunLog, CanBeUsedForAnotherRun) {
    Logged it;
    it.log->start_turn(1, now);
    it.log->retire();
    EXPECT_EQ(it.keeper->names(), (Names{"cubepi.turn", "invoke_agent"}));
    EXPECT_EQ(text(*it.keeper->spans[1], "cubepi.run.outcome"), "aborted");
    it.keeper->spans.clear();
    const SpanId first = it.log->context().span_id;
    it.begin(true, "r2");
    it.log->end(RunEnding(), now);
    it.log->replay();
    ASSERT_EQ(it.keeper->names(), Names{"invoke_agent"});
    EXPECT_EQ(text(*it.keeper->spans[0], "cubepi.run_id"), "r2");
    EXPECT_NE(it.keeper->spans[0]->context.span_id, first);
}

TEST(RunLog, ARunOfWhichNothingWasNotedEndsAsAborted) {
    Logged it;
    it.log.reset();
    ASSERT_EQ(it.keeper->names(), Names{"invoke_agent"});
    EXPECT_EQ(text(*it.keeper->spans[0], "cubepi.run.outcome"), "aborted");
}

TEST(RunLog, IsReplayedByAnotherThreadDuringTheRun) {
    const Logged it;
    std::atomic<bool> done = false;
    std::thread other([&] {
        while (!done) it.log->replay();
    });
    constexpr std::size_t count = 500;
    for (std::size_t i = 0; i < count; ++i) {
        it.start_tool(std::to_string(i));
        it.end_tool(std::to_string(i));
        if (i % 50 == 0) it.log->with_trace([](RunTrace& trace) { trace.set_attribute("a", 1); });
    }
    it.log->end(RunEnding(), now);
    done = true;
    other.join();
    it.log->replay();
    EXPECT_EQ(it.keeper->spans.size(), count + 1);
}

/// A keeper that holds up the thread of the first span, which has locks of the log.
struct StuckKeeper final : LogKeeper {
    void receive(std::shared_ptr<const SpanData>) noexcept override {
        if (std::exchange(is_first, false)) {
            entered.set_value();
            leave.get_future().wait();
        }
    }
    bool replay_later(std::shared_ptr<RunLog>) noexcept override { return true; }
    void wake_replays() noexcept override {}
    bool is_first = true;
    std::promise<void> entered;
    std::promise<void> leave;
};

TEST(RunLog, AChildOfForkDoesNotWaitForAThreadOfItsParent) {
    auto keeper = std::make_shared<StuckKeeper>();
    auto losses = std::make_shared<LossReport>(nullptr);
    auto settings = std::make_shared<const RunTrace::Settings>(
        RunTrace::Settings{ContentFilter(false, nullptr, losses), {}, true, losses});
    std::shared_ptr<RunLog> log = RunLog::create();
    log->begin(keeper, true, settings, run_info("r1"), TraceParent(), now);
    log->start_turn(1, now);
    log->start_turn(2, now);  // ends the first one, whose span is stuck
    std::thread replaying([running = log.get()] { running->replay(); });
    keeper->entered.get_future().wait();
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20);
        log->start_turn(3, now);
        log->with_trace([](RunTrace&) { ::_exit(1); });
        log.reset();
        ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    keeper->leave.set_value();
    replaying.join();
}

}  // namespace
}  // namespace cubepi::detail
