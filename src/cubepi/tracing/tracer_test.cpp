#include <cubepi/tracing/tracer.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/provider/fallback.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/stream_from.hpp>
#include <cubepi/tracing/meter.hpp>
#include <cubepi/tracing/traced_test.hpp>

namespace cubepi {
namespace {

using namespace tracing_test;

struct NoArgs {};

AgentTool failing_tool() {
    return tool<NoArgs>("fail", "Fails.", [](NoArgs) -> std::string {
        throw Error(ErrorCode::io, "the disk is full");
    });
}

TEST(Tracer, D26_Run_IsATreeWithAgentIds) {
    Traced it;
    FauxProvider faux = answering({calling("fail"), "done"});
    AgentOptions options;
    options.model = faux.model("m");
    options.system_prompt = "Be brief.";
    options.tools = {failing_tool()};
    Agent agent(std::move(options));
    const TraceAttachment attachment = it.tracer->attach(agent);
    const RunResult result = run(agent.prompt("hi", PromptOptions().run_id("r1")));
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    const auto root = it.span("invoke_agent");
    EXPECT_FALSE(root->parent.valid());
    EXPECT_EQ(text(*root, "cubepi.run_id"), "r1");
    EXPECT_EQ(text(*root, "cubepi.attempt_id"), result.attempt_id);
    EXPECT_EQ(text(*root, "cubepi.run.outcome"), "completed");
    EXPECT_EQ(text(*root, "gen_ai.provider.name"), "faux");
    EXPECT_EQ(text(*root, "cubepi.agent.tools"), "fail");
    EXPECT_EQ(text(*root, "cubepi.agent.system_prompt.sha256"), "213c22ed7234eb11");
    EXPECT_EQ(root->status, SpanStatus::unset);
    const SpanBatch turns = it.spans("cubepi.turn");
    ASSERT_EQ(turns.size(), 2u);
    for (const auto& turn : turns) EXPECT_EQ(turn->parent, root->context.span_id);
    const auto tool = it.span("execute_tool fail");
    EXPECT_EQ(tool->parent, turns[0]->context.span_id);
    EXPECT_EQ(tool->status, SpanStatus::error);
    EXPECT_EQ(text(*tool, "error.type"), "cubepi.tool.error");
    EXPECT_EQ(text(*tool, "cubepi.tool.execution_mode"), "parallel");
    const SpanBatch chats = it.spans("chat m");
    ASSERT_EQ(chats.size(), 2u);
    EXPECT_EQ(chats[1]->parent, turns[1]->context.span_id);
    EXPECT_EQ(chats[0]->kind, SpanKind::client);
    for (const auto& span : it.spans()) {
        EXPECT_EQ(span->context.trace_id, root->context.trace_id);
        EXPECT_LE(span->start, span->end);
    }
}

TEST(Tracer, D26_FailedRun_HasAnErrorAtItsRoot) {
    Traced it;
    ErrorInfo info;
    info.code = ErrorCode::rate_limited;
    info.type = "RateLimited";
    info.status_code = 429;
    FauxProvider faux = answering({faux_failure("slow down, secret", info)});
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi"));
    const auto root = it.span("invoke_agent");
    EXPECT_EQ(root->status, SpanStatus::error);
    EXPECT_EQ(text(*root, "error.type"), "cubepi.errors.RateLimited");
    EXPECT_EQ(root->status_description, "model error");
    EXPECT_EQ(it.span("cubepi.turn")->status, SpanStatus::error);
    const auto chat = it.span("chat m");
    EXPECT_EQ(chat->status_description, "provider error");
    EXPECT_EQ(text(*chat, "http.response.status_code"), "429");
    ASSERT_EQ(chat->events.size(), 1u);
    EXPECT_EQ(chat->events[0].attributes.find("exception.message"), nullptr);
}

TEST(Tracer, FailedFirstModel_DoesNotFailTheRun) {
    Traced it;
    ErrorInfo info;
    info.code = ErrorCode::unavailable;
    FauxProvider first = answering({faux_failure("down", info)});
    FauxProvider second = answering({"answer"});
    Agent agent({.model = FallbackBoundModel({first.model("a"), second.model("b")})});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi"));
    EXPECT_EQ(it.span("chat a")->status, SpanStatus::error);
    EXPECT_EQ(text(*it.span("chat b"), "cubepi.llm.attempt"), "2");
    EXPECT_EQ(it.span("invoke_agent")->status, SpanStatus::unset);
}

TEST(Tracer, AgentsSharingAProvider_KeepTheirOwnCalls) {
    Traced it;
    FauxProvider faux = answering({"one", "two"});
    Agent a({.model = faux.model("m")});
    Agent b({.model = faux.model("m")});
    const TraceAttachment first = it.tracer->attach(a);
    const TraceAttachment second = it.tracer->attach(b);
    run(a.prompt("hi"));
    run(b.prompt("hi"));
    const SpanBatch roots = it.spans("invoke_agent");
    const SpanBatch chats = it.spans("chat m");
    ASSERT_EQ(roots.size(), 2u);
    ASSERT_EQ(chats.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i)
        EXPECT_EQ(chats[i]->context.trace_id, roots[i]->context.trace_id);
}

TEST(Tracer, SubAgentRun_IsBelowItsToolCall) {
    Traced it;
    FauxProvider faux = answering({calling("ask"), "done"});
    FauxProvider inner_faux = answering({"inner"});
    AgentTool ask =
        tool<NoArgs>("ask", "Asks.", [&](NoArgs, ToolContext& context) -> Task<std::string> {
            Agent inner({.model = inner_faux.model("inner")});
            const TraceAttachment attachment = it.tracer->attach(inner);
            PromptOptions prompt = PromptOptions().parent(context);
            Task<RunResult> running = inner.prompt("sub", std::move(prompt));
            const RunResult result = co_await std::move(running);
            co_return result.text();
        });
    Agent agent({.model = faux.model("m"), .tools = {ask}});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("go"));
    const SpanBatch roots = it.spans("invoke_agent");
    ASSERT_EQ(roots.size(), 2u);
    EXPECT_EQ(roots[0]->parent, it.span("execute_tool ask")->context.span_id);
    EXPECT_EQ(roots[0]->context.trace_id, roots[1]->context.trace_id);
    EXPECT_EQ(it.span("chat inner")->context.trace_id, roots[1]->context.trace_id);
}

TEST(Tracer, D103_SecondAttachment_DuplicatesNoSpans) {
    Traced it;
    FauxProvider faux = answering({"one", "two", "three", "four"});
    std::optional<Agent> agent;
    agent.emplace(AgentOptions{.model = faux.model("m")});
    TraceAttachment first = it.tracer->attach(*agent);
    {
        const TraceAttachment scope = it.tracer->attached(*agent);
        run(agent->prompt("hi"));
        EXPECT_EQ(it.spans().size(), 3u);
    }
    run(agent->prompt("hi"));
    EXPECT_EQ(it.spans().size(), 6u) << "the first attachment remains";
    first.detach();
    run(agent->prompt("hi"));
    EXPECT_EQ(it.spans().size(), 6u);
    // Another agent, possibly at the same address, while an attachment of the first one exists.
    const TraceAttachment old = it.tracer->attach(*agent);
    agent.emplace(AgentOptions{.model = faux.model("m")});
    const TraceAttachment attachment = it.tracer->attach(*agent);
    run(agent->prompt("hi"));
    EXPECT_EQ(it.spans().size(), 9u);
}

/// A provider that knows nothing of observers.
class OwnProvider final : public Provider {
public:
    explicit OwnProvider(bool answers) : answers_(answers) {}
    MessageStream stream(ModelRequest request) override {
        return stream_from(std::move(request), [answers = answers_](StreamWriter& out) -> Task<> {
            if (!answers) throw Error(ErrorCode::io, "no answer");
            co_await out.text("mine");
        });
    }

private:
    const bool answers_;
};

TEST(Tracer, D103_CallOfOwnProvider_HasASpan) {
    Traced it;
    Meter meter;
    Model model;
    model.id = "own";
    const BoundModel failing(std::make_shared<OwnProvider>(false), model);
    const BoundModel good(std::make_shared<OwnProvider>(true), model);
    FallbackOptions chain;
    chain.trigger_errors = {ErrorCode::io, ErrorCode::unknown};
    for (const BoundModel& one : {good, BoundModel(FallbackBoundModel({failing, good}, chain))}) {
        Agent agent({.model = one});
        const TraceAttachment attachment = it.tracer->attached(agent);
        const MeterAttachment measured = meter.attach(agent);
        EXPECT_EQ(run(agent.prompt("hi")).text(), "mine");
    }
    const SpanBatch chats = it.spans("chat own");
    ASSERT_EQ(chats.size(), 3u);
    EXPECT_EQ(chats[0]->parent, it.spans("cubepi.turn")[0]->context.span_id);
    EXPECT_NE(text(*chats[0], "gen_ai.response.time_to_first_chunk"), "(absent)");
    EXPECT_EQ(chats[1]->status, SpanStatus::error);
    EXPECT_EQ(run(it.tracer->oneshot(good, "", {user_message("hi")})).text(), "mine");
    EXPECT_EQ(it.spans("chat own").size(), 4u);
    EXPECT_NE(meter.prometheus_text().find("gen_ai_request_model=\"own\""), std::string::npos);
}

TEST(Tracer, CallerSpan_IsTheParent) {
    Traced it;
    FauxProvider faux = answering({"answer"});
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi", PromptOptions()
                               .traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-"
                                            "00f067aa0ba902b7-01")
                               .tags({"beta"})
                               .metadata({{"n", 3}, {"bad", nullptr}})));
    const auto root = it.span("invoke_agent");
    EXPECT_EQ(root->context.trace_id.hex(), "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(root->parent.hex(), "00f067aa0ba902b7");
    EXPECT_EQ(text(*root, "cubepi.tags"), "beta");
    EXPECT_EQ(text(*root, "cubepi.metadata.n"), "3");
    EXPECT_EQ(text(*root, "cubepi.metadata.bad"), "(absent)");
}

