// A value that `redact` changes or drops under its key is recorded nowhere else (D102).

#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/testing/memory_transport.hpp>
#include <cubepi/tracing/recorder/content.hpp>
#include <cubepi/tracing/traced_test.hpp>

namespace cubepi {
namespace {

using testing::MemoryResponse;
using testing::MemoryTransport;
using namespace tracing_test;

/// Drops the values of one key.
TracerOptions dropping(std::string key) {
    TracerOptions options;
    options.record_content = true;
    options.redact = [key](std::string_view of, Json value) -> std::optional<Json> {
        if (of == key) return std::nullopt;
        return value;
    };
    return options;
}

std::string recorded_in(const SpanBatch& spans) {
    std::string all;
    for (const auto& span : spans) {
        all += span->name.str() + " " + span->status_description + "\n";
        for (const Attribute& one : span->attributes)
            all += std::string(one.key.text()) + "=" + text(*span, one.key.text()) + "\n";
        for (const SpanEvent& event : span->events) {
            const AttributeValue* message = event.attributes.find("exception.message");
            if (message) all += std::string(message->if_text().value_or("")) + "\n";
        }
    }
    return all;
}

struct Lookup {
    std::string word;
    int number = 0;
    std::vector<std::string> list;
};

constexpr const char* system_word = "sys-quebec";
constexpr const char* prompt_word = "prompt-\"tango\"\nlima";
constexpr const char* argument_word = "arg-\xC3\xBC-victor";
constexpr const char* result_word = "result-\\ yankee\nx";
constexpr const char* answer_word = "answer-zulu";

/// Each word, by the key of its value. Some are found in escaped form only, so a part without escapes is looked for.
const std::map<std::string, std::string> words{{"gen_ai.system_instructions", "quebec"},
                                               {"gen_ai.input.messages", "lima"},
                                               {"gen_ai.tool.call.arguments", "victor"},
                                               {"gen_ai.tool.call.result", "yankee"},
                                               {"gen_ai.output.messages", "zulu"}};

// The events of the two wires: a call of the tool, or a text.

std::vector<std::string> chat_call(const Json& arguments) {
    const Json call(JsonObject{
        {"index", 0},
        {"id", "c1"},
        {"function", JsonObject{{"name", "look"}, {"arguments", json_text(arguments)}}}});
    const auto chunk = [](JsonObject delta, Json finish) {
        return json_text(JsonObject{
            {"id", "r"},
            {"choices",
             JsonArray{JsonObject{{"index", 0}, {"delta", delta}, {"finish_reason", finish}}}}});
    };
    return {chunk({{"tool_calls", JsonArray{call}}}, nullptr), chunk({}, "tool_calls")};
}

std::vector<std::string> chat_text(const std::string& text) {
    return {json_text(
        JsonObject{{"id", "r"},
                   {"choices", JsonArray{JsonObject{{"index", 0},
                                                    {"delta", JsonObject{{"content", text}}},
                                                    {"finish_reason", "stop"}}}}})};
}

std::vector<std::string> messages_call(const Json& arguments) {
    return {
        R"({"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{}}})",
        R"({"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c1","name":"look","input":{}}})",
        json_text(JsonObject{{"type", "content_block_delta"},
                             {"index", 0},
                             {"delta", JsonObject{{"type", "input_json_delta"},
                                                  {"partial_json", json_text(arguments)}}}}),
        R"({"type":"content_block_stop","index":0})",
        R"({"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{}})",
        R"({"type":"message_stop"})"};
}

std::vector<std::string> messages_text(const std::string& text) {
    return {
        R"({"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{}}})",
        R"({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})",
        json_text(JsonObject{{"type", "content_block_delta"},
                             {"index", 0},
                             {"delta", JsonObject{{"type", "text_delta"}, {"text", text}}}}),
        R"({"type":"content_block_stop","index":0})",
        R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{}})",
        R"({"type":"message_stop"})"};
}

MemoryResponse stream_of(const std::vector<std::string>& events) {
    MemoryResponse response(200);
    for (const std::string& event : events) (void)std::move(response).with_event(event);
    return response;
}

Json look_arguments() {
    return JsonObject{{"word", argument_word},
                      {"number", 47114711},
                      {"list", JsonArray{std::string(argument_word) + " 2", "name"}}};
}

class Redaction : public ::testing::TestWithParam<bool> {
protected:
    BoundModel model() const {
        if (GetParam()) return AnthropicProvider({.api_key = "k"}).model("m");
        return OpenAIProvider({.api_key = "k"}).model("m");
    }
    MemoryResponse call() const {
        return stream_of(GetParam() ? messages_call(look_arguments())
                                    : chat_call(look_arguments()));
    }
    MemoryResponse text(const std::string& text) const {
        return stream_of(GetParam() ? messages_text(text) : chat_text(text));
    }
};

