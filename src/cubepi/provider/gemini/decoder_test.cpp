#include <cubepi/provider/gemini/generate_api.hpp>

#include <gtest/gtest.h>

#include <cubepi/provider/wire/decoder_test_support.hpp>

namespace cubepi::detail {
namespace {

std::string chunk(const std::string& parts, const std::string& more = {}) {
    return R"(data: {"candidates": [{"content": {"role": "model", "parts": [)" + parts + "]}" +
           more + R"(}], "modelVersion": "gemini-3.8-flash-001", "responseId": "r1"})" + "\r\n\r\n";
}
std::string last(const std::string& parts, const std::string& reason = "STOP") {
    return R"(data: {"candidates": [{"content": {"role": "model", "parts": [)" + parts +
           R"(]}, "finishReason": ")" + reason +
           R"(", "index": 0}], "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 5,)"
           R"( "thoughtsTokenCount": 3, "cachedContentTokenCount": 4, "totalTokenCount": 20}})" +
           "\r\n\r\n";
}

Decoded decode(const std::string& body, std::size_t cut = 0) {
    return decode_with<GeminiDecoder>(body, cut);
}

TEST(GeminiDecoder, AnySplit_ReturnsTheSameMessage) {
    const std::string body =
        chunk(R"({"text": "h\u00e4", "thought": true})") + chunk(R"({"text": "tw\ud83d\ude00"})") +
        chunk(R"({"text": "o"})") +
        last(R"({"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "Eq/="})");
    const Decoded whole = decode(body);
    EXPECT_EQ(whole.spelled(),
              "start thinking_start thinking_delta(hä) thinking_end text_start text_delta(tw😀) "
              "text_delta(o) text_end toolcall_start toolcall_delta({\"a\":1}) toolcall_end done");
    EXPECT_EQ(whole.message.stop_reason, "tool_use");
    EXPECT_EQ(whole.message.response_id, "r1");
    EXPECT_EQ(whole.details.model, "gemini-3.8-flash-001");
    EXPECT_EQ(whole.details.finish_reason, "STOP");
    for (std::size_t cut = 1; cut < body.size(); ++cut) {
        const Decoded split = decode(body, cut);
        ASSERT_EQ(split.spelled(), whole.spelled()) << cut;
        ASSERT_EQ(split.message, whole.message) << cut;
    }
}

TEST(GeminiDecoder, D12_Usage_CountsTheUncachedPromptAndThoughts) {
    const Usage usage = *decode(last(R"({"text": "x"})")).message.usage;
    EXPECT_EQ(*usage.input_tokens, 8);
    EXPECT_EQ(*usage.cache_read_tokens, 4);
    EXPECT_EQ(*usage.output_tokens, 8);
    EXPECT_EQ(*usage.reasoning_tokens, 3);
    EXPECT_FALSE(decode(R"(data: {"candidates": [{"finishReason": "STOP"}]})"
                        "\n\n")
                     .message.usage);
}

TEST(GeminiDecoder, HugeNumbersOfTokens_AreLimited) {
    const std::string most = "9223372036854775807";
    const Usage usage =
        *decode(
             R"(data: {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": )" +
             most + R"(, "toolUsePromptTokenCount": )" + most +
             R"(, "cachedContentTokenCount": -)" + most + R"(, "candidatesTokenCount": )" + most +
             R"(, "thoughtsTokenCount": )" + most + "}}\n\n")
             .message.usage;
    EXPECT_EQ(*usage.input_tokens, TokenCount::most);
    EXPECT_FALSE(usage.cache_read_tokens);
    EXPECT_EQ(*usage.output_tokens, TokenCount::most);
    EXPECT_EQ(*usage.reasoning_tokens, TokenCount::most);
}

TEST(GeminiDecoder, D13_Signature_EndsItsBlock) {
    const Decoded it =
        decode(chunk(R"({"text": "a"})") + chunk(R"({"text": "", "thoughtSignature": "s1"})") +
               last(R"({"text": "b"})"));
    EXPECT_EQ(it.spelled(),
              "start text_start text_delta(a) text_end text_start text_delta(b) text_end done");
    EXPECT_EQ(*it.block<TextContent>(0).extra.find(gemini_members_key),
              Json(JsonObject{{"thoughtSignature", "s1"}}));
    EXPECT_TRUE(it.block<TextContent>(1).extra.empty());
}

TEST(GeminiDecoder, D13_SignatureWithoutText_IsStoredWithTheMessage) {
    const Decoded it = decode(chunk(R"({"functionCall": {"name": "f"}})") +
                              last(R"({"text": "", "thoughtSignature": "s"})"));
    EXPECT_EQ(
        *it.message.extra.find(gemini_parts_key),
        boost::json::parse(R"([{"before": 1, "part": {"thoughtSignature": "s", "text": ""}}])"));
}

