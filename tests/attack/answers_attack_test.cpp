// Answers of a hostile endpoint.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/ids.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/net/sse_decoder.hpp>
#include <cubepi/provider/anthropic/messages_api.hpp>
#include <cubepi/provider/message_assembler.hpp>
#include <cubepi/provider/openai/chat_api.hpp>
#include <cubepi/provider/openai/responses_api.hpp>

#include "attack.hpp"

namespace cubepi::attack {

namespace {

enum class Wire { chat, responses, messages };
constexpr Wire wires[] = {Wire::chat, Wire::responses, Wire::messages};

std::unique_ptr<detail::WireDecoder> decoder_of(Wire wire, MessageAssembler& answer,
                                                IdSource& ids) {
    if (wire == Wire::chat) return std::make_unique<detail::OpenAIChatDecoder>(answer, ids, false);
    if (wire == Wire::responses)
        return std::make_unique<detail::OpenAIResponsesDecoder>(answer, ids);
    return std::make_unique<detail::AnthropicDecoder>(answer, ids);
}

/// The result of an answer: its final message, and whether all events of the endpoint were read.
struct Outcome {
    AssistantMessage message;
    bool read_all = true;
};

/// Decodes events until `next` returns none, or until they end the answer.
Outcome decode(Wire wire, std::size_t limit, const std::function<std::string()>& next) {
    MessageAssembler answer{AssistantMessage(), limit};
    cubepi::testing::SequentialIds ids;
    const std::unique_ptr<detail::WireDecoder> decoder = decoder_of(wire, answer, ids);
    detail::EventQueue queue;
    Outcome outcome;
    try {
        while (!decoder->over()) {
            const std::string data = next();
            if (data.empty()) break;
            decoder->decode("", data, queue);
            while (!queue.empty()) (void)queue.pop();
        }
        decoder->finish(queue);
    } catch (...) {
        outcome.read_all = false;
        queue.push(answer.error(std::current_exception()));
    }
    StreamEvent last;
    while (!queue.empty()) last = queue.pop();
    outcome.message = last.partial.get();
    return outcome;
}

/// `first`, then `again` forever. N in it is a growing number.
struct Growing {
    Wire wire;
    const char* about;
    std::string first;
    std::string again;
};

std::string delta(const std::string& fields) {
    return R"({"choices":[{"index":0,"delta":{)" + fields + "}}]}";
}

std::string block_start(const std::string& block) {
    return R"({"type":"content_block_start","index":0,"content_block":{)" + block + "}}";
}

std::string block_delta(const std::string& fields) {
    return R"({"type":"content_block_delta","index":0,"delta":{)" + fields + "}}";
}

std::string response(const std::string& type, const std::string& fields) {
    return R"({"type":"response.)" + type + R"(",)" + fields + "}";
}

std::vector<Growing> growing() {
    const std::string x(500, 'x');
    const std::string call =
        delta(R"("tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}])");
    return {
        {Wire::chat, "text", delta(""), delta(R"("content":")" + x + '"')},
        {Wire::chat, "thinking", delta(""), delta(R"("reasoning_content":")" + x + '"')},
        {Wire::chat, "refusal", delta(""), delta(R"("refusal":")" + x + '"')},
        {Wire::chat, "arguments", call,
         delta(R"("tool_calls":[{"index":0,"function":{"arguments":")" + x + R"("}}])")},
        {Wire::chat, "arguments in small pieces", call,
         delta(R"("tool_calls":[{"index":0,"function":{"arguments":" "}}])")},
        {Wire::chat, "reasoning details", delta(""),
         delta(R"("reasoning_details":[{"type":"x","index":N,"data":")" + x + R"("}])")},
        {Wire::chat, "blocks", delta(R"("content":"x")"),
         delta(R"("content":"x","reasoning_content":"y")")},
        {Wire::responses, "text", response("output_text.delta", R"("output_index":0,"delta":"x")"),
         response("output_text.delta", R"("output_index":0,"delta":")" + x + '"')},
        {Wire::responses, "thinking",
         response("reasoning_text.delta", R"("output_index":0,"delta":"x")"),
         response("reasoning_text.delta", R"("output_index":0,"delta":")" + x + '"')},
        {Wire::responses, "refusal", response("refusal.delta", R"("output_index":0,"delta":"x")"),
         response("refusal.delta", R"("output_index":0,"delta":")" + x + '"')},
        {Wire::responses, "arguments",
         response("function_call_arguments.delta", R"("output_index":0,"delta":"{")"),
         response("function_call_arguments.delta", R"("output_index":0,"delta":")" + x + '"')},
        {Wire::responses, "items of the server",
         response("output_text.delta", R"("output_index":0,"delta":"x")"),
         response(
             "output_item.done",
             R"("output_index":N,"item":{"type":"web_search_call","id":"wN","x":")" + x + "\"}")},
        {Wire::responses, "items without an end",
         response("output_text.delta", R"("output_index":0,"delta":"x")"),
         response("output_item.added", R"("output_index":N,"item":{"type":"message"})")},
        {Wire::responses, "unknown items",
         response("output_text.delta", R"("output_index":0,"delta":"x")"),
         response("output_item.done", R"("output_index":N,"item":{"type":"x"})")},
        {Wire::responses, "annotations",
         response("output_text.delta", R"("output_index":0,"delta":"x")"),
         response(
             "output_item.done",
             R"("output_index":N,"item":{"type":"message","content":[{"type":"output_text","text":"","annotations":[{"x":")" +
                 x + "\"}]}]}")},
        {Wire::messages, "text", block_start(R"("type":"text","text":"")"),
         block_delta(R"("type":"text_delta","text":")" + x + '"')},
        {Wire::messages, "thinking", block_start(R"("type":"thinking","thinking":"")"),
         block_delta(R"("type":"thinking_delta","thinking":")" + x + '"')},
        {Wire::messages, "arguments",
         block_start(R"("type":"tool_use","id":"c","name":"f","input":{})"),
         block_delta(R"("type":"input_json_delta","partial_json":")" + x + '"')},
        {Wire::messages, "citations", block_start(R"("type":"text","text":"")"),
         block_delta(R"("type":"citations_delta","citation":{"x":")" + x + "\"}")},
        {Wire::messages, "redacted thinking", block_start(R"("type":"text","text":"")"),
         block_start(R"("type":"redacted_thinking","data":")" + x + '"')},
        {Wire::messages, "foreign blocks", block_start(R"("type":"text","text":"")"),
         block_start(R"("type":"server_tool_result","x":")" + x + '"')},
        {Wire::messages, "deltas of a foreign block", block_start(R"("type":"x")"),
         block_delta(R"("type":"x_delta","xN":")" + x + '"')},
        {Wire::messages, "blocks without an end", block_start(R"("type":"text","text":"")"),
         R"({"type":"content_block_start","index":N,"content_block":{"type":"text","text":""}})"},
    };
}

std::string numbered(std::string text, std::size_t number) {
    const std::string digits = std::to_string(number);
    for (std::size_t at = text.find('N'); at != std::string::npos; at = text.find('N', at))
        text.replace(at, 1, digits);
    return text;
}

}  // namespace

TEST(AnswerAttack, FloodOfToolCalls_IsRefused) {
    Row row("answers", "more tool calls than the limit");
    for (const std::size_t more : {1UL, 10UL, 5000UL}) {
        MessageAssembler answer{AssistantMessage()};
        answer.start();
        bool refused = false;
        for (std::size_t i = 0; i < MessageAssembler::max_tool_calls + more && !refused; ++i) {
            try {
                answer.toolcall_start(SharedString(std::to_string(i)), SharedString("read"));
            } catch (const Error& error) {
                refused = error.code() == ErrorCode::too_large;
            }
        }
        row.attempt(refused, std::to_string(more) + " calls more than the limit");
    }
}

TEST(AnswerAttack, EveryPartOfAnAnswer_IsBounded) {
    Row row("answers", "parts of an answer that grow without end");
    constexpr std::size_t limit = std::size_t{2} << 20U;
    // Each of them sends several times the limit unless it is stopped.
    constexpr std::size_t events = 80'000;
    for (const Growing& attack : growing()) {
        std::size_t sent = 0;
        const Outcome outcome = decode(attack.wire, limit, [&]() -> std::string {
            if (++sent > events) return {};
            return sent == 1 ? attack.first : numbered(attack.again, sent);
        });
        const bool ended =
            outcome.message.error && (outcome.message.error->code == ErrorCode::limit ||
                                      outcome.message.error->code == ErrorCode::too_large);
        const bool by_size = ended && outcome.message.error->code == ErrorCode::limit;
        const std::size_t bytes = boost::json::serialize(to_json(Message(outcome.message))).size();
        row.attempt(ended && (!by_size || bytes <= 80 * 1024),
                    std::string(attack.about) + ", " + std::to_string(sent) + " events, " +
                        std::to_string(bytes) +
                        " bytes stored: " + outcome.message.error_message.str());
    }
}

namespace {

/// The events of an answer that calls a tool of this name, which is sent at once, in two pieces, or only at the end.
enum class Way { at_once, in_pieces, at_the_end };

std::vector<std::string> call_events(Wire wire, const std::string& name, Way way) {
    const auto json = [](const std::string& text) { return boost::json::serialize(Json(text)); };
    const std::string first = way == Way::in_pieces ? name.substr(0, name.size() / 2) : name;
    const std::string rest = name.substr(first.size());
    if (wire == Wire::messages) {
        return {R"({"type":"message_start","message":{"id":"m"}})",
                block_start(R"("type":"tool_use","id":"c","input":{},"name":)" + json(name)),
                R"({"type":"content_block_stop","index":0})",
                R"({"type":"message_delta","delta":{"stop_reason":"tool_use"}})",
                R"({"type":"message_stop"})"};
    }
    if (wire == Wire::responses) {
        const std::string early = way == Way::at_the_end ? "read" : name;
        return {
            response("output_item.added",
                     R"("output_index":0,"item":{"type":"function_call","call_id":"c","name":)" +
                         json(early) + "}"),
            response(
                "output_item.done",
                R"("output_index":0,"item":{"type":"function_call","call_id":"c","arguments":"{}","name":)" +
                    json(name) + "}"),
            response("completed", R"("response":{"status":"completed"})")};
    }
    const auto call = [&](const std::string& part) {
        return delta(R"("tool_calls":[{"index":0,"id":"c","function":{"name":)" + json(part) +
                     "}}]");
    };
    std::vector<std::string> events;
    if (way == Way::at_the_end) events.push_back(call(""));
    events.push_back(call(first));
    if (!rest.empty()) events.push_back(call(rest));
    events.push_back(R"({"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]})");
    events.emplace_back("[DONE]");
    return events;
}

bool is_valid_name(std::string_view name) {
    return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-';
    });
}

}  // namespace

TEST(AnswerAttack, OnlyValidToolNames_AreAccepted) {
    Row row("answers", "names of tools with escape sequences and other bytes");
    const std::vector<std::string> names{
        "\x1b]52;c;ZWNobyBoaQ==\x07",
        "\x1b]0;title\x1b\\",
        "\x1b[2J\x1b[H",
        "\x9b"
        "31m",
        "read\r\nAllow? [y/N] y",
        "read\b\b\b\bshell",
        "\xE2\x80\xAE"
        "daer",
        "re\xE2\x80\x8B"
        "ad",
        "functions.read",
        "../../etc/passwd",
        "a b",
        "",
        " ",
        std::string("re\0ad", 5),
        std::string(65, 'a'),
        std::string(200, '\x1b'),
        "r\xC3\xA9"
        "ad",
        "\xEF\xBB\xBF"
        "read",
        "<script>",
        "$(reboot)",
        "`id`",
        "%n%n%n",
    };
    for (const Wire wire : wires) {
        for (const std::string& name : names) {
            for (const Way way : {Way::at_once, Way::in_pieces, Way::at_the_end}) {
                const std::vector<std::string> events = call_events(wire, name, way);
                std::size_t at = 0;
                const Outcome outcome = decode(
                    wire, 0, [&] { return at < events.size() ? events[at++] : std::string(); });
                bool valid = true;
                for (const ToolCall* call : outcome.message.tool_calls())
                    valid = valid && is_valid_name(call->name);
                // An answer whose JSON is not text is refused as a whole.
                const bool some = !outcome.read_all || !outcome.message.tool_calls().empty();
                const std::string stored =
                    boost::json::serialize(to_json(Message(outcome.message)));
                row.attempt(valid && some && stored.find("u001b") == std::string::npos,
                            Json(name).as_string().c_str());
            }
        }
    }
}

}  // namespace cubepi::attack
