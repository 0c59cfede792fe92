#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <bub/builtin/builtin_test_support.hpp>
#include <bub/turn_span.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/testing/memory_log.hpp>
#include <cubepi/tracing/console_exporter.hpp>
#include <cubepi/tracing/memory_exporters.hpp>
#include <cubepi/tracing/meter.hpp>
#include <cubepi/tracing/tracer.hpp>

namespace bub {
namespace {

using cubepi::SpanData;
using cubepi::SpanStatus;

class TurnTraces : public test::Builtin {
protected:
    TurnTraces() { trace_with(cubepi::TracerOptions()); }

    /// Makes the framework, with a tracer that exports to memory as well.
    void trace_with(cubepi::TracerOptions options,
                    FrameworkOptions framework_options = FrameworkOptions()) {
        cubepi::SpanSink::Output output;
        output.exporter = exporter;
        output.limits.delay = std::chrono::milliseconds(1);
        options.exporters.push_back(std::move(output));
        tracer = std::make_shared<cubepi::Tracer>(std::move(options));
        framework_options.tracer = tracer;
        framework_options.meter = meter;
        make_framework(std::move(framework_options));
    }

    cubepi::SpanBatch spans(std::string_view name = {}) {
        EXPECT_TRUE(tracer->force_flush());
        cubepi::SpanBatch found;
        for (const auto& span : exporter->spans()) {
            if (name.empty() || span->name == name) found.push_back(span);
        }
        return found;
    }
    std::shared_ptr<const SpanData> span(std::string_view name) {
        const cubepi::SpanBatch found = spans(name);
        EXPECT_EQ(found.size(), 1u) << name;
        return found.empty() ? std::make_shared<SpanData>() : found.front();
    }
    /// The names of the spans above this one, from its parent to the root.
    std::string above(const SpanData& span) {
        std::string path;
        cubepi::SpanId parent = span.parent;
        for (const auto& all = spans(); parent.valid();) {
            const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) {
                return one->context.span_id == parent;
            });
            if (found == all.end()) return path + " (unknown)";
            path += (path.empty() ? "" : " < ") + (*found)->name.str();
            parent = (*found)->parent;
        }
        return path;
    }

    std::shared_ptr<cubepi::InMemorySpanExporter> exporter =
        std::make_shared<cubepi::InMemorySpanExporter>();
    std::shared_ptr<cubepi::Tracer> tracer;
    std::shared_ptr<cubepi::Meter> meter = std::make_shared<cubepi::Meter>();
};

TEST_F(TurnTraces, RunOfAgent_IsBelowItsStage) {
    add_builtin({cubepi::FauxStep(faux_assistant_message("yes"))});
    EXPECT_EQ(say("?").model_output, "yes");
    EXPECT_EQ(above(*span("invoke_agent")), "bub.run_model < bub.turn");
    for (const char* stage : {"bub.resolve_session", "bub.load_state", "bub.build_prompt",
                              "bub.save_state", "bub.render_outbound", "bub.dispatch_outbound"}) {
        EXPECT_EQ(above(*span(stage)), "bub.turn") << stage;
    }
    const auto turn = span("bub.turn");
    EXPECT_EQ(turn->status, SpanStatus::unset);
    const cubepi::AttributeValue* session = turn->attributes.find("bub.session_id");
    ASSERT_TRUE(session);
    EXPECT_EQ(session->if_text(), "cli:chat");
    EXPECT_NE(meter->prometheus_text().find("invoke_agent"), std::string::npos);
}

TEST_F(TurnTraces, TapeEntries_HaveTheIdsOfTheTurn) {
    add_builtin({cubepi::FauxStep(faux_assistant_message("yes"))});
    say("?");
    const auto turn = span("bub.turn");
    std::size_t stamped = 0;
    for (const TapeEntry& entry : tape("cli:chat")) {
        const Json* trace = entry.meta.if_contains("trace_id");
        if (!trace) continue;
        ++stamped;
        EXPECT_EQ(trace->as_string(), turn->context.trace_id.hex());
        EXPECT_EQ(entry.meta.at("span_id").as_string(), turn->context.span_id.hex());
    }
    EXPECT_GE(stamped, 3u);  // the prompt, the answer, the end of the turn
}