TEST(Tracer, UnsampledCallerSpan_RecordsNothing) {
    Traced it;
    FauxProvider faux = answering({"answer"});
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi", PromptOptions().traceparent(
                               "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")));
    EXPECT_TRUE(it.spans().empty());
}

TEST(Tracer, UnsampledRunFails_IsRecorded) {
    TracerOptions tracing;
    tracing.sampling.ratio = 0;
    Traced it(std::move(tracing));
    ErrorInfo info;
    info.code = ErrorCode::auth;
    FauxProvider faux = answering({"answer", faux_failure("no", info)});
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi"));
    EXPECT_TRUE(it.spans().empty());
    run(agent.prompt("hi"));
    EXPECT_EQ(it.spans().size(), 3u);
}

TEST(Tracer, Abort_IsNotAnError) {
    Traced it;
    FauxProvider faux = answering({"a long answer"});
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = it.tracer->attach(agent);
    agent.subscribe([&](const AgentEvent& event) {
        if (event.text_delta()) agent.abort();
    });
    run(agent.prompt("hi"));
    const auto root = it.span("invoke_agent");
    EXPECT_EQ(root->status, SpanStatus::unset);
    EXPECT_EQ(text(*root, "cubepi.run.outcome"), "aborted");
    EXPECT_EQ(text(*root, "cubepi.aborted"), "true");
    EXPECT_EQ(text(*it.span("chat m"), "error.type"), "cubepi.aborted");
}

