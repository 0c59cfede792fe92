#include <cubepi/provider/openai/responses_api.hpp>

#include <gtest/gtest.h>

#include <cubepi/provider/wire/decoder_test_support.hpp>

namespace cubepi::detail {
namespace {

std::string event(const std::string& type, const std::string& members) {
    return "event: " + type + "\ndata: {\"type\":\"" + type + "\"" +
           (members.empty() ? "" : "," + members) + "}\n\n";
}
std::string at(int index, const std::string& id, const std::string& more) {
    return "\"output_index\":" + std::to_string(index) + ",\"item_id\":\"" + id + "\"," + more;
}
std::string delta(const std::string& kind, int index, const std::string& id,
                  const std::string& text) {
    return event("response." + kind + ".delta", at(index, id, "\"delta\":\"" + text + "\""));
}
std::string item(const std::string& what, int index, const std::string& json) {
    return event("response.output_item." + what,
                 "\"output_index\":" + std::to_string(index) + ",\"item\":" + json);
}
std::string message_item(const std::string& id, const std::string& parts = {}) {
    return R"({"id":")" + id + R"(","type":"message","role":"assistant","content":[)" + parts +
           "]}";
}
std::string text_part(const std::string& text) {
    return R"({"type":"output_text","text":")" + text + R"(","annotations":[]})";
}
std::string call_item(const std::string& id, const std::string& call,
                      const std::string& arguments) {
    return R"({"id":")" + id + R"(","type":"function_call","call_id":")" + call +
           R"(","name":"add","arguments":")" + arguments + "\"}";
}

const std::string created =
    event("response.created",
          R"("response":{"id":"resp_1","status":"in_progress","error":null,"output":[]})");
std::string ended(const std::string& type = "completed", const std::string& more = {}) {
    return event("response." + type, R"("response":{"id":"resp_1","status":")" + type +
                                         R"(","error":null)" + more + "}");
}

Decoded decode(const std::string& body, std::size_t cut = 0) {
    return decode_with<OpenAIResponsesDecoder>(body, cut);
}

const TextContent& text_at(const AssistantMessage& message, std::size_t index) {
    return std::get<TextContent>(message.content.at(index));
}

TEST(OpenAIResponsesDecoder, EndpointDetails_AreStored) {
    const Decoded it = decode(
        created + ended("completed", R"(,"model":"gpt-5-2025-08-07","service_tier":"flex")"));
    EXPECT_EQ(it.details.model, "gpt-5-2025-08-07");
    EXPECT_EQ(it.details.service_tier, "flex");
    EXPECT_EQ(it.details.finish_reason, "completed");
    EXPECT_EQ(it.details.api_type, "responses");
}

TEST(OpenAIResponsesDecoder, AnyFragmentation_YieldsTheSameMessage) {
    const std::string reasoning =
        R"({"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Hm\u00e4."}],"encrypted_content":"gAAA=="})";
    const std::string body =
        created + item("added", 0, R"({"id":"rs_1","type":"reasoning","summary":[]})") +
        delta("reasoning_summary_text", 0, "rs_1", "Hm\\u00e4.") +
        event("response.reasoning_summary_part.done", at(0, "rs_1", "\"summary_index\":0")) +
        item("done", 0, reasoning) + ": keep-alive\r\n\r\n" +
        item("added", 1, message_item("msg_1")) +
        delta("output_text", 1, "msg_1", "tw\\ud83d\\ude00o \xf0\x9f\x98\x80") +
        item("done", 1, message_item("msg_1", text_part("tw\\ud83d\\ude00o \xf0\x9f\x98\x80"))) +
        item("added", 2, call_item("fc_1", "c1", "")) +
        delta("function_call_arguments", 2, "fc_1", "{\\\"a\\\"") +
        delta("function_call_arguments", 2, "fc_1", ": 1}") +
        item("done", 2, call_item("fc_1", "c1", "{\\\"a\\\": 1}")) +
        ended("completed", R"(,"usage":{"input_tokens":5,"output_tokens":2})") + "data: [DONE]\n\n";
    const Decoded whole = decode(body);
    EXPECT_EQ(whole.spelled(),
              "start thinking_start thinking_delta(Hm\xc3\xa4.) thinking_delta(\n\n) thinking_end "
              "text_start text_delta(tw\xf0\x9f\x98\x80o \xf0\x9f\x98\x80) text_end "
              "toolcall_start toolcall_delta({\"a\") toolcall_delta(: 1}) toolcall_end done");
    EXPECT_EQ(whole.message.stop_reason, "tool_use");
    EXPECT_EQ(whole.message.response_id, "resp_1");
    EXPECT_EQ(whole.message.usage->input_tokens, 5);
    for (std::size_t cut = 1; cut < body.size(); ++cut) {
        const Decoded split = decode(body, cut);
        ASSERT_EQ(split.spelled(), whole.spelled()) << cut;
        ASSERT_EQ(split.message, whole.message) << cut;
    }
}

