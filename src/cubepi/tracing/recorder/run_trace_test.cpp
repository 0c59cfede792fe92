#include <cubepi/tracing/recorder/run_trace.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/provider/faux.hpp>
#include <cubepi/tracing/recorder/shared_tables.hpp>
#include <cubepi/tracing/traced_test.hpp>

namespace cubepi {
namespace {

using namespace detail;
using Keys = std::set<std::string>;
using Names = std::vector<std::string>;
using tracing_test::text;

constexpr RunTrace::Time now{};

/// A run whose spans are exported to memory.
struct TracedRun {
    explicit TracedRun(bool record_content = false, Redact redact = nullptr) {
        SpanSink::Output output;
        output.exporter = exporter;
        sink = std::make_shared<SpanSink>(std::vector<SpanSink::Output>{output}, nullptr, nullptr);
        auto losses = std::make_shared<LossReport>(nullptr);
        auto info = std::make_shared<RunInfo>();
        info->run_id = "r1";
        TraceParent parent;
        parent.trace_id = TraceId::random();
        run = RunTrace::create(
            std::make_shared<const RunTrace::Settings>(RunTrace::Settings{
                ContentFilter(record_content, std::move(redact), losses), {}, true, losses}),
            sink, std::move(info), std::move(parent), now);
    }
    void start_tool(std::string id) const {
        ToolExecutionStartEvent event;
        event.tool_call_id = std::move(id);
        event.tool_name = "work";
        run->start_tool(event, ToolInfo(), now);
    }
    void end_tool(std::string id) const {
        ToolExecutionEndEvent event;
        event.tool_call_id = std::move(id);
        run->end_tool(event, now);
    }
    SpanBatch spans() const {
        EXPECT_TRUE(sink->force_flush(std::chrono::minutes(1)));
        return exporter->spans();
    }
    std::vector<std::string> names() const {
        std::vector<std::string> names;
        for (const auto& span : spans()) names.push_back(span->name);
        return names;
    }

    const std::shared_ptr<InMemorySpanExporter> exporter = std::make_shared<InMemorySpanExporter>();
    std::shared_ptr<SpanSink> sink;
    std::shared_ptr<RunTrace> run;
};

/// A run with content whose `redact` needs the run on another thread: it never returns if the caller holds the run's lock.
struct RedactedRun : TracedRun {
    RedactedRun()
        : TracedRun(true, [this](std::string_view key, Json value) -> std::optional<Json> {
              keys.insert(std::string(key));
              // The destructor of the run may redact as well.
              if (run)
                  std::async(std::launch::async, [this] {
                      (void)run->context_of_call("c1");
                  }).get();
              return value;
          }) {}
    ~RedactedRun() { run.reset(); }
    /// The keys that were redacted since the last call.
    std::set<std::string> take_keys() { return std::exchange(keys, {}); }