TEST(Tracer, ModelSetLater_IsObserved) {
    Traced it;
    FauxProvider first = answering({"one"});
    FauxProvider second = answering({"two"});
    Agent agent({.model = first.model("a")});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi"));
    agent.set_model(second.model("b"));
    run(agent.prompt("hi"));
    EXPECT_EQ(it.spans("chat a").size(), 1u);
    EXPECT_EQ(it.spans("chat b").size(), 1u);
}

TEST(Tracer, Redact_SeesAllContent) {
    std::set<std::string> keys;
    TracerOptions tracing;
    tracing.record_content = true;
    tracing.redact = [&](std::string_view key, Json value) -> std::optional<Json> {
        keys.insert(std::string(key));
        if (key == "gen_ai.tool.call.arguments") return std::nullopt;
        if (key == "gen_ai.tool.call.result") throw std::runtime_error("cannot");
        if (key == "gen_ai.system_instructions") return Json("[hidden]");
        return value;
    };
    Traced it(std::move(tracing));
    ErrorInfo info;
    info.code = ErrorCode::auth;
    FauxProvider faux = answering({calling("fail"), faux_failure("no key", info)});
    Agent agent({.model = faux.model("m"), .system_prompt = "secret", .tools = {failing_tool()}});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi"));
    EXPECT_EQ(text(*it.span("execute_tool fail"), "gen_ai.tool.call.arguments"), "(absent)");
    EXPECT_EQ(text(*it.span("execute_tool fail"), "gen_ai.tool.call.result"), "(absent)");
    EXPECT_EQ(text(*it.spans("chat m").front(), "gen_ai.system_instructions"), "[hidden]");
    for (const char* key : {"gen_ai.input.messages", "gen_ai.output.messages", "exception.message",
                            "cubepi.llm.raw_request", "cubepi.llm.raw_response"})
        EXPECT_TRUE(keys.contains(key)) << key;
}