TEST_F(TurnTraces, Subagent_IsBelowItsToolCallAndCharged) {
    JsonObject arguments;
    arguments["prompt"] = "count";
    std::optional<cubepi::RunResult> result;
    BuiltinOptions options;
    options.on_result = [&](const cubepi::RunResult& given, const TurnContext&) { result = given; };
    add_builtin({cubepi::FauxStep(test::calling("subagent", std::move(arguments))),
                 cubepi::FauxStep(faux_assistant_message("seven")),
                 cubepi::FauxStep(faux_assistant_message("done"))},
                std::move(options));
    EXPECT_EQ(say("?").model_output, "done");
    const cubepi::SpanBatch runs = spans("invoke_agent");
    ASSERT_EQ(runs.size(), 2u);
    EXPECT_EQ(above(*runs.front()),
              "execute_tool subagent < cubepi.turn < invoke_agent < bub.run_model < bub.turn");
    const cubepi::SpanBatch calls = spans("chat scripted");
    ASSERT_EQ(calls.size(), 3u);
    std::int64_t tokens = 0;
    for (const auto& call : calls) {
        const auto* count = call->attributes.find("gen_ai.usage.output_tokens");
        ASSERT_TRUE(count);
        tokens += *count->if_integer();
    }
    ASSERT_TRUE(result);
    EXPECT_EQ(result->usage.output_tokens, tokens);
}

TEST_F(TurnTraces, D102_RedactedValue_IsInNoSpan) {
    for (const std::string dropped : {"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"}) {
        cubepi::TracerOptions options;
        options.record_content = true;
        options.redact = [dropped](std::string_view key, Json value) -> std::optional<Json> {
            if (key == dropped) return std::nullopt;
            return value;
        };
        exporter = std::make_shared<cubepi::InMemorySpanExporter>();
        trace_with(std::move(options));
        JsonObject arguments;
        arguments["prompt"] = "count victor";
        add_builtin({cubepi::FauxStep(test::calling("subagent", std::move(arguments))),
                     cubepi::FauxStep(faux_assistant_message("it is yankee")),
                     cubepi::faux_failure("refused: count victor, it is yankee")});
        EXPECT_THROW(say("?"), cubepi::Error);
        std::string all;
        for (const auto& span : spans()) {
            all += span->name.str() + " " + span->status_description + "\n";
            for (const cubepi::Attribute& one : span->attributes) {
                if (const auto text = one.value.if_text()) all += std::string(*text) + "\n";
            }
        }
        const bool no_arguments = dropped == "gen_ai.tool.call.arguments";
        EXPECT_EQ(all.find("victor") == std::string::npos, no_arguments) << all;
        EXPECT_EQ(all.find("yankee") == std::string::npos, !no_arguments) << all;
        EXPECT_NE(all.find("bub.run_model refused: "), std::string::npos) << all;
    }
}

TEST_F(TurnTraces, Message_NamesTheSpanOfItsSender) {
    std::string asked;
    add_builtin({cubepi::FauxStep([&asked](const cubepi::ModelRequest& request) {
        for (const cubepi::Message& message : request.messages) asked += message.text();
        return faux_assistant_message("yes");
    })});
    Envelope inbound = Envelope("?").on("web", "1");
    inbound.context[trace_key::traceparent] =
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    inbound.context[trace_key::tags] = JsonArray{"beta"};
    inbound.context[trace_key::metadata] = JsonObject{{"tenant", "a"}};
    cubepi::run(framework->process_inbound(std::move(inbound)));
    const auto turn = span("bub.turn");
    EXPECT_EQ(turn->context.trace_id.hex(), "0af7651916cd43dd8448eb211c80319c");
    EXPECT_EQ(turn->parent.hex(), "b7ad6b7169203331");
    for (const auto& one : {turn, span("invoke_agent")}) {
        EXPECT_TRUE(one->attributes.find("cubepi.tags")) << one->name;
        EXPECT_TRUE(one->attributes.find("cubepi.metadata.tenant")) << one->name;
        EXPECT_EQ(one->context.trace_id, turn->context.trace_id);
    }
    EXPECT_EQ(asked.find("0af765"), std::string::npos);
    EXPECT_EQ(asked.find("tenant"), std::string::npos);
}

TEST_F(TurnTraces, FailingStage_IsMarkedLikeItsTurn) {
    Plugin failing;
    failing.name = "failing";
    failing.render_outbound = [](RenderOutboundCall&) -> EnvelopeBatch {
        throw std::runtime_error("a secret");
    };
    add_builtin({cubepi::FauxStep(faux_assistant_message("yes"))});
    framework->add(std::move(failing));
    EXPECT_THROW(say("?"), std::runtime_error);
    for (const char* name : {"bub.turn", "bub.render_outbound"}) {
        const auto failed = span(name);
        EXPECT_EQ(failed->status, SpanStatus::error) << name;
        EXPECT_EQ(failed->status_description, "exception") << name;
    }
    EXPECT_EQ(span("bub.run_model")->status, SpanStatus::unset);
}

