#include <cubepi/provider/structured.hpp>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/fallback.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/testing/memory_transport.hpp>

namespace cubepi {
namespace {

using testing::MemoryResponse;
using testing::MemoryTransport;

struct Weather {
    std::string city;
    double celsius = 0;
    std::optional<std::string> remark;
};

ToolCall answer_call(JsonObject arguments, std::string id = "c1") {
    return faux_tool_call("structured_output", std::move(arguments), std::move(id));
}

AssistantMessage calling(std::vector<ToolCall> calls) {
    ContentList<AssistantContent> blocks;
    for (ToolCall& call : calls) blocks.emplace_back(std::move(call));
    return faux_assistant_message(std::move(blocks), stop_reason::tool_use);
}

/// A provider that takes response formats, scripted.
class NativeFaux final : public Provider {
public:
    explicit NativeFaux(FauxProvider faux) : faux_(std::move(faux)) {}
    MessageStream stream(ModelRequest request) override {
        requests.push_back(request);
        return faux_.stream(std::move(request));
    }
    bool takes_response_format(const Model&) const override { return true; }
    std::vector<ModelRequest> requests;

private:
    FauxProvider faux_;
};

struct Native {
    FauxProvider faux;
    std::shared_ptr<NativeFaux> provider = std::make_shared<NativeFaux>(faux);
    BoundModel model{provider, [] {
                         Model spec;
                         spec.id = "m";
                         return spec;
                     }()};
};

template <class T = Weather>
Structured<T> ask(const BoundModel& model, StructuredOptions options = {}) {
    return run(generate_structured<T>(model, "How warm is it in Oslo?", std::move(options)));
}

StructuredOutputError failure_of(const BoundModel& model, StructuredOptions options = {}) {
    try {
        (void)ask(model, std::move(options));
    } catch (const StructuredOutputError& error) {
        return error;
    }
    throw std::runtime_error("there was no error");
}

TEST(Structured, NoNativeFormat_ForcesAToolCall) {
    FauxProvider faux;
    ModelRequest seen;
    faux.set_responses({FauxStep([&seen](const ModelRequest& request) {
        seen = request;
        return calling({answer_call({{"city", "Oslo"}, {"celsius", 3}})});
    })});
    const auto weather = ask(faux.model());
    EXPECT_EQ(weather->city, "Oslo");
    EXPECT_EQ((*weather).celsius, 3.0);
    EXPECT_FALSE(weather->remark);
    EXPECT_EQ(weather.attempts, 1);
    ASSERT_EQ(seen.tools->size(), 1u);
    EXPECT_EQ(seen.tools->front().name, "structured_output");
    EXPECT_EQ(*seen.tools->front().parameters, json_schema_of<Weather>());
    EXPECT_EQ(seen.options.tool_choice()->name, "structured_output");
    EXPECT_FALSE(seen.options.response_format());
    // The exchange is a valid history.
    ASSERT_EQ(weather.exchange.size(), 2u);
    EXPECT_EQ(weather.exchange[1].tool_result()->tool_call_id, "c1");
}

TEST(Structured, NativeFormat_IsUsedWhereAvailable) {
    Native native;
    native.faux.set_responses({R"({"city":"Oslo","celsius":3.5,"remark":null})"});
    const auto weather = ask(native.model, StructuredOptions().name("weather"));
    EXPECT_EQ(weather->celsius, 3.5);
    const ModelRequest& request = native.provider->requests.at(0);
    EXPECT_FALSE(request.tools);
    EXPECT_EQ(request.options.response_format()->name, "weather");
    EXPECT_EQ(request.options.response_format()->schema->at("additionalProperties"), Json(false));
    EXPECT_EQ(weather.exchange.size(), 1u);
}

TEST(Structured, UnsupportedSchema_ForcesAToolCall) {
    Native native;
    native.faux.set_responses({calling({answer_call({{"a", 1}, {"b", 2}})})});
    const auto numbers = ask<std::map<std::string, int>>(native.model);
    EXPECT_EQ(numbers->at("b"), 2);
    EXPECT_TRUE(native.provider->requests.at(0).tools);
}

TEST(Structured, NativeModeWithoutSupport_IsRefused) {
    FauxProvider faux;
    EXPECT_THROW((void)ask(faux.model(), StructuredOptions().mode(StructuredMode::native)), Error);
    EXPECT_EQ(faux.call_count(), 0u);
}

TEST(Structured, NonObjectValues_AreWrappedInAnObject) {
    FauxProvider faux;
    JsonArray list;
    list.emplace_back("a");
    list.emplace_back("b");
    faux.set_responses({calling({answer_call({{"value", list}})})});
    EXPECT_EQ(*ask<std::vector<std::string>>(faux.model()), (std::vector<std::string>{"a", "b"}));
}

struct Branch {
    std::string name;
    std::vector<Branch> children;
};

TEST(Structured, ListOfRecursiveStructs_IsRead) {
    FauxProvider faux;
    const Json list = parse_json(R"([{"name":"a","children":[{"name":"b","children":[]}]}])");
    faux.set_responses({calling({answer_call({{"value", list}})})});
    const auto branches = ask<std::vector<Branch>>(faux.model());
    EXPECT_EQ(branches.attempts, 1);
    EXPECT_EQ(branches->at(0).children.at(0).name, "b");
}

TEST(Structured, NativeFormat_HandlesReferencesAndOptionalFields) {
    Native native;
    native.faux.set_responses({R"({"place":{"city":"Oslo","country":null}})"});
    StructuredOptions options = StructuredOptions().schema(parse_json(
        R"({"type":"object","properties":{"place":{"$ref":"#/$defs/Place"}},"required":["place"],
            "$defs":{"Place":{"type":"object","required":["city"],
                "properties":{"city":{"type":"string"},"country":{"type":"string"}}}}})"));
    const auto value = ask<Json>(native.model, std::move(options));
    EXPECT_EQ(*value, parse_json(R"({"place":{"city":"Oslo"}})"));
    EXPECT_EQ(value.attempts, 1);
}

TEST(Structured, CustomSchema_IsValidated) {
    FauxProvider faux;
    faux.set_responses({calling({answer_call({{"n", 7}})}), calling({answer_call({{"n", 3}})})});
    StructuredOptions options = StructuredOptions().schema(parse_json(
        R"({"type":"object","properties":{"n":{"type":"integer","maximum":5}},"required":["n"]})"));
    const auto value = ask<Json>(faux.model(), std::move(options));
    EXPECT_EQ(value->at("n"), Json(3));
    EXPECT_EQ(value.attempts, 2);
}

TEST(Structured, D1_ToolCallRetry_IsLegalAndNamesIssues) {
    FauxProvider faux;
    MessageList second;
    faux.set_responses({calling({answer_call({{"celsius", "warm"}}, "c1"), answer_call({}, "c2"),
                                 faux_tool_call("other", {}, "c3")}),
                        FauxStep([&second](const ModelRequest& request) {
                            second = request.messages;
                            return calling({answer_call({{"city", "Oslo"}, {"celsius", 3}}, "c4")});
                        })});
    const auto weather = ask(faux.model());
    EXPECT_EQ(weather->city, "Oslo");
    ASSERT_EQ(second.size(), 5u);
    EXPECT_EQ(second[2].tool_result()->tool_call_id, "c1");
    EXPECT_TRUE(second[2].tool_result()->is_error);
    EXPECT_NE(second[2].text().find("- city: field required"), std::string::npos)
        << second[2].text();
    EXPECT_NE(second[2].text().find("- celsius: "), std::string::npos);
    EXPECT_EQ(second[3].tool_result()->tool_call_id, "c2");
    EXPECT_EQ(second[4].tool_result()->tool_call_id, "c3");
    EXPECT_EQ(weather.exchange.size(), 6u);
}

TEST(Structured, D1_TextRetry_IsLegal) {
    Native native;
    native.faux.set_responses(
        {"I think it is warm.", R"({"city":"Oslo","celsius":3,"remark":"cold"})"});
    const auto weather = ask(native.model);
    EXPECT_EQ(weather->remark, "cold");
    const MessageList& second = native.provider->requests.at(1).messages;
    ASSERT_EQ(second.size(), 3u);
    EXPECT_TRUE(is_synthetic_message(second[2]));
    EXPECT_EQ(second[2].metadata().find("synthetic_source")->get_string(),
              "structured_output_retry");
}

TEST(Structured, ValueAsText_IsAccepted) {
    FauxProvider faux;
    faux.set_responses({"Here it is:\n```json\n{\"city\": \"Oslo\", \"celsius\": 3}\n```"});
    EXPECT_EQ(ask(faux.model())->city, "Oslo");
}

TEST(Structured, AnswerWithoutCall_IsRetried) {
    FauxProvider faux;
    faux.set_responses({"It is warm.", calling({answer_call({{"city", "Oslo"}})})});
    EXPECT_EQ(ask(faux.model()).attempts, 2);
}

TEST(Structured, Usage_SumsAllAttempts) {
    FauxOptions options;
    options.prompt_cache = false;
    FauxProvider faux(options);
    AssistantMessage first = faux_assistant_message("no");
    faux.set_responses({first, calling({answer_call({{"city", "Oslo"}})})});
    const auto weather = ask(faux.model());
    EXPECT_GT(*weather.usage.output_tokens, *weather.message.usage->output_tokens);
}

TEST(Structured, NoValidAnswer_FailsWithTheIssues) {
    FauxProvider faux;
    faux.set_responses({calling({answer_call({{"celsius", 1}})}),
                        calling({answer_call({{"celsius", 2}})}),
                        calling({answer_call({{"celsius", 3}})})});
    const StructuredOutputError error =
        failure_of(faux.model(), StructuredOptions().max_retries(2));
    EXPECT_EQ(error.failure(), StructuredFailure::invalid);
    EXPECT_EQ(error.code(), ErrorCode::validation);
    EXPECT_EQ(error.attempts(), 3);
    ASSERT_EQ(error.issues().size(), 1u);
    EXPECT_EQ(error.issues()[0].path, "city");
    EXPECT_EQ(error.text(), R"({"celsius":3})");
    EXPECT_STREQ(
        error.what(),
        "No structured output 'structured_output': after 3 attempts the answer still does not "
        "fit:\n- city: field required");
}

TEST(Structured, ProviderError_IsInTheException) {
    FauxProvider faux;
    ErrorInfo info;
    info.code = ErrorCode::rate_limited;
    info.retry_after = 7;
    AssistantMessage broken = faux_assistant_message(R"({"city":)", "error", "slow down");
    broken.error = SharedValue<ErrorInfo>(info);
    faux.set_responses({broken});
    const StructuredOutputError error = failure_of(faux.model());
    EXPECT_EQ(error.failure(), StructuredFailure::provider);
    EXPECT_EQ(error.code(), ErrorCode::rate_limited);
    EXPECT_NE(dynamic_cast<const RateLimited*>(error.provider_error()), nullptr);
    EXPECT_EQ(error.provider_error()->info().retry_after, 7);
    EXPECT_EQ(error.text(), R"({"city":)");
    EXPECT_NE(std::string(error.what()).find("slow down"), std::string::npos);
    EXPECT_EQ(faux.call_count(), 1u);
}

TEST(Structured, Refusal_HasItsOwnFailure) {
    FauxProvider faux;
    TextContent refusal;
    refusal.text = "I cannot help with that.";
    refusal.extra["refusal"] = true;
    faux.set_responses({faux_assistant_message(refusal), faux_assistant_message("", "refusal"),
                        faux_assistant_message("", "content_filter")});
    for (int i = 0; i < 3; ++i) {
        const StructuredOutputError error = failure_of(faux.model());
        EXPECT_EQ(error.failure(), StructuredFailure::refused);
        EXPECT_EQ(error.code(), ErrorCode::content_filtered);
        EXPECT_EQ(error.attempts(), 1);
        if (i == 0) {
            EXPECT_EQ(error.text(), "I cannot help with that.");
        }
    }
}

TEST(Structured, TruncatedAnswer_HasItsOwnFailure) {
    FauxProvider faux;
    ToolCall cut = answer_call({});
    cut.extra["raw_arguments"] = R"({"city":"Os)";
    faux.set_responses({faux_assistant_message(cut, stop_reason::length)});
    const StructuredOutputError error = failure_of(faux.model());
    EXPECT_EQ(error.failure(), StructuredFailure::cut_off);
    EXPECT_EQ(error.code(), ErrorCode::limit);
    EXPECT_EQ(error.text(), R"({"city":"Os)");
}

TEST(Structured, D87_AnswerEndedByServer_IsFinal) {
    for (const char* reason : {"model_context_window_exceeded", "abort", "length"}) {
        SCOPED_TRACE(reason);
        FauxProvider faux;
        ToolCall cut = answer_call({});
        cut.extra["raw_arguments"] = R"({"city":"Os)";
        faux.set_responses(
            {faux_assistant_message(cut, reason), faux_assistant_message("Os", reason)});
        const StructuredOutputError error = failure_of(faux.model());
        EXPECT_EQ(error.failure(), StructuredFailure::cut_off);
        EXPECT_EQ(error.attempts(), 1);
        EXPECT_EQ(failure_of(faux.model()).attempts(), 1);
        faux.set_responses({faux_assistant_message(answer_call({{"city", "Os"}}), reason)});
        EXPECT_EQ(failure_of(faux.model()).failure(), StructuredFailure::cut_off);
    }
}