TEST(Tracer, DetachDuringRun_EndsItAsAborted) {
    Traced it;
    FauxProvider faux = answering({calling("stop"), "done"});
    TraceAttachment attachment;
    AgentTool stop = tool<NoArgs>("stop", "Stops.", [&](NoArgs) {
        attachment.detach();
        return std::string("stopped");
    });
    Agent agent({.model = faux.model("m"), .tools = {stop}});
    attachment = it.tracer->attach(agent);
    run(agent.prompt("hi"));
    EXPECT_EQ(text(*it.span("invoke_agent"), "cubepi.run.outcome"), "aborted");
    EXPECT_EQ(text(*it.span("execute_tool stop"), "cubepi.aborted"), "true");
}

/// Never answers, as a collector that is dead.
class DeadExporter final : public SpanExporter {
public:
    Task<ExportResult> export_spans(SpanBatch, std::shared_ptr<const Resource>) override {
        AsyncEvent never;
        co_await never.wait();
        co_return ExportResult();
    }
    std::string name() const override { return "dead"; }
};

TEST(Tracer, DeadExporter_DoesNotBlockFlushOrShutdown) {
    TracerOptions options;
    SpanSink::Output output;
    output.exporter = std::make_shared<DeadExporter>();
    output.limits.delay = std::chrono::milliseconds(1);
    options.exporters.push_back(std::move(output));
    Tracer tracer(std::move(options));
    FauxProvider faux = answering({"one", "two"});
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = tracer.attach(agent);
    run(agent.prompt("hi"));
    EXPECT_FALSE(tracer.force_flush(std::chrono::milliseconds(20)));
    EXPECT_FALSE(run(tracer.flush(std::chrono::milliseconds(20))));
    EXPECT_FALSE(tracer.shutdown(std::chrono::milliseconds(20)));
    // A run after the end is not recorded, and is not harmed.
    EXPECT_EQ(run(agent.prompt("hi")).text(), "two");
    const ExportCounts counts = tracer.export_counts().at(0);
    EXPECT_EQ(counts.exported, 0u);
    EXPECT_EQ(counts.failed + counts.dropped, 6u);
}

TEST(Tracer, Agent_MayEndBeforeAttachmentOrAfterTracer) {
    auto it = std::make_unique<Traced>();
    FauxProvider faux = answering({"one", "two"});
    auto agent = std::make_unique<Agent>(AgentOptions{.model = faux.model("m")});
    TraceAttachment attachment = it->tracer->attach(*agent);
    it->tracer.reset();
    run(agent->prompt("hi"));
    agent.reset();
    attachment.detach();
}

TEST(Tracer, ProgramSpan_IsTheParentOfRuns) {
    Traced traced;
    ActiveSpanOptions options;
    options.trace.tags = {"web"};
    options.trace.metadata["user"] = 7;
    ActiveSpan request = traced.tracer->start_span("GET /answer", std::move(options));
    FauxProvider faux = answering({"yes"});
    AgentOptions agent_options;
    agent_options.model = faux.model("m");
    Agent agent(std::move(agent_options));
    const TraceAttachment attachment = traced.tracer->attach(agent);
    run(agent.prompt("?", PromptOptions().traceparent(request.context().traceparent())));
    const SpanContext context = request.context();
    request.set_attribute("http.response.status_code", std::int64_t{200});
    request.end();
    EXPECT_FALSE(request);
    const auto span = traced.span("GET /answer");
    EXPECT_EQ(span->context.span_id, context.span_id);
    EXPECT_EQ(text(*span, "cubepi.metadata.user"), "7");
    EXPECT_EQ(span->status, SpanStatus::unset);
    const auto root = traced.span("invoke_agent");
    EXPECT_EQ(root->parent, span->context.span_id);
    EXPECT_EQ(root->context.trace_id, span->context.trace_id);
}