TEST(OpenAIResponsesDecoder, D9_StreamCutAnywhere_FailsWithReceivedContent) {
    const std::string body = created + item("added", 0, message_item("msg_1")) +
                             delta("output_text", 0, "msg_1", "One ") +
                             delta("output_text", 0, "msg_1", "two") +
                             item("done", 0, message_item("msg_1", text_part("One two"))) + ended();
    const std::size_t last = body.rfind("event: response.completed");
    for (std::size_t length = 0; length < last; ++length) {
        const Decoded it = decode(body.substr(0, length));
        ASSERT_FALSE(it.failure.empty()) << length;
        ASSERT_TRUE(std::string_view("One two").starts_with(it.message.text())) << length;
        ASSERT_EQ(it.message.stop_reason, "error");
    }
    EXPECT_EQ(decode(body).message.text(), "One two");
}

TEST(OpenAIResponsesDecoder, InterleavedItems_KeepTheirPositions) {
    const Decoded it = decode(created + item("added", 0, call_item("fc_1", "c1", "")) +
                              item("added", 1, message_item("m")) +
                              delta("function_call_arguments", 0, "fc_1", "{\\\"x\\\":") +
                              delta("output_text", 1, "m", "A") +
                              delta("function_call_arguments", 0, "fc_1", "1}") +
                              delta("output_text", 1, "m", "B") +
                              item("done", 0, call_item("fc_1", "c1", "{\\\"x\\\":1}")) +
                              item("done", 1, message_item("m", text_part("AB"))) + ended());
    EXPECT_EQ(it.indexes(),
              "0101"
              "0101");
    ASSERT_EQ(it.message.tool_calls().size(), 1u);
    EXPECT_EQ(it.message.tool_calls()[0]->arguments, JsonObject({{"x", 1}}));
    EXPECT_EQ(it.message.text(), "AB");
}

TEST(OpenAIResponsesDecoder, D13_Reasoning_IsStoredUnchanged) {
    const std::string reasoning =
        R"({"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"A"},)"
        R"({"type":"summary_text","text":"B"}],"encrypted_content":"gAAA==","future":[1.5]})";
    const Decoded it = decode(created + item("added", 0, R"({"id":"rs_1","type":"reasoning"})") +
                              item("done", 0, reasoning) + ended());
    const auto& thinking = std::get<ThinkingContent>(it.message.content.at(0));
    EXPECT_EQ(thinking.thinking, "A\n\nB");
    EXPECT_EQ(*thinking.extra.find("reasoning_item"), boost::json::parse(reasoning));
    EXPECT_EQ(it.spelled(), "start thinking_start thinking_delta(A\n\nB) thinking_end done");
}

TEST(OpenAIResponsesDecoder, RawReasoningText_BecomesThinking) {
    const Decoded it = decode(
        created + item("added", 0, R"({"id":"rs_1","type":"reasoning","summary":[]})") +
        delta("reasoning_text", 0, "rs_1", "Let me see") +
        item(
            "done", 0,
            R"({"id":"rs_1","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Let me see"}]})") +
        ended());
    EXPECT_EQ(std::get<ThinkingContent>(it.message.content.at(0)).thinking, "Let me see");
}