INSTANTIATE_TEST_SUITE_P(Wires, Redaction, ::testing::Bool());

TEST_P(Redaction, D102_DroppedValue_IsRecordedNowhere) {
    for (const auto& [dropped, hidden] : words) {
        Traced it(dropping(dropped));
        std::vector<MemoryResponse> script;
        script.push_back(call());
        script.push_back(
            text("It says: " + std::string(result_word) + ". You asked " + prompt_word + "."));
        script.push_back(text(answer_word));
        auto transport = std::make_shared<MemoryTransport>(std::move(script));
        AgentOptions options;
        options.model = model();
        options.system_prompt = system_word;
        options.runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
        options.tools = {
            tool<Lookup>("look", "Looks.", [](Lookup) { return std::string(result_word); })};
        Agent agent(std::move(options));
        const TraceAttachment attachment = it.tracer->attach(agent);
        EXPECT_TRUE(run(agent.prompt(prompt_word)));
        EXPECT_EQ(run(agent.prompt("more")).text(), answer_word);
        const std::string all = recorded_in(it.spans());
        for (const auto& [key, word] : words) {
            const bool found = all.find(word) != std::string::npos;
            EXPECT_EQ(found, key != dropped) << word << " without " << dropped << "\n" << all;
        }
        EXPECT_EQ(all.find("47114711") == std::string::npos,
                  dropped == "gen_ai.tool.call.arguments")
            << all;
        EXPECT_NE(all.find("cubepi.llm.raw_request="), std::string::npos);
        EXPECT_NE(all.find("cubepi.llm.raw_response="), std::string::npos);
        EXPECT_EQ(it.tracer->recording_losses().redacted_values, 0u);
    }
}

TEST_P(Redaction, D102_ChangedValue_IsChangedEverywhere) {
    TracerOptions tracing;
    tracing.record_content = true;
    tracing.redact = [](std::string_view key, Json value) -> std::optional<Json> {
        if (key == "gen_ai.tool.call.arguments") value.as_object()["word"] = "a word";
        if (key == "gen_ai.tool.call.result")
            value.at("content").as_array()[0].as_object()["text"] = "a result";
        return value;
    };
    Traced it(std::move(tracing));
    std::vector<MemoryResponse> script;
    script.push_back(call());
    script.push_back(text("done"));
    auto transport = std::make_shared<MemoryTransport>(std::move(script));
    AgentOptions options;
    options.model = model();
    options.runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
    options.tools = {
        tool<Lookup>("look", "Looks.", [](Lookup) { return std::string(result_word); })};
    Agent agent(std::move(options));
    const TraceAttachment attachment = it.tracer->attach(agent);
    EXPECT_TRUE(run(agent.prompt("go")));
    const std::string request =
        tracing_test::text(*it.spans("chat m").back(), "cubepi.llm.raw_request");
    EXPECT_EQ(request.find("yankee"), std::string::npos) << request;
    EXPECT_NE(request.find("a result"), std::string::npos) << request;
    EXPECT_NE(request.find("a word"), std::string::npos) << request;
    EXPECT_NE(request.find("47114711"), std::string::npos) << request;
}

TEST(NestedRedaction, D102_SubAgent_RecordsNeitherPromptNorResult) {
    for (const char* dropped : {"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"}) {
        Traced it(dropping(dropped));
        FauxProvider faux =
            answering({faux_assistant_message(faux_tool_call("ask", {{"prompt", "count victor"}}),
                                              stop_reason::tool_use),
                       "done"});
        FauxProvider inner_faux = answering({"it is yankee"});
        struct Ask {
            std::string prompt;
        };
        AgentTool ask =
            tool<Ask>("ask", "Asks.", [&](Ask args, ToolContext& context) -> Task<std::string> {
                Agent inner({.model = inner_faux.model("inner")});
                const TraceAttachment attachment = it.tracer->attach(inner);
                PromptOptions prompt = PromptOptions().parent(context);
                Task<RunResult> running = inner.prompt("Task: " + args.prompt, std::move(prompt));
                const RunResult result = co_await std::move(running);
                co_return "It answered: " + result.text();
            });
        Agent agent({.model = faux.model("m"), .tools = {ask}});
        const TraceAttachment attachment = it.tracer->attach(agent);
        run(agent.prompt("go"));
        const std::string all = recorded_in(it.spans());
        const bool arguments = dropped == std::string("gen_ai.tool.call.arguments");
        EXPECT_EQ(all.find("victor") == std::string::npos, arguments) << all;
        EXPECT_EQ(all.find("yankee") == std::string::npos, !arguments) << all;
    }
}