TEST(Tracer, UnsampledProgramSpanFails_IsRecorded) {
    TracerOptions options;
    options.sampling.ratio = 0;
    Traced traced(std::move(options));
    traced.tracer->start_span("good").end();
    ActiveSpan bad = traced.tracer->start_span("bad");
    bad.set_error("io", "secret words");
    bad = ActiveSpan();
    EXPECT_TRUE(traced.spans("good").empty());
    const auto span = traced.span("bad");
    EXPECT_EQ(span->status, SpanStatus::error);
    EXPECT_EQ(span->status_description, "io");
    EXPECT_EQ(text(*span, "error.type"), "io");
}

TEST(Tracer, RunBelowRemoteSpan_IsMarked) {
    Traced traced;
    FauxProvider faux = answering({"one", "two"});
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = traced.tracer->attach(agent);
    const std::string other = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    run(agent.prompt("?", PromptOptions().traceparent(other)));
    EXPECT_EQ(text(*traced.span("invoke_agent"), "cubepi.remote_parent"), "true");
    ActiveSpanOptions options;
    options.trace.traceparent = other;
    ActiveSpan request = traced.tracer->start_span("GET", std::move(options));
    run(agent.prompt("?", PromptOptions().traceparent(request.context().traceparent())));
    request.end();
    EXPECT_EQ(text(*traced.span("GET"), "cubepi.remote_parent"), "true");
    EXPECT_EQ(text(*traced.spans("invoke_agent").back(), "cubepi.remote_parent"), "(absent)");
}

TEST(Tracer, FailedRun_ExportsItsProgramSpans) {
    TracerOptions options;
    options.sampling.ratio = 0;
    Traced traced(std::move(options));
    FauxProvider faux = answering({faux_failure("down"), "fine"});
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = traced.tracer->attach(agent);
    for (const char* name : {"bad", "good"}) {
        ActiveSpan request = traced.tracer->start_span(SharedString(std::string(name)));
        ActiveSpanOptions below;
        below.trace.traceparent = request.context().traceparent();
        traced.tracer->start_span("before", below).end();
        const ActiveSpan around = traced.tracer->start_span("around", below);
        run(agent.prompt("?", PromptOptions().traceparent(around.context().traceparent())));
    }
    EXPECT_TRUE(traced.spans("good").empty());
    const auto request = traced.span("bad");
    EXPECT_EQ(traced.span("before")->parent, request->context.span_id);
    EXPECT_EQ(traced.span("around")->parent, request->context.span_id);
    EXPECT_EQ(traced.span("invoke_agent")->parent, traced.span("around")->context.span_id);
}

TEST(Tracer, ThrowingRedact_IsCountedAndReportedOnce) {
    std::vector<std::string> codes;
    TracerOptions options;
    options.record_content = true;
    options.redact = [](std::string_view, Json) -> std::optional<Json> {
        throw std::runtime_error("no");
    };
    options.on_notice = [&codes](const Notice& notice) { codes.push_back(notice.code); };
    Traced it(std::move(options));
    FauxProvider faux = answering({"one"});
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi"));
    EXPECT_GT(it.tracer->recording_losses().redacted_values, 3u);
    EXPECT_TRUE(it.tracer->shutdown());
    EXPECT_EQ(codes,
              (std::vector<std::string>{"redact_failed", "export_ended", "recording_incomplete"}));
}

TEST(Tracer, Traced_RecordsATaskAndAwaitsItsExport) {
    Traced it;
    FauxProvider faux = answering({"one", "two"});
    Agent agent({.model = faux.model("m")});
    const RunResult result = run(traced(&*it.tracer, agent, agent.prompt("hi")));
    EXPECT_EQ(result.text(), "one");
    EXPECT_EQ(it.exporter->spans().size(), 3u);
    run(traced(nullptr, agent, agent.prompt("hi")));
    EXPECT_EQ(it.spans().size(), 3u);
}