TEST(OpenAIResponsesDecoder, D13_Text_KeepsItemIdPhaseAndAnnotations) {
    const std::string annotation = R"({"type":"url_citation","url":"https://x","start_index":0})";
    const Decoded it = decode(
        created +
        item("added", 0, R"({"id":"m","type":"message","phase":"commentary","content":[]})") +
        delta("output_text", 0, "m", "Hi") +
        item(
            "done", 0,
            R"({"id":"m","type":"message","phase":"commentary","content":[{"type":"output_text","text":"Hi","annotations":[)" +
                annotation + "]}]}") +
        ended());
    const LazyObject& extra = text_at(it.message, 0).extra;
    EXPECT_EQ(*extra.find("item_id"), Json("m"));
    EXPECT_EQ(*extra.find("phase"), Json("commentary"));
    EXPECT_EQ(extra.find("annotations")->as_array().at(0), boost::json::parse(annotation));
}

TEST(OpenAIResponsesDecoder, Refusal_BecomesMarkedText) {
    const Decoded it =
        decode(created + item("added", 0, message_item("m")) + delta("refusal", 0, "m", "I can") +
               delta("refusal", 0, "m", "not.") +
               item("done", 0, message_item("m", R"({"type":"refusal","refusal":"I cannot."})")) +
               ended());
    EXPECT_EQ(text_at(it.message, 0).text, "I cannot.");
    EXPECT_EQ(*text_at(it.message, 0).extra.find("refusal"), Json(true));
    EXPECT_EQ(it.message.stop_reason, "stop");
}

TEST(OpenAIResponsesDecoder, ItemEndingAmongOpenCalls_HasItsText) {
    const std::string reasoning = R"({"id":"rs_1","type":"reasoning","summary":[]})";
    const std::string calls = item("added", 3, call_item("fc_1", "c1", "")) +
                              item("added", 4, call_item("fc_2", "c2", "")) +
                              delta("function_call_arguments", 3, "fc_1", "{}") +
                              delta("function_call_arguments", 4, "fc_2", "{}");
    const Decoded it = decode(
        created + item("added", 0, message_item("m")) + delta("refusal", 0, "m", "I cannot.") +
        item("added", 1, reasoning) + delta("reasoning_summary_text", 1, "rs_1", "Hm.") +
        item("added", 2, message_item("n")) + delta("output_text", 2, "n", "Hi") + calls +
        item("done", 0, message_item("m")) + item("done", 1, reasoning) +
        item("done", 2, message_item("n", text_part("Another text"))) + ended());
    EXPECT_EQ(text_at(it.message, 0).text, "I cannot.");
    EXPECT_EQ(it.block<ThinkingContent>(1).thinking, "Hm.");
    EXPECT_EQ(text_at(it.message, 2).text, "Another text");
    EXPECT_EQ(it.message.tool_calls().size(), 2u);
}

TEST(OpenAIResponsesDecoder, IncompleteResponse_ReportsItsReason) {
    const std::string begin = created + item("added", 0, message_item("m")) +
                              delta("output_text", 0, "m", "Hal") +
                              item("done", 0, message_item("m", text_part("Hal")));
    const std::string usage =
        R"(,"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":7}})";
    const Decoded cut =
        decode(begin + ended("incomplete",
                             R"(,"incomplete_details":{"reason":"max_output_tokens"})" + usage));
    EXPECT_EQ(cut.message.stop_reason, "length");
    EXPECT_EQ(cut.message.usage->input_tokens, 36);
    EXPECT_EQ(cut.message.usage->cache_read_tokens, 64);
    EXPECT_EQ(cut.message.usage->reasoning_tokens, 7);
    const Decoded filtered =
        decode(begin + ended("incomplete", R"(,"incomplete_details":{"reason":"content_filter"})"));
    EXPECT_EQ(filtered.message.stop_reason, "content_filter");
    EXPECT_FALSE(filtered.message.usage);
}

TEST(OpenAIResponsesDecoder, D3_IncompleteCall_MakesTheAnswerIncomplete) {
    std::string call = call_item("fc_1", "c1", "{}");
    for (const std::string status : {"completed", "in_progress", "incomplete"}) {
        const std::string ends =
            call.substr(0, call.size() - 1) + R"(,"status":")" + status + "\"}";
        const Decoded it =
            decode(created + item("added", 0, call) + item("done", 0, ends) + ended("completed"));
        EXPECT_EQ(it.message.tool_calls().size(), 1u);
        EXPECT_EQ(it.message.stop_reason, status == "incomplete" ? "incomplete" : "tool_use");
    }
}

