#include "failure_scripts.hpp"

#include <memory>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/gemini.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>
#include <cubepi/schema/parse_json.hpp>

#include "wire_cases.hpp"

namespace cubepi::wire {
namespace {

std::string event(const std::string& type, const std::string& members) {
    return "event: " + type + "\ndata: {\"type\":\"" + type + "\"" +
           (members.empty() ? "" : "," + members) + "}\n\n";
}

std::string chunk_of(const std::string& delta, const std::string& finish = "null") {
    return R"(data: {"id":"chat_1","object":"chat.completion.chunk","choices":[{"index":0,"delta":)" +
           delta + R"(,"finish_reason":)" + finish + "}]}\n\n";
}

std::string anthropic_until(Phase phase) {
    std::string sent;
    if (phase >= Phase::before_content) {
        sent += event(
            "message_start",
            R"("message":{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":9,"output_tokens":1}})");
    }
    if (phase >= Phase::mid_text) {
        sent +=
            event("content_block_start", R"("index":0,"content_block":{"type":"text","text":""})") +
            event("content_block_delta",
                  R"("index":0,"delta":{"type":"text_delta","text":"Let me see."})");
    }
    if (phase >= Phase::mid_arguments) {
        sent +=
            event("content_block_stop", R"("index":0)") +
            event(
                "content_block_start",
                R"("index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"add","input":{}})") +
            event("content_block_delta",
                  R"("index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"})");
    }
    if (phase >= Phase::at_end) {
        sent += event("content_block_delta",
                      R"("index":1,"delta":{"type":"input_json_delta","partial_json":" 1}"})") +
                event("content_block_stop", R"("index":1)") +
                event("message_delta",
                      R"("delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7})");
    }
    return sent;
}

std::string chat_until(Phase phase) {
    std::string sent;
    if (phase >= Phase::before_content) sent += chunk_of(R"({"role":"assistant","content":""})");
    if (phase >= Phase::mid_text) sent += chunk_of(R"({"content":"Let me see."})");
    if (phase >= Phase::mid_arguments) {
        sent += chunk_of(
            R"({"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"a\":"}}]})");
    }
    if (phase >= Phase::at_end) {
        sent += chunk_of(R"({"tool_calls":[{"index":0,"function":{"arguments":" 1}"}}]})") +
                chunk_of("{}", R"("tool_calls")");
    }
    return sent;
}

std::string responses_until(Phase phase) {
    const std::string message =
        R"("item":{"id":"msg_1","type":"message","role":"assistant","content":)";
    const std::string call =
        R"("output_index":1,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"add","arguments":)";
    std::string sent;
    if (phase >= Phase::before_content) {
        sent += event("response.created",
                      R"("response":{"id":"resp_1","status":"in_progress","error":null})");
    }
    if (phase >= Phase::mid_text) {
        sent += event("response.output_item.added", "\"output_index\":0," + message + "[]}") +
                event("response.output_text.delta",
                      R"("item_id":"msg_1","output_index":0,"delta":"Let me see.")");
    }
    if (phase >= Phase::mid_arguments) {
        sent += event("response.output_item.done",
                      "\"output_index\":0," + message +
                          R"([{"type":"output_text","text":"Let me see.","annotations":[]}]})") +
                event("response.output_item.added", call + "\"\"}") +
                event("response.function_call_arguments.delta",
                      R"("item_id":"fc_1","output_index":1,"delta":"{\"a\":")");
    }
    if (phase >= Phase::at_end) {
        sent += event("response.function_call_arguments.delta",
                      R"("item_id":"fc_1","output_index":1,"delta":" 1}")") +
                event("response.output_item.done", call + R"("{\"a\": 1}"})");
    }
    return sent;
}

std::string parts_of(const std::string& parts, const std::string& more = {}) {
    return R"(data: {"responseId":"r_1","candidates":[{"index":0,"content":{"role":"model","parts":[)" +
           parts + "]}" + more + "}]}\n\n";
}

std::string gemini_until(Phase phase) {
    std::string sent;
    if (phase >= Phase::before_content) {
        sent +=
            R"(data: {"responseId":"r_1","modelVersion":"m-1","usageMetadata":{"promptTokenCount":9}})"
            "\n\n";
    }
    if (phase >= Phase::mid_text) sent += parts_of(R"({"text":"Let me see."})");
    if (phase >= Phase::at_end)
        sent += parts_of(R"({"functionCall":{"name":"add","args":{"a":1}}})");
    return sent;
}