TEST(Tracer, StreamFileWithoutContentRecording_HasNoText) {
    for (const bool content : {false, true}) {
        const ScopedTestDirectory directory;
        TracerOptions tracing;
        tracing.record_content = content;
        tracing.stream_directory = directory.path();
        Traced it(std::move(tracing));
        ToolCall call = faux_tool_call("fail", JsonObject{{"word", "confidential"}});
        FauxProvider faux =
            answering({faux_assistant_message(std::move(call), stop_reason::tool_use), "plain"});
        Agent agent({.model = faux.model("m"), .tools = {failing_tool()}});
        const TraceAttachment attachment = it.tracer->attach(agent);
        run(agent.prompt("hi", PromptOptions().run_id("../r1")));
        EXPECT_TRUE(it.tracer->force_flush());
        std::ifstream file(directory.path() / ".._r1.stream.jsonl");
        std::stringstream lines;
        lines << file.rdbuf();
        EXPECT_NE(lines.str().find("\"toolcall_end\""), std::string::npos);
        EXPECT_EQ(lines.str().find("confidential") != std::string::npos, content);
        EXPECT_EQ(lines.str().find("plain"), std::string::npos);
    }
}

TEST(Oneshot, Oneshot_IsARunWithOneCall) {
    TracerOptions tracing;
    tracing.record_content = true;
    Traced it(std::move(tracing));
    FauxProvider faux = answering({"A title"});
    OneshotOptions options;
    options.operation = "title";
    options.trace.metadata["conversation_id"] = "conv-1";
    const AssistantMessage answer =
        run(it.tracer->oneshot(faux.model("m"), "Make a title.",
                               MessageList{user_message("Long talk")}, std::move(options)));
    EXPECT_EQ(answer.text(), "A title");
    const auto root = it.span("invoke_agent");
    EXPECT_EQ(text(*root, "cubepi.oneshot.operation"), "title");
    EXPECT_EQ(text(*root, "cubepi.metadata.oneshot_operation"), "title");
    EXPECT_EQ(text(*root, "gen_ai.output.messages"),
              R"([{"role":"assistant","parts":[{"type":"text","content":"A title"}]}])");
    EXPECT_EQ(it.span("chat m")->parent, root->context.span_id);
}

Task<AssistantMessage> answer_much_later(ModelRequest) {
    SystemClock clock;
    co_await clock.sleep_for(std::chrono::hours(1));
    co_return faux_assistant_message("late");
}

TEST(Oneshot, EventLoopEndsFirst_RunIsExported) {
    Traced it;
    FauxProvider faux = answering({FauxStep(answer_much_later)});
    {
        boost::asio::io_context context;
        Task<AssistantMessage> call =
            it.tracer->oneshot(faux.model("m"), "Make a title.",
                               MessageList{user_message("Long talk")}, OneshotOptions());
        boost::asio::co_spawn(context, std::move(call), boost::asio::detached);
        context.poll();
        EXPECT_TRUE(it.spans("invoke_agent").empty());
    }
    EXPECT_EQ(text(*it.span("invoke_agent"), "cubepi.aborted"), "true");
}

std::vector<FauxStep> answers(std::size_t count) {
    std::vector<FauxStep> steps;
    for (std::size_t i = 0; i < count; ++i) steps.emplace_back("answer");
    return steps;
}

SpanSink::Output to_memory(const std::shared_ptr<InMemorySpanExporter>& exporter) {
    SpanSink::Output output;
    output.exporter = exporter;
    output.limits.queue_spans = 100'000;
    return output;
}

TEST(Tracer, D26_ManyConcurrentRuns_LoseNothing) {
    constexpr std::size_t threads = 4;
    constexpr std::size_t runs = 400;
    auto exporter = std::make_shared<InMemorySpanExporter>();
    TracerOptions options;
    options.exporters.push_back(to_memory(exporter));
    Tracer tracer(std::move(options));
    std::vector<std::thread> all;
    for (std::size_t i = 0; i < threads; ++i) {
        all.emplace_back([&tracer] {
            FauxProvider faux = answering(answers(runs));
            for (std::size_t done = 0; done < runs; ++done) {
                Agent agent({.model = faux.model("m")});
                const TraceAttachment attachment = tracer.attach(agent);
                run(agent.prompt("hi"));
            }
        });
    }
    for (std::thread& one : all) one.join();
    EXPECT_TRUE(tracer.force_flush());
    std::size_t spans = 0;
    std::size_t completed = 0;
    for (const auto& span : exporter->spans()) {
        ++spans;
        if (tracing_test::text(*span, "cubepi.run.outcome") == "completed") ++completed;
    }
    EXPECT_EQ(spans, threads * runs * 3);
    EXPECT_EQ(completed, threads * runs);
}