TEST(OpenAIResponsesDecoder, D4_TruncatedArguments_RunNoTool) {
    const Decoded it = decode(
        created + item("added", 0, call_item("fc_1", "c1", "")) +
        delta("function_call_arguments", 0, "fc_1", "{\\\"path\\\": \\\"/tm") +
        item("done", 0, call_item("fc_1", "c1", "{\\\"path\\\": \\\"/tm")) + ended("incomplete"));
    const ToolCall& call = *it.message.tool_calls().at(0);
    EXPECT_TRUE(call.arguments.empty());
    EXPECT_EQ(*call.extra.find("raw_arguments"), Json("{\"path\": \"/tm"));
    EXPECT_EQ(it.message.stop_reason, "length");
}

TEST(OpenAIResponsesDecoder, FailuresInStream_HaveTheirCodes) {
    for (
        const std::string& failed :
        {event(
             "response.failed",
             R"("response":{"id":"r","status":"failed","error":{"code":"rate_limit_exceeded","message":"Slow down"}})"),
         event("error", R"("code":"rate_limit_exceeded","message":"Slow down","param":null)"),
         event("error", R"("error":{"code":"rate_limit_exceeded","message":"Slow down"})"),
         std::string(
             "event: error\ndata: {\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"Slow "
             "down\"}}\n\n")}) {
        MessageAssembler assembler{AssistantMessage()};
        testing::SequentialIds ids("id");
        OpenAIResponsesDecoder decoder(assembler, ids);
        EventQueue queue;
        SseDecoder sse;
        sse.feed(created + failed);
        SseEvent read;
        ASSERT_TRUE(sse.next(read));
        decoder.decode(read.event, read.data, queue);
        ASSERT_TRUE(sse.next(read));
        try {
            decoder.decode(read.event, read.data, queue);
            ADD_FAILURE() << failed;
        } catch (const StreamFailure& failure) {
            EXPECT_EQ(failure.failure().code, "rate_limit_exceeded");
            EXPECT_EQ(failure.failure().message, "Slow down");
        }
    }
    EXPECT_NE(decode(created + ended("cancelled")).failure.find("cancelled"), std::string::npos);
}

TEST(OpenAIResponsesDecoder, ContentOnlyInFinalEvents_IsStreamed) {
    const Decoded items =
        decode(created + item("added", 0, message_item("m")) +
               item("done", 0, message_item("m", text_part("Hello"))) +
               item("done", 1, call_item("fc_1", "c1", "{\\\"a\\\":1}")) + ended());
    EXPECT_EQ(items.spelled(),
              "start text_start text_delta(Hello) text_end toolcall_start "
              "toolcall_delta({\"a\":1}) toolcall_end done");
    const Decoded response =
        decode(created +
               ended("completed", ",\"output\":[" + message_item("m", text_part("Hello")) + "]"));
    EXPECT_EQ(response.spelled(), "start text_start text_delta(Hello) text_end done");
    const Decoded more =
        decode(created + item("added", 0, message_item("m")) + delta("output_text", 0, "m", "Hel") +
               item("done", 0, message_item("m", text_part("Hello"))) + ended());
    EXPECT_EQ(more.spelled(), "start text_start text_delta(Hel) text_delta(lo) text_end done");
}

TEST(OpenAIResponsesDecoder, UnfinishedItems_EndWithTheResponse) {
    const Decoded it =
        decode(created + item("added", 0, message_item("m")) + delta("output_text", 0, "m", "Hi") +
               item("added", 1, call_item("fc_1", "c1", "")) +
               delta("function_call_arguments", 1, "fc_1", "{}") + ended());
    EXPECT_EQ(it.spelled(),
              "start text_start text_delta(Hi) toolcall_start toolcall_delta({}) text_end "
              "toolcall_end done");
}