TEST(Structured, D7_Abort_IsACancellation) {
    FauxProvider faux;
    std::stop_source stop;
    stop.request_stop();
    const StructuredOutputError error = failure_of(
        faux.model(), StructuredOptions().call(StreamOptions().stop_token(stop.get_token())));
    EXPECT_EQ(error.failure(), StructuredFailure::aborted);
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
}

TEST(Structured, FallbackChain_ReturnsTheValue) {
    FauxProvider first;
    FauxProvider second;
    ErrorInfo info;
    info.code = ErrorCode::unavailable;
    first.set_responses({faux_failure("down", info)});
    second.set_responses({calling({answer_call({{"city", "Oslo"}})})});
    EXPECT_EQ(ask(FallbackBoundModel({first.model("a"), second.model("b")}))->city, "Oslo");
}

// Requests on the wire.

MemoryResponse chat_answer(const std::string& text) {
    JsonObject delta;
    delta["content"] = text;
    JsonObject choice;
    choice["delta"] = delta;
    choice["finish_reason"] = "stop";
    JsonObject chunk;
    chunk["id"] = "r";
    chunk["choices"] = JsonArray{choice};
    return MemoryResponse(200)
        .with_header("content-type", "text/event-stream")
        .with_event(boost::json::serialize(chunk))
        .with_event("[DONE]");
}

