#include <cubepi/provider/anthropic/messages_api.hpp>

#include <gtest/gtest.h>

#include <cubepi/provider/wire/decoder_test_support.hpp>

namespace cubepi::detail {
namespace {

std::string event(const std::string& type, const std::string& members = {}) {
    return "event: " + type + "\ndata: {\"type\": \"" + type + "\"" +
           (members.empty() ? "" : ", " + members) + "}\n\n";
}
const std::string begin =
    event("message_start",
          R"("message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [],)"
          R"( "stop_reason": null, "usage": {"input_tokens": 12, "output_tokens": 1}})");
std::string start(int index, const std::string& block) {
    return event("content_block_start",
                 "\"index\": " + std::to_string(index) + ", \"content_block\": " + block);
}
std::string delta(int index, const std::string& members) {
    return event("content_block_delta",
                 "\"index\": " + std::to_string(index) + ", \"delta\": {" + members + "}");
}
std::string text(int index, const std::string& piece) {
    return delta(index, R"("type": "text_delta", "text": ")" + piece + "\"");
}
std::string arguments(int index, const std::string& piece) {
    return delta(index, R"("type": "input_json_delta", "partial_json": ")" + piece + "\"");
}
std::string stop(int index) {
    return event("content_block_stop", "\"index\": " + std::to_string(index));
}
std::string end(const std::string& reason, const std::string& more = {}) {
    return event("message_delta", R"("delta": {"stop_reason": ")" + reason + "\"" + more +
                                      R"(}, "usage": {"output_tokens": 7})") +
           event("message_stop");
}
const std::string text_block = R"({"type": "text", "text": ""})";
const std::string thinking_block = R"({"type": "thinking", "thinking": "", "signature": ""})";
std::string call_block(const std::string& id, const std::string& name,
                       const std::string& input = "{}") {
    return R"({"type": "tool_use", "id": ")" + id + R"(", "name": ")" + name + R"(", "input": )" +
           input + "}";
}

Decoded decode(const std::string& body, std::size_t cut = 0) {
    return decode_with<AnthropicDecoder>(body, cut);
}

TEST(AnthropicDecoder, AnySplit_ReturnsTheSameMessage) {
    const std::string body =
        begin + event("ping") + start(0, thinking_block) +
        delta(0, R"("type": "thinking_delta", "thinking": "h\u00e4")") +
        delta(0, R"("type": "signature_delta", "signature": "EqQB")") + stop(0) +
        start(1, text_block) + text(1, "tw\\ud83d\\ude00o \xf0\x9f\x98\x80") + ": comment\r\n\r\n" +
        stop(1) + start(2, call_block("c1", "add")) + arguments(2, R"({\"a\")") +
        arguments(2, ": 1}") + stop(2) + end("tool_use");
    const Decoded whole = decode(body);
    EXPECT_EQ(whole.spelled(),
              "start thinking_start thinking_delta(hä) thinking_end text_start "
              "text_delta(tw😀o 😀) text_end toolcall_start toolcall_delta({\"a\") "
              "toolcall_delta(: 1}) toolcall_end done");
    for (std::size_t cut = 1; cut < body.size(); ++cut) {
        const Decoded split = decode(body, cut);
        ASSERT_EQ(split.spelled(), whole.spelled()) << cut;
        ASSERT_EQ(split.message, whole.message) << cut;
    }
}

TEST(AnthropicDecoder, D13_SignaturesAndRedactedThinking_AreStored) {
    const Decoded it = decode(
        begin + start(0, R"({"type": "redacted_thinking", "data": "EmwK/+="})") + stop(0) +
        start(1, thinking_block) + delta(1, R"("type": "thinking_delta", "thinking": "Hm")") +
        delta(1, R"("type": "signature_delta", "signature": "Eq/+\u003d")") + stop(1) +
        start(2, text_block) + text(2, "Ok") + stop(2) + end("end_turn"));
    EXPECT_EQ(it.spelled(),
              "start thinking_start thinking_end thinking_start thinking_delta(Hm) thinking_end "
              "text_start text_delta(Ok) text_end done");
    EXPECT_EQ(*it.block<ThinkingContent>(0).extra.find("redacted_data"), Json("EmwK/+="));
    EXPECT_EQ(it.block<ThinkingContent>(0).thinking, "");
    EXPECT_EQ(*it.block<ThinkingContent>(1).extra.find("signature"), Json("Eq/+="));
    // A block's place is its index, whatever stands in front.
    EXPECT_EQ(it.events[6].content_index, 2);
}