TEST(NestedRedaction, D102_QuestionsAndBlockedCalls_AreRedacted) {
    for (const char* decision : {"edit", "deny"}) {
        for (const char* dropped : {"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"}) {
            Traced it(dropping(dropped));
            struct Remove {
                std::string path;
            };
            FauxProvider faux = answering(
                {faux_assistant_message(faux_tool_call("rm", {{"path", "/tmp/victor"}}, "c1"),
                                        stop_reason::tool_use),
                 "done"});
            auto channel = std::make_shared<InMemoryChannel>();
            Agent agent({.model = faux.model("m"),
                         .tools = {tool<Remove>("rm", "Removes.",
                                                [](Remove) { return "removed, yankee"; })},
                         .middleware = {ConfirmToolCallMiddleware(channel)},
                         .channel = channel});
            const ScopedSubscription answers =
                agent.subscribe([&](const AgentEvent& event) -> Task<> {
                    const auto* asked = event.get_if<HitlRequestEvent>();
                    if (!asked) co_return;
                    JsonObject answer;
                    answer["decision"] = decision;
                    if (decision == std::string("edit"))
                        answer["edited_args"] = JsonObject{{"path", "/tmp/victor/2"}};
                    else
                        answer["reason"] = "because yankee";
                    std::string id = asked->request.question_id;
                    co_await channel->answer(std::move(id), std::move(answer));
                });
            const TraceAttachment attachment = it.tracer->attach(agent);
            run(agent.prompt("go"));
            const std::string all = recorded_in(it.spans());
            const bool arguments = dropped == std::string("gen_ai.tool.call.arguments");
            EXPECT_EQ(all.find("victor") == std::string::npos, arguments) << all;
            EXPECT_EQ(all.find("yankee") == std::string::npos, !arguments) << all;
        }
    }
}

TEST(NestedRedaction, D102_StreamFile_HasNoDroppedArguments) {
    const ScopedTestDirectory directory;
    TracerOptions options = dropping("gen_ai.tool.call.arguments");
    options.stream_directory = directory.path();
    Traced it(std::move(options));
    FauxProvider faux =
        answering({faux_assistant_message(faux_tool_call("look", look_arguments().as_object()),
                                          stop_reason::tool_use),
                   "done"});
    Agent agent({.model = faux.model("m"),
                 .tools = {tool<Lookup>("look", "Looks.", [](Lookup) { return "seen"; })}});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi", PromptOptions().run_id("r1")));
    EXPECT_TRUE(it.tracer->force_flush());
    std::stringstream lines;
    lines << std::ifstream(directory.path() / "r1.stream.jsonl").rdbuf();
    EXPECT_NE(lines.str().find("toolcall_end"), std::string::npos);
    EXPECT_EQ(lines.str().find("victor"), std::string::npos) << lines.str();
}

TEST(Redactions, NotedTexts_AreReplacedInAnyForm) {
    detail::Redactions redactions;
    const Json arguments(JsonObject{{"path", "/home/\xC3\xBC \"q\""}, {"n", 5}, {"short", "abc"}});
    redactions.note(arguments, nullptr, true);
    const auto replaced = [&](Json value) {
        EXPECT_TRUE(redactions.apply(value));
        return json_text(value);
    };
    EXPECT_EQ(replaced(JsonArray{arguments, json_text(arguments)}),
              R"(["[redacted]","\"[redacted]\""])");
    EXPECT_EQ(replaced("see /home/\xC3\xBC \"q\" there"), R"("see [redacted] there")");
    EXPECT_EQ(replaced(R"({"cut": "/home/\u00fc \"q\", )"), R"("{\"cut\": \"[redacted], ")");
    redactions.note(Json("read"), nullptr, true);
    EXPECT_EQ(replaced("already read, <read>"), R"("already [redacted], <[redacted]>")");
    EXPECT_EQ(replaced("abc"), R"("[redacted]")");
    EXPECT_EQ(replaced("abcd"), R"("abcd")") << "too short to be looked for in other words";
    EXPECT_EQ(replaced(JsonObject{{"role", "abc"}, {"text", "abc"}}),
              R"({"role":"abc","text":"[redacted]"})");
}

TEST(Redactions, TooManyValues_RecordNothing) {
    detail::Redactions redactions;
    const std::string large(detail::Redactions::max_bytes, 'x');
    redactions.note(Json(large), nullptr, true);
    redactions.note(Json(large + "y"), nullptr, true);
    Json other("other");
    EXPECT_FALSE(redactions.apply(other));
}

}  // namespace
}  // namespace cubepi