TEST_F(TurnTraces, ModelFailure_IsNotOneOfSaveState) {
    Plugin failing;
    failing.name = "failing";
    failing.run_model = [](RunModelCall&) -> std::optional<std::string> {
        throw cubepi::Error(cubepi::ErrorCode::io, "no disk");
    };
    add_builtin({});
    framework->add(std::move(failing));
    EXPECT_THROW(say("?"), cubepi::Error);
    EXPECT_EQ(span("bub.run_model")->status, SpanStatus::error);
    EXPECT_EQ(span("bub.save_state")->status, SpanStatus::unset);
    EXPECT_EQ(span("bub.turn")->status, SpanStatus::error);
}

TEST_F(TurnTraces, FailedRunOfUnsampledTurn_IsExported) {
    cubepi::TracerOptions options;
    options.sampling.ratio = 0;
    trace_with(std::move(options));
    add_builtin({cubepi::FauxStep(faux_assistant_message("fine")),
                 cubepi::FauxStep(cubepi::faux_failure("down"))});
    say("?");
    EXPECT_TRUE(spans().empty());
    try {
        say("?");
    } catch (const std::exception&) {
        // Whether the failure of a model fails the turn is not the matter of this test.
    }
    EXPECT_EQ(above(*span("invoke_agent")), "bub.run_model < bub.turn");
    for (const char* stage : {"bub.load_state", "bub.build_prompt", "bub.save_state"})
        EXPECT_EQ(above(*span(stage)), "bub.turn") << stage;
}

constexpr std::string_view marker = "zqxsecret";

/// Adds a plugin that fails in one stage.
void add_failing(Framework& framework, std::string_view stage) {
    const auto fail = [] { throw std::runtime_error(std::string(marker) + " in an exception"); };
    Plugin failing;
    failing.name = "failing";
    if (stage == "build_prompt") {
        failing.build_prompt = [fail](BuildPromptCall&) -> std::optional<Prompt> {
            fail();
            return std::nullopt;
        };
    } else if (stage == "load_state") {
        failing.load_state = [fail](LoadStateCall&) -> JsonObject {
            fail();
            return {};
        };
    } else if (stage == "save_state") {
        failing.save_state = [fail](SaveStateCall&) { fail(); };
    } else if (stage == "render_outbound") {
        failing.render_outbound = [fail](RenderOutboundCall&) -> EnvelopeBatch {
            fail();
            return {};
        };
    } else if (stage == "on_error") {
        failing.on_error = [fail](OnErrorCall&) { fail(); };
        failing.run_model = [fail](RunModelCall&) -> std::optional<std::string> {
            fail();
            return std::nullopt;
        };
    }
    framework.add(std::move(failing));
}

TEST_F(TurnTraces, D26_TextOfTurn_IsNeverExportedOrLogged) {
    for (const char* stage :
         {"none", "load_state", "build_prompt", "save_state", "render_outbound", "on_error"}) {
        const cubepi::testing::MemoryLog log;
        std::ostringstream console;
        cubepi::TracerOptions options;
        cubepi::SpanSink::Output output;
        output.exporter = std::make_shared<cubepi::ConsoleSpanExporter>(console);
        options.exporters.push_back(std::move(output));
        FrameworkOptions framework_options;
        framework_options.runtime = std::make_shared<const cubepi::Runtime>(
            cubepi::Runtime(*cubepi::Runtime::standard()).with_log(log.logger()));
        trace_with(std::move(options), std::move(framework_options));
        add_builtin({cubepi::FauxStep(test::calling("bash", JsonObject{{"command", marker}})),
                     cubepi::FauxStep(faux_assistant_message(std::string(marker)))});
        add_failing(*framework, stage);
        try {
            say(std::string(marker));
        } catch (const std::exception&) {
            // The stage's.
        }
        EXPECT_TRUE(tracer->shutdown());
        const std::string all = console.str() + log.text() + meter->prometheus_text();
        EXPECT_NE(all.find("bub.turn"), std::string::npos) << stage;
        EXPECT_EQ(all.find(marker), std::string::npos) << stage << ": " << all;
    }
}

}  // namespace
}  // namespace bub