    std::set<std::string> keys;
};

Message answer(std::string text) { return Message(faux_assistant_message(std::move(text))); }

Message failure(std::string text) {
    AssistantMessage message = faux_assistant_message("");
    message.stop_reason = stop_reason::error;
    message.error_message = std::move(text);
    return Message(std::move(message));
}

TEST(RunTrace, RedactOfToolCall_MayUseTheRun) {
    RedactedRun it;
    it.run->start_turn(1, now);
    it.start_tool("c1");
    EXPECT_EQ(it.take_keys(), (Keys{"gen_ai.tool.call.arguments"}));
    ToolExecutionEndEvent end;
    end.tool_call_id = "c1";
    end.blocked_by_hook = true;
    end.block_reason = "no";
    it.run->end_tool(end, now);
    EXPECT_EQ(it.take_keys(), (Keys{"cubepi.tool.block_reason", "gen_ai.tool.call.result"}));
    EXPECT_EQ(it.names(), Names{"execute_tool work"});
}

TEST(RunTrace, RedactOfQuestion_MayUseTheRun) {
    RedactedRun it;
    HitlRequest request;
    request.question_id = "q1";
    it.run->start_question(request, now);
    EXPECT_EQ(it.take_keys(), (Keys{"hitl.request"}));
    HitlAnswerEvent end;
    end.question_id = "q1";
    it.run->end_answered_question(end, now);
    EXPECT_EQ(it.spans().size(), 1u);
    HitlAnswerEvent answered;
    it.run->start_question(request, now);
    answered.question_id = "q1";
    answered.answer = true;
    it.run->end_answered_question(answered, now);
    EXPECT_EQ(it.take_keys(), (Keys{"hitl.request", "hitl.answer"}));
}

TEST(RunTrace, RedactOfModelCall_MayUseTheRun) {
    RedactedRun it;
    ProviderCall call;
    call.request.model.id = "m";
    call.request.system_prompt = "Be brief.";
    it.run->start_chat(call, RequestPayload(), now);
    EXPECT_EQ(it.take_keys(), (Keys{"gen_ai.system_instructions", "gen_ai.input.messages"}));
    ProviderOutcome outcome;
    outcome.message = failure("no");
    it.run->end_chat(call, outcome, now);
    EXPECT_EQ(it.take_keys(), (Keys{"gen_ai.output.messages", "exception.message"}));
    EXPECT_EQ(it.names(), Names{"chat m"});
}

TEST(RunTrace, TurnAndRunRedact_MayUseTheRun) {
    RedactedRun it;
    it.run->start_message(Message(user_message("hi")));
    EXPECT_EQ(it.take_keys(), (Keys{"gen_ai.input.messages"}));
    it.run->start_turn(1, now);
    TurnEndEvent turn;
    turn.message = failure("no");
    it.run->end_turn(turn, now);
    EXPECT_EQ(it.take_keys(), (Keys{"gen_ai.output.messages", "exception.message"}));
    RunEnding ending;
    ending.outcome = RunOutcome::failed;
    it.run->end(ending, now);
    EXPECT_EQ(it.take_keys(), (Keys{"gen_ai.input.messages", "gen_ai.output.messages"}));
    const SpanBatch spans = it.spans();
    ASSERT_EQ(spans.size(), 2u);
    EXPECT_EQ(spans[1]->status_description, "no");
}

TEST(RunTrace, RedactOfRunEnding_MayUseTheRun) {
    RedactedRun it;
    RunEnding ending;
    ending.outcome = RunOutcome::failed;
    ending.error = std::make_shared<const Error>(ErrorCode::io, "the disk is full");
    it.run->end(ending, now);
    EXPECT_EQ(it.take_keys(), (Keys{"exception.message"}));
    EXPECT_EQ(it.spans().at(0)->status_description, "the disk is full");
}

TEST(RunTrace, RedactOfDroppedStream_MayUseTheRun) {
    RedactedRun it;
    it.run->start_turn(1, now);
    ProviderCall call;
    call.request.model.id = "m";
    it.run->start_chat(call, RequestPayload(), now);
    it.run->end_chat(call, ProviderOutcome(), now);
    (void)it.take_keys();
    TurnEndEvent turn;
    turn.message = answer("partial");
    it.run->end_turn(turn, now);
    EXPECT_EQ(it.take_keys(), (Keys{"gen_ai.output.messages"}));
    EXPECT_EQ(it.names(), (Names{"chat m", "cubepi.turn"}));
}

TEST(RunTrace, MessageCount_ExcludesAnswers) {
    TracedRun it;
    it.run->start_message(Message(user_message("hi")));
    it.run->start_message(Message(user_message("more")));
    it.run->start_message(answer("answer"));
    it.run->end(RunEnding(), now);
    ASSERT_EQ(it.names(), Names{"invoke_agent"});
    EXPECT_EQ(text(*it.spans()[0], "cubepi.input.messages.count"), "2");
}

/// The partial answer comes with the end of the turn only.
TEST(RunTrace, DroppedAnswer_HasItsUsage) {
    TracedRun it;
    it.run->start_turn(1, now);
    ProviderCall call;
    call.request.model.id = "m";
    it.run->start_chat(call, RequestPayload(), now);
    it.run->end_chat(call, ProviderOutcome(), now);
    AssistantMessage partial = faux_assistant_message("par");
    partial.stop_reason = stop_reason::aborted;
    partial.usage = Usage{.input_tokens = 7};
    TurnEndEvent turn;
    turn.message = Message(std::move(partial));
    it.run->end_turn(turn, now);
    const SpanBatch spans = it.spans();
    ASSERT_EQ(it.names(), (Names{"chat m", "cubepi.turn"}));
    EXPECT_EQ(text(*spans[0], "gen_ai.usage.input_tokens"), "7");
    EXPECT_EQ(text(*spans[0], "cubepi.aborted"), "true");
    EXPECT_EQ(text(*spans[1], "cubepi.turn.stop_reason"), "aborted");
}

TEST(RunTrace, D26_Answers_AreNotRetained) {
    TracedRun it;
    Message message = answer("secret");
    TurnEndEvent event;
    event.message = message;
    ProviderCall call;
    ProviderOutcome outcome;
    outcome.message = message;
    it.run->start_turn(1, now);
    it.run->start_chat(call, RequestPayload(), now);
    it.run->end_chat(call, outcome, now);
    it.run->end_turn(event, now);
    outcome.message = Message();
    event.message = Message();
    const AssistantMessage* const before = message.assistant();
    const Message edited = std::move(message).with_id("m2");
    EXPECT_EQ(edited.assistant(), before) << "edited in place: there is no other copy";
}

TEST(RunTrace, RunWithoutEnd_IsAborted) {
    TracedRun it;
    it.run->start_turn(1, now);
    it.run.reset();
    const SpanBatch spans = it.spans();
    ASSERT_EQ(it.names(), (Names{"cubepi.turn", "invoke_agent"}));
    EXPECT_EQ(text(*spans[1], "cubepi.run.outcome"), "aborted");
}

TEST(RunTrace, AgentAndProviderThreads_MayShareTheTrace) {
    constexpr std::size_t count = 200;
    const TracedRun it;
    std::thread provider([&it] {
        for (std::size_t i = 0; i < count; ++i) {
            ProviderCall call;
            it.run->start_chat(call, RequestPayload(), now);
            ProviderOutcome outcome;
            outcome.message = answer("done");
            it.run->end_chat(call, outcome, now);
        }
    });
    for (std::size_t i = 0; i < count; ++i) {
        it.start_tool(std::to_string(i));
        (void)it.run->context_of_call(std::to_string(i));
        it.run->set_attribute("a", 1);
        it.end_tool(std::to_string(i));
    }
    provider.join();
    it.run->end(RunEnding(), now);
    EXPECT_EQ(it.spans().size(), 2 * count + 1);
}

/// The other thread has the lock at most of the forks.
TEST(RunTrace, ForkedChild_DoesNotWaitForParentThreads) {
    TracedRun it;
    std::atomic<bool> done = false;
    std::thread busy([&] {
        while (!done) {
            it.start_tool("c1");
            it.end_tool("c1");
        }
    });
    for (int i = 0; i < 20; ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::alarm(20);
            it.start_tool("c2");
            (void)it.run->context_of_call("c2");
            it.run.reset();
            ::_exit(0);
        }
        int status = 0;
        EXPECT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    done = true;
    busy.join();
}

TEST(SpanHold, NumberAndBytes_AreBounded) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1} << 20U}) {
        std::vector<std::string> notices;
        const auto losses = std::make_shared<LossReport>(
            [&](const Notice& notice) { notices.push_back(notice.code); });
        SpanSink::Output output;
        output.exporter = std::make_shared<InMemorySpanExporter>();
        output.limits.queue_spans = 20'000;
        const auto sink =
            std::make_shared<SpanSink>(std::vector<SpanSink::Output>{output}, nullptr, nullptr);
        SpanHold hold(sink, losses);
        const std::size_t offered = bytes == 0 ? 10'010 : 20;
        for (std::size_t i = 0; i < offered; ++i) {
            auto span = std::make_shared<SpanData>();
            span->attributes.set("content", SharedString(std::string(bytes, 'x')));
            hold.add(std::move(span));
        }
        EXPECT_TRUE(sink->force_flush(std::chrono::minutes(1)));
        EXPECT_EQ(sink->counts()[0].exported, 0u);
        hold.fail();
        EXPECT_TRUE(sink->force_flush(std::chrono::minutes(1)));
        const std::size_t missing = losses->count(Loss::held_span);
        EXPECT_GE(missing, 4u);
        EXPECT_EQ(sink->counts()[0].exported + missing, offered);
        EXPECT_EQ(notices, std::vector<std::string>{"held_spans_dropped"});
    }
}