TEST(Tracer, RunInProgress_ExportsItsSpans) {
    Traced it;
    FauxProvider faux = answering({calling("look"), "done"});
    std::size_t seen = 0;
    AgentTool look = tool<NoArgs>("look", "Looks.", [&](NoArgs, ToolContext&) -> Task<std::string> {
        // Without a flush: they come by themselves.
        while (it.exporter->spans().empty())
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        seen = it.exporter->spans().size();
        co_return "seen";
    });
    Agent agent({.model = faux.model("m"), .tools = {look}});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi"));
    EXPECT_EQ(seen, 1u) << "the model call of the first turn";
    EXPECT_EQ(it.spans().size(), 6u);
}

TEST(Tracer, Shutdown_ExportsOnlyEarlierRuns) {
    Traced it;
    FauxProvider faux = answering(answers(2));
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi"));
    EXPECT_TRUE(it.tracer->shutdown());
    EXPECT_EQ(it.exporter->spans().size(), 3u);
    run(agent.prompt("hi"));
    EXPECT_EQ(it.tracer->export_counts().at(0).dropped, 3u);
}

/// Blocks its thread instead of suspending.
class BlockingExporter final : public SpanExporter {
public:
    Task<ExportResult> export_spans(SpanBatch, std::shared_ptr<const Resource>) override {
        if (!entered_.exchange(true)) entered.set_value();
        while (!leave) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        co_return ExportResult();
    }
    std::string name() const override { return "blocking"; }

    std::promise<void> entered;
    std::atomic<bool> leave = false;

private:
    std::atomic<bool> entered_ = false;
};

TEST(Tracer, D26_BlockedExportThread_RunsContinue) {
    constexpr std::size_t runs = 1000;
    auto blocking = std::make_shared<BlockingExporter>();
    auto memory = std::make_shared<InMemorySpanExporter>();
    TracerOptions options;
    SpanSink::Output blocked;
    blocked.exporter = blocking;
    blocked.limits.delay = std::chrono::milliseconds(1);
    options.exporters.push_back(std::move(blocked));
    options.exporters.push_back(to_memory(memory));
    Tracer tracer(std::move(options));
    FauxProvider faux = answering(answers(runs));
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = tracer.attach(agent);
    run(agent.prompt("hi"));
    blocking->entered.get_future().wait();
    for (std::size_t i = 1; i < runs; ++i) run(agent.prompt("hi"));
    blocking->leave = true;
    EXPECT_TRUE(tracer.force_flush());
    EXPECT_EQ(memory->spans().size(), runs * 3);
}

/// A test that fails does not end.
TEST(Tracer, AbandonedThread_DoesNotBlockLaterShutdown) {
    auto blocking = std::make_shared<BlockingExporter>();
    TracerOptions options;
    SpanSink::Output output;
    output.exporter = blocking;
    options.exporters.push_back(std::move(output));
    Tracer tracer(std::move(options));
    FauxProvider faux = answering(answers(1));
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = tracer.attach(agent);
    run(agent.prompt("hi"));
    EXPECT_FALSE(tracer.shutdown(std::chrono::milliseconds(20)));
    EXPECT_FALSE(tracer.shutdown(std::chrono::hours(1)));
    EXPECT_FALSE(tracer.force_flush(std::chrono::hours(1)));
    blocking->leave = true;
}

TEST(Tracer, TracerEndsDuringRun_AttachmentRemainsUsable) {
    auto it = std::make_unique<Traced>();
    const std::shared_ptr<InMemorySpanExporter> exporter = it->exporter;
    FauxProvider faux = answering({calling("end"), "done"});
    AgentTool end = tool<NoArgs>("end", "Ends the tracer.", [&](NoArgs, ToolContext&) {
        it.reset();
        return std::string("ended");
    });
    Agent agent({.model = faux.model("m"), .tools = {end}});
    const TraceAttachment attachment = it->tracer->attach(agent);
    EXPECT_EQ(run(agent.prompt("hi")).text(), "done");
    EXPECT_EQ(exporter->spans().size(), 1u) << "what had ended then";
}

}  // namespace
}  // namespace cubepi