template <class P, class Options>
BoundModel made(std::string base_url, const TableTimeouts& timeouts) {
    Options options;
    options.api_key = table_key;
    options.base_url = std::move(base_url);
    options.connect_timeout = timeouts.connect;
    options.first_byte_timeout = timeouts.first_byte;
    options.idle_timeout = timeouts.idle;
    options.total_timeout = timeouts.total;
    return P(std::move(options)).model("m-1");
}

using Ids = std::multiset<std::string>;

void expect_object(const std::string& arguments) {
    JsonTextError error;
    const Json value = parse_json(arguments, error);
    EXPECT_TRUE(!error && value.is_object()) << arguments;
}

void expect_legal_anthropic(const JsonArray& messages) {
    Ids open;
    for (const Json& message : messages) {
        Ids results;
        Ids calls;
        const Json& content = message.at("content");
        if (content.is_array()) {
            EXPECT_FALSE(content.get_array().empty());
            for (const Json& block : content.get_array()) {
                const std::string type = text_of(block, "type");
                if (type == "tool_result") results.insert(text_of(block, "tool_use_id"));
                if (type != "tool_use") continue;
                calls.insert(text_of(block, "id"));
                EXPECT_TRUE(block.at("input").is_object());
            }
        }
        EXPECT_EQ(results, open);
        open = calls;
    }
    EXPECT_TRUE(open.empty());
    EXPECT_EQ(text_of(messages.back(), "role"), "user");
}

void expect_legal_chat(const JsonArray& messages) {
    Ids open;
    for (const Json& message : messages) {
        if (text_of(message, "role") == "tool") {
            const auto answered = open.find(text_of(message, "tool_call_id"));
            ASSERT_NE(answered, open.end()) << "a result without its call";
            open.erase(answered);
            continue;
        }
        EXPECT_TRUE(open.empty()) << "a message between a call and its result";
        const Json* calls = member(message, "tool_calls");
        if (!calls) continue;
        for (const Json& call : calls->as_array()) {
            open.insert(text_of(call, "id"));
            expect_object(text_of(call.at("function"), "arguments"));
        }
    }
    EXPECT_TRUE(open.empty());
}

void expect_legal_responses(const JsonArray& items) {
    Ids open;
    for (const Json& item : items) {
        const std::string type = text_of(item, "type");
        if (type == "function_call") {
            open.insert(text_of(item, "call_id"));
            expect_object(text_of(item, "arguments"));
        } else if (type == "function_call_output") {
            const auto answered = open.find(text_of(item, "call_id"));
            ASSERT_NE(answered, open.end()) << "a result without its call";
            open.erase(answered);
        } else {
            EXPECT_TRUE(open.empty()) << "something between a call and its result";
        }
    }
    EXPECT_TRUE(open.empty());
}

void expect_legal_gemini(const JsonArray& contents) {
    Ids open;
    for (const Json& content : contents) {
        Ids results;
        Ids calls;
        EXPECT_FALSE(content.at("parts").as_array().empty());
        for (const Json& part : content.at("parts").as_array()) {
            if (const Json* response = member(part, "functionResponse"))
                results.insert(text_of(*response, "name"));
            const Json* call = member(part, "functionCall");
            if (!call) continue;
            calls.insert(text_of(*call, "name"));
            EXPECT_TRUE(call->at("args").is_object());
        }
        EXPECT_EQ(results, open);
        open = calls;
    }
    EXPECT_TRUE(open.empty());
    EXPECT_EQ(text_of(contents.back(), "role"), "user");
}

}  // namespace

const char* name_of(Format format) {
    switch (format) {
        case Format::anthropic: return "Anthropic";
        case Format::chat: return "Chat";
        case Format::responses: return "Responses";
        case Format::gemini: return "Gemini";
    }
    return "";
}

const char* name_of(Phase phase) {
    switch (phase) {
        case Phase::before_headers: return "BeforeHeaders";
        case Phase::after_headers: return "AfterHeaders";
        case Phase::before_content: return "BeforeContent";
        case Phase::mid_text: return "MidText";
        case Phase::mid_arguments: return "MidArguments";
        case Phase::at_end: return "AtEnd";
    }
    return "";
}

BoundModel model_at(Format format, const std::string& host_url, const TableTimeouts& timeouts) {
    switch (format) {
        case Format::anthropic:
            return made<AnthropicProvider, AnthropicOptions>(host_url, timeouts);
        case Format::chat: return made<OpenAIProvider, OpenAIOptions>(host_url + "/v1", timeouts);
        case Format::gemini: return made<GeminiProvider, GeminiOptions>(host_url, timeouts);
        case Format::responses: break;
    }
    return made<OpenAIResponsesProvider, OpenAIResponsesOptions>(host_url + "/v1", timeouts);
}