TEST(AnthropicDecoder, D13_HiddenThinking_KeepsItsSignature) {
    const Decoded it = decode(begin + start(0, thinking_block) +
                              delta(0, R"("type": "signature_delta", "signature": "sig")") +
                              stop(0) + start(1, text_block) + text(1, "Ok") + end("end_turn"));
    EXPECT_EQ(*it.block<ThinkingContent>(0).extra.find("signature"), Json("sig"));
    EXPECT_EQ(it.message.text(), "Ok");
}

TEST(AnthropicDecoder, InterleavedBlocks_StaySeparate) {
    const Decoded it = decode(begin + start(0, call_block("a", "f")) + start(1, text_block) +
                              start(2, call_block("b", "g")) + arguments(0, R"({\"x\":)") +
                              arguments(2, R"({\"y\":)") + text(1, "t") + arguments(0, "1}") +
                              stop(1) + arguments(2, "2}") + stop(0) + stop(2) + end("tool_use"));
    const auto calls = it.message.tool_calls();
    ASSERT_EQ(calls.size(), 2u);
    EXPECT_EQ(calls[0]->arguments, JsonObject({{"x", 1}}));
    EXPECT_EQ(calls[1]->arguments, JsonObject({{"y", 2}}));
    EXPECT_EQ(it.block<TextContent>(1).text, "t");
}

TEST(AnthropicDecoder, EndpointDetails_AreRetained) {
    const Decoded it = decode(
        event("message_start", R"("message": {"id": "m", "model": "claude-sonnet-4-5-20250929"})") +
        end("max_tokens"));
    EXPECT_EQ(it.details.model, "claude-sonnet-4-5-20250929");
    EXPECT_EQ(it.details.finish_reason, "max_tokens");
    EXPECT_EQ(it.details.api_type, "");
}

TEST(AnthropicDecoder, D12_Usage_IncludesTheCache) {
    const Decoded it = decode(
        event(
            "message_start",
            R"("message": {"id": "m", "usage": {"input_tokens": 5, "output_tokens": 1,)"
            R"( "cache_read_input_tokens": 2048, "cache_creation_input_tokens": 512,)"
            R"( "cache_creation": {"ephemeral_5m_input_tokens": 12, "ephemeral_1h_input_tokens": 500}}})") +
        event("message_delta",
              R"("delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 42,)"
              R"( "input_tokens": null, "output_tokens_details": {"thinking_tokens": 30}})"));
    const Usage& usage = *it.message.usage;
    EXPECT_EQ(*usage.input_tokens, 5);
    EXPECT_EQ(*usage.output_tokens, 42);
    EXPECT_EQ(*usage.cache_read_tokens, 2048);
    EXPECT_EQ(*usage.cache_write_tokens, 512);
    EXPECT_EQ(*usage.cache_write_1h_tokens, 500);
    EXPECT_EQ(*usage.reasoning_tokens, 30);
}

TEST(AnthropicDecoder, D12_UnreportedUsage_IsAbsent) {
    const Decoded it = decode(event("message_start", R"("message": {"id": "m"})") +
                              event("message_delta", R"("delta": {"stop_reason": "end_turn"})"));
    EXPECT_FALSE(it.message.usage);
    const Decoded late = decode(event("message_start", R"("message": {"id": "m", "usage": {}})") +
                                event("message_delta", R"("delta": {"stop_reason": "end_turn"}, )"
                                                       R"("usage": {"input_tokens": 3})"));
    EXPECT_EQ(*late.message.usage->input_tokens, 3);
    EXPECT_FALSE(late.message.usage->output_tokens);
}

TEST(AnthropicDecoder, StopReasons_AreMapped) {
    const std::vector<std::pair<std::string, std::string>> reasons{
        {"end_turn", "stop"},
        {"tool_use", "tool_use"},
        {"max_tokens", "length"},
        {"stop_sequence", "stop_sequence"},
        {"pause_turn", "pause_turn"},
        {"refusal", "refusal"},
        {"model_context_window_exceeded", "model_context_window_exceeded"},
        {"compaction", "compaction"}};
    for (const auto& [wire, ours] : reasons)
        EXPECT_EQ(decode(begin + end(wire)).message.stop_reason, ours);
    const Decoded it = decode(begin + end("stop_sequence", R"(, "stop_sequence": "END")"));
    EXPECT_EQ(*it.message.extra.find("stop_sequence"), Json("END"));
    const Decoded refused =
        decode(begin + end("refusal", R"(, "stop_details": {"category": "cyber"})"));
    EXPECT_EQ(refused.message.extra.find("stop_details")->at("category"), Json("cyber"));
}