TEST(GeminiDecoder, D88_UnknownPartsAndMembers_AreStored) {
    const Decoded it = decode(
        chunk(R"({"executableCode": {"language": "PYTHON", "code": "1"}})") +
        last(R"({"functionCall": {"id": "c1", "name": "f", "args": {}, "new": 1}, "other": [2]})"));
    EXPECT_EQ(it.message.extra.find(gemini_parts_key)->at_pointer("/0/part/executableCode/code"),
              Json("1"));
    const ToolCall& call = it.block<ToolCall>(0);
    EXPECT_EQ(call.id, "c1");
    EXPECT_EQ(*call.extra.find(gemini_call_id_key), Json("c1"));
    EXPECT_EQ(*call.extra.find(gemini_members_key),
              boost::json::parse(R"({"other": [2], "functionCall": {"new": 1}})"));
}

TEST(GeminiDecoder, RepeatedAndMissingIds_BecomeUnique) {
    const Decoded it = decode(chunk(R"({"functionCall": {"id": "c", "name": "f", "args": {}}})") +
                              chunk(R"({"functionCall": {"id": "c", "name": "f", "args": {}}})") +
                              last(R"({"functionCall": {"name": "f", "args": {}}})"));
    EXPECT_EQ(it.block<ToolCall>(0).id, "c");
    EXPECT_NE(it.block<ToolCall>(1).id, "c");
    EXPECT_NE(it.block<ToolCall>(2).id, it.block<ToolCall>(1).id);
}

TEST(GeminiDecoder, Image_BecomesABlock) {
    const Decoded it = decode(last(R"({"inlineData": {"mimeType": "image/png", "data": "aGk="}})"));
    EXPECT_EQ(it.block<ImageContent>(0).source, "aGk=");
    EXPECT_EQ(it.block<ImageContent>(0).media_type, "image/png");
}

TEST(GeminiDecoder, D87_FinishReasons_AreReported) {
    EXPECT_EQ(decode(last(R"({"text": "x"})", "MAX_TOKENS")).message.stop_reason, "length");
    EXPECT_EQ(decode(last(R"({"text": "x"})", "SAFETY")).message.stop_reason, "SAFETY");
    EXPECT_EQ(decode(last("", "MALFORMED_FUNCTION_CALL")).message.stop_reason,
              "MALFORMED_FUNCTION_CALL");
}

TEST(GeminiDecoder, StopOfFirstChunk_MayBeRepeated) {
    MessageAssembler assembler{AssistantMessage()};
    testing::SequentialIds ids("id");
    GeminiDecoder decoder(assembler, ids);
    EventQueue queue;
    const auto feed = [&](const std::string& parts) {
        decoder.decode({},
                       R"({"candidates": [{"content": {"parts": [)" + parts +
                           R"(]}, "finishReason": "STOP"}]})",
                       queue);
        return decoder.complete();
    };
    EXPECT_FALSE(feed(""));
    EXPECT_FALSE(feed(R"({"text": "a"})"));
    EXPECT_FALSE(feed(R"({"text": "b"})"));
    EXPECT_TRUE(feed(""));
    decoder.finish(queue);
    EXPECT_EQ(assembler.message().text(), "ab");
}

TEST(GeminiDecoder, BlockedPrompt_IsARefusal) {
    const Decoded it = decode(
        R"(data: {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 4}})"
        "\n\n");
    EXPECT_EQ(it.spelled(), "start done");
    EXPECT_TRUE(it.message.is_refusal());
    EXPECT_EQ(it.details.finish_reason, "PROHIBITED_CONTENT");
}

TEST(GeminiDecoder, ArrayOfChunks_IsRead) {
    MessageAssembler assembler{AssistantMessage()};
    testing::SequentialIds ids("id");
    GeminiDecoder decoder(assembler, ids);
    EventQueue queue;
    decoder.decode({}, R"([{"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]},
                           {"candidates": [{"finishReason": "STOP"}]}])",
                   queue);
    EXPECT_TRUE(decoder.complete());
    decoder.finish(queue);
    EXPECT_EQ(assembler.message().text(), "Hi");
}

TEST(GeminiDecoder, Error_IsAFailureOfTheEndpoint) {
    const Decoded it = decode(
        R"(data: {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}})"
        "\n\n");
    EXPECT_EQ(it.failure, "The model is overloaded.");
}

TEST(GeminiDecoder, D3_EndWithoutReason_IsAFailure) {
    EXPECT_EQ(decode(chunk(R"({"text": "Hal"})")).failure,
              "the answer ended without a finishReason; it is incomplete");
    EXPECT_EQ(decode("").failure, "the answer ended before it began");
    EXPECT_NE(decode("data: [1]\n\n").failure.find("not JSON"), std::string::npos);
}

}  // namespace
}  // namespace cubepi::detail
