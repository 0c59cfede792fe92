#include <cubepi/tracing/recorder/run_trace.hpp>

#include <future>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/provider/faux.hpp>

namespace cubepi::detail {
namespace {

struct Receiver final : SpanReceiver {
    void receive(std::shared_ptr<const SpanData> span) noexcept override {
        spans.push_back(std::move(span));
    }
    std::vector<std::shared_ptr<const SpanData>> spans;
};

/// A run with content whose `redact` needs the run on another thread: it never returns if the caller holds the run's lock.
struct RedactedRun {
    RedactedRun() {
        Redact redact = [this](std::string_view key, Json value) -> std::optional<Json> {
            keys.insert(std::string(key));
            // The destructor of the run may redact as well.
            if (run)
                std::async(std::launch::async, [this] { (void)run->context_of_call("c1"); }).get();
            return value;
        };
        auto losses = std::make_shared<LossReport>(nullptr);
        auto info = std::make_shared<RunInfo>();
        info->run_id = "r1";
        TraceParent parent;
        parent.trace_id = TraceId::random();
        run.emplace(std::make_shared<const RunTrace::Settings>(RunTrace::Settings{
                        ContentFilter(true, std::move(redact), losses), {}, true, losses}),
                    receiver, std::move(info), std::move(parent), RunTrace::Time());
    }
    /// The keys that were redacted since the last call.
    std::set<std::string> take_keys() { return std::exchange(keys, {}); }

    Receiver receiver;
    std::set<std::string> keys;
    std::optional<RunTrace> run;
};

using Keys = std::set<std::string>;
constexpr RunTrace::Time now{};

Message answer(std::string text) { return Message(faux_assistant_message(std::move(text))); }

Message failure(std::string text) {
    AssistantMessage message = faux_assistant_message("");
    message.stop_reason = stop_reason::error;
    message.error_message = std::move(text);
    return Message(std::move(message));
}

TEST(RunTrace, RedactOfAToolCallMayUseTheRun) {
    RedactedRun it;
    it.run->start_turn(1, now);
    ToolExecutionStartEvent start;
    start.tool_call_id = "c1";
    start.tool_name = "work";
    it.run->start_tool(start, ToolFacts(), now);
    EXPECT_EQ(it.take_keys(), (Keys{"gen_ai.tool.call.arguments"}));
    ToolExecutionEndEvent end;
    end.tool_call_id = "c1";
    end.blocked_by_hook = true;
    end.block_reason = "no";
    it.run->end_tool(end, now);
    EXPECT_EQ(it.take_keys(), (Keys{"cubepi.tool.block_reason", "gen_ai.tool.call.result"}));
    ASSERT_EQ(it.receiver.spans.size(), 1u);
    EXPECT_EQ(it.receiver.spans[0]->name, "execute_tool work");
}

TEST(RunTrace, RedactOfAQuestionMayUseTheRun) {
    RedactedRun it;
    HitlRequest request;
    request.question_id = "q1";
    it.run->start_question(request, now);
    EXPECT_EQ(it.take_keys(), (Keys{"hitl.request"}));
    HitlAnswerEvent end;
    end.question_id = "q1";
    it.run->end_answered_question(end, now);
    EXPECT_EQ(it.receiver.spans.size(), 1u);
    HitlAnswerEvent answered;
    it.run->start_question(request, now);
    answered.question_id = "q1";
    answered.answer = true;
    it.run->end_answered_question(answered, now);
    EXPECT_EQ(it.take_keys(), (Keys{"hitl.request", "hitl.answer"}));
}

TEST(RunTrace, RedactOfAModelCallMayUseTheRun) {
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
    ASSERT_EQ(it.receiver.spans.size(), 1u);
    EXPECT_EQ(it.receiver.spans[0]->name, "chat m");
}

TEST(RunTrace, RedactOfATurnAndOfTheRunMayUseTheRun) {
    RedactedRun it;
    it.run->start_message(Message(user_message("hi")));
    it.run->start_turn(1, now);
    TurnEndEvent turn;
    turn.message = failure("no");
    it.run->end_turn(turn, now);
    EXPECT_EQ(it.take_keys(), (Keys{"gen_ai.output.messages", "exception.message"}));
    RunEnding ending;
    ending.outcome = RunOutcome::failed;
    it.run->end(ending, now);
    EXPECT_EQ(it.take_keys(), (Keys{"gen_ai.input.messages", "gen_ai.output.messages"}));
    ASSERT_EQ(it.receiver.spans.size(), 2u);
    EXPECT_EQ(it.receiver.spans[1]->status_description, "no");
}

TEST(RunTrace, RedactOfWhatEndedTheRunMayUseTheRun) {
    RedactedRun it;
    RunEnding ending;
    ending.outcome = RunOutcome::failed;
    ending.error = std::make_shared<const Error>(ErrorCode::io, "the disk is full");
    it.run->end(ending, now);
    EXPECT_EQ(it.take_keys(), (Keys{"exception.message"}));
    EXPECT_EQ(it.receiver.spans.at(0)->status_description, "the disk is full");
}

TEST(RunTrace, RedactOfADroppedStreamMayUseTheRun) {
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
    ASSERT_EQ(it.receiver.spans.size(), 2u);
    EXPECT_EQ(it.receiver.spans[0]->name, "chat m");
}

}  // namespace
}  // namespace cubepi::detail