TEST(AnthropicDecoder, D4_IncompleteArguments_AreStoredAsRawArguments) {
    const Decoded it = decode(begin + start(0, call_block("a", "f")) +
                              arguments(0, R"({\"x\": 1, \"y\": )") + stop(0) + end("max_tokens"));
    const ToolCall& call = *it.message.tool_calls()[0];
    EXPECT_TRUE(call.arguments.empty());
    EXPECT_EQ(*call.extra.find("raw_arguments"), Json("{\"x\": 1, \"y\": "));
    EXPECT_EQ(it.message.stop_reason, "length");
}

TEST(AnthropicDecoder, OpenBlocks_EndWithTheAnswer) {
    const Decoded it =
        decode(begin + start(0, text_block) + text(0, "a") + start(1, call_block("c", "f")) +
               arguments(1, "{}") + end("tool_use"));
    EXPECT_EQ(it.spelled(),
              "start text_start text_delta(a) toolcall_start toolcall_delta({}) text_end "
              "toolcall_end done");
}

TEST(AnthropicDecoder, OmittedEventsAndIndices_AreAccepted) {
    // No message_start, no content_block_start, no indices, no types but in the event's name.
    const Decoded it = decode(
        "event: content_block_delta\ndata: {\"delta\":{\"type\":\"text_delta\",\"text\":"
        "\"Hi\"}}\n\nevent: message_delta\ndata: {\"delta\":{\"stop_reason\":\"end_turn\"}}"
        "\n\ndata: [DONE]\n\n");
    EXPECT_EQ(it.spelled(), "start text_start text_delta(Hi) text_end done");
}

TEST(AnthropicDecoder, ContentInStartEvent_IsRetained) {
    const Decoded it =
        decode(begin + start(0, R"({"type": "text", "text": "Hello"})") + stop(0) +
               start(1, call_block("c", "f", R"({"a": {"b": 1}})")) + stop(1) + end("tool_use"));
    EXPECT_EQ(it.spelled(),
              "start text_start text_delta(Hello) text_end toolcall_start "
              "toolcall_delta({\"a\":{\"b\":1}}) toolcall_end done");
    EXPECT_EQ(it.message.tool_calls()[0]->arguments.at("a").at("b"), Json(1));
}

TEST(AnthropicDecoder, MissingAndEqualCallIds_BecomeUnique) {
    const Decoded it =
        decode(begin + start(0, call_block("", "f")) + start(1, call_block("c", "f")) +
               start(2, call_block("c", "f")) + end("tool_use"));
    const auto calls = it.message.tool_calls();
    EXPECT_FALSE(calls[0]->id.empty());
    EXPECT_EQ(calls[1]->id, "c");
    EXPECT_NE(calls[2]->id, "c");
}

TEST(AnthropicDecoder, D13_BlocksOfServerTools_KeepTheirPlace) {
    const Decoded it = decode(
        begin + start(0, text_block) + text(0, "Searching.") + stop(0) +
        start(1,
              R"({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}})") +
        arguments(1, R"({\"query\":)") + arguments(1, R"(\"x\"})") + stop(1) +
        start(
            2,
            R"({"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"e": "enc"}]})") +
        stop(2) + start(3, R"({"type": "text", "text": "", "citations": []})") + text(3, "Found.") +
        delta(3, R"("type": "citations_delta", "citation": {"url": "u", "encrypted_index": "E"})") +
        stop(3) + end("pause_turn"));
    EXPECT_EQ(it.spelled(),
              "start text_start text_delta(Searching.) text_end text_start text_delta(Found.) "
              "text_end done");
    EXPECT_EQ(*it.message.extra.find("anthropic_blocks"), boost::json::parse(R"([
        {"before": 1, "block": {"type": "server_tool_use", "id": "srv_1", "name": "web_search",
                                "input": {"query": "x"}}},
        {"before": 1, "block": {"type": "web_search_tool_result", "tool_use_id": "srv_1",
                                "content": [{"e": "enc"}]}}])"));
    EXPECT_EQ(*it.block<TextContent>(1).extra.find("citations"),
              boost::json::parse(R"([{"url": "u", "encrypted_index": "E"}])"));
}