TEST(Structured, OpenAIChat_ReceivesAResponseFormat) {
    auto transport = std::make_shared<MemoryTransport>([](const HttpRequest&) {
        return chat_answer(R"({"city":"Oslo","celsius":3,"remark":null})");
    });
    auto runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
    OpenAIProvider openai({.api_key = "k"});
    StructuredOptions options =
        StructuredOptions().name("weather").call(StreamOptions().runtime(runtime));
    EXPECT_EQ(ask(openai.model("gpt-5.1"), std::move(options))->city, "Oslo");
    const Json body = parse_json(transport->requests().at(0).body);
    EXPECT_EQ(body.at("response_format"), parse_json(R"({"type":"json_schema","json_schema":{
        "name":"weather","description":"The answer, in the requested form.","strict":true,
        "schema":{"type":"object","properties":{"city":{"type":"string"},
            "celsius":{"type":"number","description":"Default: 0.0."},
            "remark":{"anyOf":[{"type":"string"},{"type":"null"}]}},
            "required":["city","celsius","remark"],"additionalProperties":false}}})"));
    EXPECT_FALSE(body.get_object().contains("tools"));
}

TEST(Structured, ResponseFormatSupport_DependsOnModelAndEndpoint) {
    const auto takes = [](const BoundModel& model) {
        return model.provider()->takes_response_format(model.spec());
    };
    OpenAIProvider openai({.api_key = "k"});
    EXPECT_TRUE(takes(openai.model("gpt-5.1")));
    EXPECT_TRUE(takes(openai.model("gpt-4o")));
    EXPECT_FALSE(takes(openai.model("gpt-4-turbo")));
    EXPECT_FALSE(takes(openai.model("gpt-3.5-turbo")));
    OpenAIProvider local({.base_url = "http://localhost:8000/v1"});
    EXPECT_FALSE(takes(local.model("qwen")));
    OpenAIOptions told;
    told.base_url = "http://localhost:8000/v1";
    told.capability.response_format = true;
    EXPECT_TRUE(takes(OpenAIProvider(told).model("qwen")));
    EXPECT_FALSE(takes(FallbackBoundModel({openai.model("gpt-5.1"), local.model("qwen")})));
    AnthropicProvider claude({.api_key = "k"});
    EXPECT_TRUE(takes(claude.model("claude-sonnet-4-5")));
    EXPECT_FALSE(takes(claude.model("claude-3-5-haiku-latest")));
}

}  // namespace
}  // namespace cubepi