std::string events_until(Format format, Phase phase) {
    switch (format) {
        case Format::anthropic: return anthropic_until(phase);
        case Format::chat: return chat_until(phase);
        case Format::gemini: return gemini_until(phase);
        case Format::responses: break;
    }
    return responses_until(phase);
}

std::string whole_answer(Format format) {
    switch (format) {
        case Format::anthropic:
            return anthropic_until(Phase::before_content) +
                   event("content_block_start",
                         R"("index":0,"content_block":{"type":"text","text":""})") +
                   event("content_block_delta",
                         R"("index":0,"delta":{"type":"text_delta","text":"Fine."})") +
                   event("content_block_stop", R"("index":0)") +
                   event("message_delta", R"("delta":{"stop_reason":"end_turn"})") +
                   event("message_stop", "");
        case Format::chat:
            return chunk_of(R"({"content":"Fine."})") + chunk_of("{}", R"("stop")") +
                   "data: [DONE]\n\n";
        case Format::gemini: return parts_of(R"({"text":"Fine."})", R"(,"finishReason":"STOP")");
        case Format::responses: break;
    }
    const std::string item =
        R"({"id":"msg_9","type":"message","role":"assistant","content":[{"type":"output_text","text":"Fine.","annotations":[]}]})";
    return responses_until(Phase::before_content) +
           event("response.output_item.done", R"("output_index":0,"item":)" + item) +
           event("response.completed",
                 R"("response":{"id":"resp_1","status":"completed","error":null,"output":[)" +
                     item + "]}");
}

std::string error_event(Format format, bool overload) {
    const std::string words = overload ? R"("message":"Busy, come again")" : R"("message":"No")";
    switch (format) {
        case Format::anthropic:
            return event("error", std::string(R"("error":{"type":")") +
                                      (overload ? "overloaded_error" : "invalid_request_error") +
                                      "\"," + words + "}");
        case Format::chat:
            return std::string(R"(data: {"error":{"type":")") +
                   (overload ? "server_error" : "invalid_request_error") + "\"," + words + "}}\n\n";
        case Format::gemini:
            return std::string(R"(data: {"error":{)") +
                   (overload ? R"("code":503,"status":"UNAVAILABLE",)"
                             : R"("code":400,"status":"INVALID_ARGUMENT",)") +
                   words + "}}\n\n";
        case Format::responses: break;
    }
    if (!overload) return event("error", R"("code":"invalid_request_error",)" + words);
    return event("response.failed",
                 R"("response":{"id":"resp_1","status":"failed","error":{"code":"server_error",)" +
                     words + "}}");
}

std::string cut_event(Format format) {
    switch (format) {
        case Format::anthropic:
            return R"(data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" More)"
                   "\n\n";
        case Format::chat:
            return R"(data: {"id":"chat_1","choices":[{"index":0,"delta":{"content":" More)"
                   "\n\n";
        case Format::gemini:
            return R"(data: {"candidates":[{"content":{"parts":[{"text":" More)"
                   "\n\n";
        case Format::responses: break;
    }
    return R"(data: {"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"delta":" More)"
           "\n\n";
}

std::string error_body(Format format, int status) {
    const std::string error =
        status == 404 ? R"({"type":"not_found_error","message":"The model m-1 does not exist"})"
                      : R"({"type":"some_error","message":"Refused"})";
    if (format == Format::anthropic) return R"({"type":"error","error":)" + error + "}";
    if (format == Format::gemini)
        return R"({"error":{"code":)" + std::to_string(status) + R"(,"status":")" +
               (status == 404
                    ? R"(NOT_FOUND","message":"models/m-1 is not found for API version v1beta"}})"
                    : R"(SOME_ERROR","message":"Refused"}})");
    return R"({"error":)" + error + "}";
}

bool is_whole_at_end(Format format) {
    return format == Format::anthropic || format == Format::chat;
}
bool splits_calls(Format format) { return format != Format::gemini; }
bool ends_calls(Format format) { return format != Format::chat; }

void expect_legal_request(Format format, const std::string& body) {
    SCOPED_TRACE(body);
    const Json sent = parse_json(body);
    switch (format) {
        case Format::anthropic: expect_legal_anthropic(sent.at("messages").as_array()); break;
        case Format::chat: expect_legal_chat(sent.at("messages").as_array()); break;
        case Format::responses: expect_legal_responses(sent.at("input").as_array()); break;
        case Format::gemini: expect_legal_gemini(sent.at("contents").as_array()); break;
    }
}

}  // namespace cubepi::wire