TEST(AnthropicDecoder, DeltasOfUnknownKinds_ChangeTheirBlock) {
    const Decoded it =
        decode(begin + start(0, R"({"type": "compaction", "content": null})") +
               delta(0, R"("type": "compaction_delta", "content": "Sum")") +
               delta(0, R"("type": "compaction_delta", "content": "mary")") + stop(0) +
               start(1, text_block) + delta(1, R"("type": "future_delta", "x": 1)") +
               text(1, "Ok") + stop(1) + event("future_event") + end("end_turn"));
    EXPECT_EQ(it.message.text(), "Ok");
    EXPECT_EQ(it.message.extra.find("anthropic_blocks")->at_pointer("/0/block/content"),
              Json("Summary"));
}

TEST(AnthropicDecoder, NonStreamedAnswer_IsRead) {
    const Decoded it = decode(
        "data: {\"type\":\"message\",\"id\":\"m\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
        "\"Hm\",\"signature\":\"s\"},{\"type\":\"text\",\"text\":\"Hi\"},{\"type\":\"tool_use\","
        "\"id\":\"c\",\"name\":\"f\",\"input\":{\"a\":1}}],\"stop_reason\":\"tool_use\","
        "\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}\n\n");
    EXPECT_EQ(it.message.stop_reason, "tool_use");
    EXPECT_EQ(it.message.response_id, "m");
    EXPECT_EQ(*it.block<ThinkingContent>(0).extra.find("signature"), Json("s"));
    EXPECT_EQ(it.message.text(), "Hi");
    EXPECT_EQ(it.message.tool_calls()[0]->arguments, JsonObject({{"a", 1}}));
    EXPECT_EQ(*it.message.usage->output_tokens, 4);
    const Decoded plain =
        decode("data: {\"type\":\"message\",\"content\":\"ok\",\"stop_reason\":\"end_turn\"}\n\n");
    EXPECT_EQ(plain.message.text(), "ok");
}

TEST(AnthropicDecoder, EndWithoutStopReason_IsAnError) {
    for (const std::string& last : {std::string(), event("message_stop")}) {
        const Decoded it = decode(begin + start(0, text_block) + text(0, "Half") + last);
        EXPECT_EQ(it.spelled(), "start text_start text_delta(Half) error");
        EXPECT_EQ(it.message.text(), "Half");
        EXPECT_EQ(it.message.response_id, "");
        EXPECT_EQ(*it.message.usage->input_tokens, 12);
    }
    EXPECT_EQ(decode("").spelled(), "error");
}

TEST(AnthropicDecoder, D9_ErrorInStream_KeepsTheText) {
    const std::string failure = R"("error": {"type": "overloaded_error", "message": "Overloaded"})";
    const Decoded it =
        decode(begin + start(0, text_block) + text(0, "Hal") + event("error", failure));
    EXPECT_EQ(it.message.text(), "Hal");
    EXPECT_EQ(it.events.back().error_message(), "Overloaded");
    // A gateway's, in an event of another name.
    const Decoded gateway = decode(begin + "data: {\"error\": {\"message\": \"upstream\"}}\n\n");
    EXPECT_EQ(gateway.events.back().error_message(), "upstream");
}

TEST(AnthropicDecoder, HalfCharactersAndInvalidUtf8_AreReplaced) {
    const Decoded it =
        decode(begin + start(0, text_block) + text(0, "a\\ud83d") + text(0, "\\ude00b") +
               text(0, "c\xff") + text(0, "d\\ud83d") + stop(0) + end("end_turn"));
    EXPECT_EQ(it.message.text(),
              "a😀bc\xef\xbf\xbd"
              "d\xef\xbf\xbd");
}

TEST(AnthropicDecoder, InvalidJson_IsAProtocolError) {
    EXPECT_EQ(decode("data: <html>\n\n").events.back().error_message(),
              "the endpoint sent something that is not JSON: <html>");
    EXPECT_EQ(decode("data: [1]\n\n").spelled(), "error");
}

TEST(AnthropicDecoder, StopReason_EndsTheMessage) {
    const Decoded it = decode(begin + start(0, text_block) + text(0, "a") + end("end_turn") +
                              text(0, "b") + start(1, text_block) + end("refusal"));
    EXPECT_EQ(it.message.text(), "a");
    EXPECT_EQ(it.message.stop_reason, "stop");
}

}  // namespace
}  // namespace cubepi::detail