TEST(OpenAIResponsesDecoder, DeltasOfUnannouncedItems_BecomeText) {
    const Decoded it = decode(event("response.output_text.delta", R"("delta":"A")") +
                              event("response.output_text.delta", R"("delta":"B")") + ended());
    EXPECT_EQ(it.spelled(), "start text_start text_delta(A) text_delta(B) text_end done");
}

TEST(OpenAIResponsesDecoder, UnstreamedResponse_IsDecoded) {
    const Decoded it = decode(
        R"(data: {"id":"resp_9","object":"response","status":"completed","error":null,"output":[)" +
        message_item("m", text_part("Hello")) + "," + call_item("fc", "c", "{}") +
        R"(],"usage":{"input_tokens":3,"output_tokens":4}})" + "\n\n");
    EXPECT_EQ(it.message.text(), "Hello");
    EXPECT_EQ(it.message.tool_calls().size(), 1u);
    EXPECT_EQ(it.message.response_id, "resp_9");
    EXPECT_EQ(it.message.usage->output_tokens, 4);
}

TEST(OpenAIResponsesDecoder, SplitSurrogates_AreJoinedOnlyWithinAnItem) {
    const Decoded it = decode(
        created + item("added", 0, message_item("a")) + item("added", 1, message_item("b")) +
        delta("output_text", 0, "a", "x\\ud83d") + delta("output_text", 0, "a", "\\ude00") +
        delta("output_text", 0, "a", "\\ud83d") + delta("output_text", 1, "b", "y") + ended());
    EXPECT_EQ(text_at(it.message, 0).text, "x\xf0\x9f\x98\x80\xef\xbf\xbd");
    EXPECT_EQ(text_at(it.message, 1).text, "y");
}

TEST(OpenAIResponsesDecoder, MissingAndDuplicateCallIds_BecomeUniqueIds) {
    const Decoded it = decode(
        created + item("done", 0, R"({"type":"function_call","name":"f","arguments":"{}"})") +
        item("done", 1, R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}"})") +
        item("done", 2, R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}"})") +
        ended());
    const auto calls = it.message.tool_calls();
    ASSERT_EQ(calls.size(), 3u);
    EXPECT_FALSE(calls[0]->id.empty());
    EXPECT_EQ(calls[1]->id, "c");
    EXPECT_NE(calls[2]->id, "c");
}

TEST(OpenAIResponsesDecoder, D13_ServerToolItems_AreStored) {
    const std::string search = R"({"id":"ws_1","type":"web_search_call","status":"completed"})";
    const Decoded it = decode(
        created + item("added", 0, search) + item("done", 0, search) +
        item("done", 1, message_item("m", text_part("Found"))) +
        item("done", 2, R"({"type":"custom_tool_call","name":"sql","input":"x"})") + ended());
    const Json& stored = it.message.extra.find("server_items")->as_array().at(0);
    EXPECT_EQ(stored.at("at"), Json(0));
    EXPECT_EQ(stored.at("item"), boost::json::parse(search));
    EXPECT_EQ(it.message.content.size(), 1u);
    EXPECT_EQ(it.spelled(),
              "start text_start text_delta(Found) text_end notice(unsupported_item) done");
}

TEST(OpenAIResponsesDecoder, KeysInAnyOrder_AreAccepted) {
    const Decoded it = decode(
        created + item("added", 0, message_item("m")) +
        "data: {\"logprobs\":[],\"delta\":\"Hi\",\"output_index\":0,\"x\":{\"type\":1},"
        "\"type\":\"response.output_text.delta\"}\n\n"
        "data: {\"delta\":\" you\",\"item_id\":\"m\",\"type\":\"response.output_text.delta\"}\n\n" +
        ended());
    EXPECT_EQ(it.spelled(), "start text_start text_delta(Hi) text_delta( you) text_end done");
}

TEST(OpenAIResponsesDecoder, InvalidJson_IsAProtocolError) {
    EXPECT_NE(decode(created + "data: {\"type\":\n\n").failure.find("not JSON"), std::string::npos);
    EXPECT_NE(decode("data: <html>\n\n").failure.find("<html>"), std::string::npos);
}

}  // namespace
}  // namespace cubepi::detail
