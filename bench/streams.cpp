#include "streams.hpp"

#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>

namespace cubepi::bench {

namespace {

std::vector<std::string> chat_payloads(int deltas) {
    const std::string head =
        R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m",)"
        R"("service_tier":"default","system_fingerprint":"fp_1",)";
    std::vector<std::string> all;
    all.push_back(
        head +
        R"("choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]})");
    for (int i = 0; i < deltas; ++i) {
        all.push_back(head + R"("choices":[{"index":0,"delta":{"content":" word)" +
                      std::to_string(i) + R"("},"logprobs":null,"finish_reason":null}]})");
    }
    all.push_back(head + R"("choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})");
    return all;
}

std::vector<std::string> responses_payloads(int deltas) {
    std::string text;
    for (int i = 0; i < deltas; ++i) text += " word" + std::to_string(i);
    const std::string item =
        R"({"id":"msg_1","type":"message","status":"completed","role":"assistant","content":)"
        R"([{"type":"output_text","annotations":[],"logprobs":[],"text":")" +
        text + R"("}]})";
    std::vector<std::string> all;
    all.push_back(R"({"type":"response.created","sequence_number":0,"response":{"id":"resp_1",)"
                  R"("object":"response","status":"in_progress","error":null,"output":[]}})");
    all.push_back(
        R"({"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":)"
        R"({"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}})");
    for (int i = 0; i < deltas; ++i) {
        const std::string number = std::to_string(i);
        all.push_back(R"({"type":"response.output_text.delta","sequence_number":)" + number +
                      R"(,"item_id":"msg_1","output_index":0,"content_index":0,"delta":" word)" +
                      number + R"(","logprobs":[],"obfuscation":"m3FZq1x0"})");
    }
    all.push_back(
        R"({"type":"response.output_item.done","sequence_number":2002,"output_index":0,"item":)" +
        item + "}");
    all.push_back(
        R"({"type":"response.completed","sequence_number":2003,"response":{"id":"resp_1",)"
        R"("object":"response","status":"completed","error":null,"incomplete_details":null,)"
        R"("output":[)" +
        item + R"(],"usage":{"input_tokens":10,"output_tokens":4000}}})");
    return all;
}

std::vector<std::string> anthropic_payloads(int deltas) {
    std::vector<std::string> all;
    all.push_back(
        R"({"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant",)"
        R"("model":"m","content":[],"stop_reason":null,"stop_sequence":null,)"
        R"("usage":{"input_tokens":12,"output_tokens":1}}})");
    all.push_back(
        R"({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})");
    for (int i = 0; i < deltas; ++i) {
        all.push_back(
            R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word)" +
            std::to_string(i) + R"("}})");
    }
    all.push_back(R"({"type":"content_block_stop","index":0})");
    all.push_back(
        R"({"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},)"
        R"("usage":{"output_tokens":4000}})");
    all.push_back(R"({"type":"message_stop"})");
    return all;
}

/// The first "type" of a payload, which is its first member.
std::string type_of(const std::string& payload) {
    const std::size_t begin = payload.find(R"("type":")") + 8;
    return payload.substr(begin, payload.find('"', begin) - begin);
}

}  // namespace

std::vector<std::string> payloads(Wire wire, int deltas) {
    switch (wire) {
        case Wire::chat: return chat_payloads(deltas);
        case Wire::responses: return responses_payloads(deltas);
        case Wire::anthropic: break;
    }
    return anthropic_payloads(deltas);
}

std::string framed(Wire wire, const std::string& payload) {
    const std::string data = "data: " + payload + "\n\n";
    return wire == Wire::chat ? data : "event: " + type_of(payload) + "\n" + data;
}

std::string body_of(Wire wire, int deltas) {
    std::string body;
    for (const std::string& payload : payloads(wire, deltas)) body += framed(wire, payload);
    if (wire == Wire::chat) body += "data: [DONE]\n\n";
    return body;
}

BoundModel model_at(Wire wire, const std::string& url) {
    if (wire == Wire::chat)
        return OpenAIProvider({.api_key = "k", .base_url = url + "/v1"}).model("m");
    if (wire == Wire::responses)
        return OpenAIResponsesProvider({.api_key = "k", .base_url = url + "/v1"}).model("m");
    Model model;
    model.id = "m";
    model.max_tokens = 4096;
    return AnthropicProvider({.api_key = "k", .base_url = url}).model(model);
}

void report_deltas(benchmark::State& state, std::size_t seen, std::size_t allocated, int deltas) {
    state.counters["ns_per_delta"] = benchmark::Counter(
        static_cast<double>(seen) / 1e9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
    state.counters["allocations_per_delta"] = static_cast<double>(allocated) / deltas;
}

}  // namespace cubepi::bench