TEST(RunTable, AddedRun_IsFoundUntilRemoved) {
    RunTable<int> table;
    for (const std::string id :
         {"", "a", "12345678", "run-1", "b24f2a2c796944fe8f41200e1d32489c"}) {
        const auto run = std::make_shared<int>(1);
        table.add(id, run);
        EXPECT_EQ(table.find(id), run) << id;
        EXPECT_EQ(table.find(id + "x"), nullptr) << id;
        table.remove(id, run.get());
        EXPECT_EQ(table.find(id), nullptr) << id;
    }
}

TEST(RunTable, RemainingRuns_AreFound) {
    RunTable<int> table;
    for (int i = 0; i < 1000; ++i) {
        const std::string id = "run-" + std::to_string(i);
        const auto run = std::make_shared<int>(i);
        table.add(id, run);
        EXPECT_EQ(table.find(id), run);
        if (i % 3 != 0) table.remove(id, run.get());
        EXPECT_EQ(run.use_count(), i % 3 != 0 ? 1 : 2);
    }
    EXPECT_EQ(*table.find("run-999"), 999);
    EXPECT_EQ(table.find("run-998"), nullptr);
}

TEST(RunTable, SameId_ReplacesTheEarlierRun) {
    RunTable<int> table;
    const auto other = std::make_shared<int>(0);
    table.add("a", other);
    table.remove("a", other.get());
    const auto first = std::make_shared<int>(1);
    const auto second = std::make_shared<int>(2);
    table.add("a", first);
    table.add("a", second);
    EXPECT_EQ(first.use_count(), 1);
    table.remove("a", first.get());
    EXPECT_EQ(table.find("a"), second);
}

}  // namespace
}  // namespace cubepi
