#include <cubepi/provider/openai/chat_api.hpp>

#include <gtest/gtest.h>

#include <cubepi/provider/wire/decoder_test_support.hpp>

namespace cubepi::detail {
namespace {

std::string chunk(const std::string& choice, const std::string& more = {}) {
    return "data: {\"id\":\"r1\",\"choices\":[{\"index\":0," + choice + "}]" + more + "}\n\n";
}
std::string delta(const std::string& members) { return chunk("\"delta\":{" + members + "}"); }
std::string text(const std::string& piece) { return delta("\"content\":\"" + piece + "\""); }
std::string finish(const std::string& reason) {
    return chunk("\"delta\":{},\"finish_reason\":\"" + reason + "\"");
}
const std::string done = "data: [DONE]\n\n";

Decoded decode(const std::string& body, std::size_t cut = 0, bool accept_missing_finish = false) {
    return decode_with<OpenAIChatDecoder>(body, cut, accept_missing_finish);
}

TEST(OpenAIChatDecoder, EndpointDetails_AreRetained) {
    const std::string first =
        R"(data: {"model":"gpt-4.1-2025-04-14","service_tier":"default","system_fingerprint":"fp_1",)"
        R"("choices":[{"index":0,"delta":{"content":"Hi"}}]})";
    const Decoded it = decode(first + "\n\n" + finish("length") + done);
    EXPECT_EQ(it.details.model, "gpt-4.1-2025-04-14");
    EXPECT_EQ(it.details.service_tier, "default");
    EXPECT_EQ(it.details.system_fingerprint, "fp_1");
    EXPECT_EQ(it.details.finish_reason, "length");
    EXPECT_EQ(it.details.api_type, "chat_completions");
}

TEST(OpenAIChatDecoder, AnySplit_ReturnsTheSameMessage) {
    const std::string body =
        text("") + delta(R"("reasoning_content":"h\u00e4")") + text("One ") + ": comment\r\n\r\n" +
        text("tw\\ud83d\\ude00o \xf0\x9f\x98\x80") +
        delta(
            R"("tool_calls":[{"index":0,"id":"c1","function":{"name":"add","arguments":"{\"a\""}}])") +
        delta(R"("tool_calls":[{"index":0,"function":{"arguments":": 1}"}}])") +
        finish("tool_calls") +
        "data:{\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n" + done;
    const Decoded whole = decode(body);
    EXPECT_EQ(whole.spelled(),
              "start thinking_start thinking_delta(hä) text_start text_delta(One ) "
              "text_delta(tw😀o 😀) text_end "
              "toolcall_start toolcall_delta({\"a\") toolcall_delta(: 1}) thinking_end "
              "toolcall_end done");
    for (std::size_t cut = 1; cut < body.size(); ++cut) {
        const Decoded split = decode(body, cut);
        ASSERT_EQ(split.spelled(), whole.spelled()) << cut;
        ASSERT_EQ(split.message, whole.message) << cut;
    }
}

TEST(OpenAIChatDecoder, TextAfterACall_IsItsOwnBlock) {
    const Decoded it = decode(
        text("Before.") +
        delta(
            R"("tool_calls":[{"index":0,"id":"c1","function":{"name":"add","arguments":"{}"}}])") +
        text(" After.") + finish("tool_calls") + done);
    ASSERT_EQ(it.message.content.size(), 3u);
    EXPECT_EQ(std::get<TextContent>(it.message.content[0]).text, "Before.");
    EXPECT_EQ(std::get<TextContent>(it.message.content[2]).text, " After.");
    EXPECT_EQ(it.message.stop_reason, "tool_use");
}

TEST(OpenAIChatDecoder, TextAfterLateThinking_IsRetained) {
    const Decoded it =
        decode(text("One ") + delta(R"("reasoning":"wait")") + text("two") + finish("stop") + done);
    EXPECT_EQ(
        it.spelled(),
        "start text_start text_delta(One ) text_end thinking_start thinking_delta(wait) text_start "
        "text_delta(two) thinking_end text_end done");
    EXPECT_EQ(it.message.text(), "One two");
}

TEST(OpenAIChatDecoder, CallsAllAtIndexZero_StaySeparate) {
    const Decoded by_id = decode(
        delta(
            R"("tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}])") +
        delta(
            R"("tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{\"x\":2}"}}])") +
        finish("tool_calls"));
    ASSERT_EQ(by_id.message.tool_calls().size(), 2u);
    EXPECT_EQ(by_id.message.tool_calls()[1]->arguments, JsonObject({{"x", 2}}));
    const Decoded bare = decode(
        delta(R"("tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"x\":1}"}}])") +
        delta(R"("tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"x\":2}"}}])") +
        finish("tool_calls"));
    ASSERT_EQ(bare.message.tool_calls().size(), 2u);
    EXPECT_NE(bare.message.tool_calls()[0]->id, bare.message.tool_calls()[1]->id);
}

TEST(OpenAIChatDecoder, EqualIds_BecomeUnique) {
    const Decoded it = decode(
        delta(
            R"("tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"x\":1}"}},)"
            R"({"index":1,"id":"c","function":{"name":"f","arguments":"{\"x\":2}"}},)"
            R"({"index":2,"id":"","function":{"name":"f","arguments":"{}"}}])") +
        finish("tool_calls"));
    const auto calls = it.message.tool_calls();
    ASSERT_EQ(calls.size(), 3u);
    EXPECT_EQ(calls[0]->id, "c");
    EXPECT_EQ(calls[0]->arguments, JsonObject({{"x", 1}}));
    EXPECT_EQ(calls[1]->arguments, JsonObject({{"x", 2}}));
    EXPECT_NE(calls[1]->id, "c");
    EXPECT_FALSE(calls[2]->id.empty());
}

/// Two calls with the same id, at the same index or without one.
TEST(OpenAIChatDecoder, EqualIdsAtOneIndex_AreSeparateCalls) {
    for (const std::string index : {R"("index":0,)", ""}) {
        const auto piece = [&index](const std::string& members, const std::string& arguments) {
            return delta(R"("tool_calls":[{)" + index + members + R"("function":{"name":"f",)" +
                         R"("arguments":")" + arguments + "\"}}]");
        };
        const std::string id = R"("id":"c",)";
        const Decoded it = decode(piece(id, R"({\"x\":1})") + piece(id, R"({\"x\")") +
                                  piece(id, ":2}") + piece(id, "") + finish("tool_calls"));
        const auto calls = it.message.tool_calls();
        ASSERT_EQ(calls.size(), 2u) << index;
        EXPECT_EQ(calls[0]->id, "c");
        EXPECT_EQ(calls[0]->arguments, JsonObject({{"x", 1}}));
        EXPECT_NE(calls[1]->id, "c");
        EXPECT_EQ(calls[1]->arguments, JsonObject({{"x", 2}}));
        EXPECT_EQ(calls[1]->name, "f");
        // A server that repeats the whole call in its last chunk does not ask for two.
        const Decoded repeated =
            decode(piece(id, R"({\"x\":1})") + piece(id, R"({\"x\":1})") + finish("tool_calls"));
        ASSERT_EQ(repeated.message.tool_calls().size(), 1u) << index;
        EXPECT_EQ(repeated.message.tool_calls()[0]->arguments, JsonObject({{"x", 1}}));
    }
}

/// Of several choices only the first is used, wherever it is and whether the answer is streamed or not.
TEST(OpenAIChatDecoder, OtherChoices_AreIgnored) {
    const auto choice = [](const std::string& members, int index, const std::string& text) {
        return R"({"index":)" + std::to_string(index) + ",\"" + members + R"(":{"content":")" +
               text + R"("},"finish_reason":"stop"})";
    };
    for (const std::string member : {"delta", "message"}) {
        const auto event = [](const std::string& choices) {
            return "data: {\"id\":\"r\",\"choices\":[" + choices + "]}\n\n";
        };
        const std::string first = choice(member, 0, "first");
        const std::string second = choice(member, 1, "second");
        EXPECT_EQ(decode(event(second + "," + first)).message.text(), "first");
        EXPECT_EQ(decode(event(first + "," + second)).message.text(), "first");
        EXPECT_EQ(decode(event(second) + event(first)).message.text(), "first");
    }
}

TEST(OpenAIChatDecoder, MissingIndexOrRepeatedName_KeepsCallsSeparate) {
    const Decoded it =
        decode(delta(R"("tool_calls":[{"id":"a","function":{"name":null,"arguments":"{\"x\""}}])") +
               delta(R"("tool_calls":[{"function":{"name":"f","arguments":":1"}}])") +
               delta(R"("tool_calls":[{"function":{"name":"f","arguments":"}"}}])") +
               delta(R"("tool_calls":[{"id":"b","function":{"name":"g","arguments":{"y":2}}}])") +
               finish("tool_calls"));
    const auto calls = it.message.tool_calls();
    ASSERT_EQ(calls.size(), 2u);
    EXPECT_EQ(calls[0]->name, "f");
    EXPECT_EQ(calls[0]->arguments, JsonObject({{"x", 1}}));
    EXPECT_EQ(calls[1]->arguments, JsonObject({{"y", 2}}));
}

TEST(OpenAIChatDecoder, D4_IncompleteArguments_AreStoredAsRawArguments) {
    const Decoded it = decode(
        delta(
            R"("tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\": 1"}}])") +
        finish("length"));
    const ToolCall& call = *it.message.tool_calls()[0];
    EXPECT_TRUE(call.arguments.empty());
    EXPECT_EQ(*call.extra.find("raw_arguments"), Json("{\"x\": 1"));
    EXPECT_EQ(it.message.stop_reason, "length");
}

TEST(OpenAIChatDecoder, NullsAndEmptyChoices_AreIgnored) {
    const Decoded it = decode("data: {\"choices\":[]}\n\n" + chunk("\"delta\":null") +
                              delta("\"content\":null,\"tool_calls\":null") + text("a") +
                              "data: {\"id\":null,\"choices\":null,\"usage\":null}\n\n" +
                              finish("stop") + finish("stop") + done + done);
    EXPECT_EQ(it.spelled(), "start text_start text_delta(a) text_end done");
    EXPECT_FALSE(it.message.usage);
    EXPECT_EQ(it.message.response_id, "r1");
}

TEST(OpenAIChatDecoder, D12_UsageInAnyChunk_IsRead) {
    const Decoded it = decode(
        chunk(
            "\"delta\":{\"content\":\"a\"}",
            R"(,"usage":{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":3}})") +
        finish("stop"));
    EXPECT_EQ(*it.message.usage->input_tokens, 2);
    EXPECT_EQ(*it.message.usage->cache_read_tokens, 8);
    EXPECT_EQ(*it.message.usage->output_tokens, 4);
    EXPECT_EQ(*it.message.usage->reasoning_tokens, 3);
    EXPECT_FALSE(it.message.usage->cache_write_tokens);
}

TEST(OpenAIChatDecoder, Refusal_IsText) {
    const Decoded it =
        decode(delta("\"refusal\":\"I can\"") + delta("\"refusal\":\"not.\"") + finish("stop"));
    EXPECT_EQ(it.message.text(), "I cannot.");
    EXPECT_NE(std::get<TextContent>(it.message.content[0]).extra.find("refusal"), nullptr);
}

TEST(OpenAIChatDecoder, EndWithoutFinishReason_IsAnError) {
    for (const std::string& end : {std::string(), done}) {
        const Decoded it = decode(text("Half") + end);
        EXPECT_EQ(it.spelled(), "start text_start text_delta(Half) error");
        EXPECT_EQ(it.message.text(), "Half");
    }
    const Decoded accepted = decode(text("Half") + done, 0, true);
    EXPECT_EQ(accepted.message.stop_reason, "stop");
}

TEST(OpenAIChatDecoder, D9_ErrorInStream_KeepsTheText) {
    const Decoded it = decode(text("Hal") +
                              "data: {\"error\":{\"message\":\"The server had an "
                              "error\",\"type\":\"server_error\"}}\n\n");
    EXPECT_EQ(it.message.text(), "Hal");
    EXPECT_EQ(it.events.back().error_message(), "The server had an error");
    const Decoded named = decode("event: error\ndata: {\"message\":\"no\"}\n\n");
    EXPECT_EQ(named.spelled(), "error");
    const Decoded bare = decode(
        text("Hal") + "data: {\"object\":\"error\",\"message\":\"too long\",\"code\":400}\n\n");
    EXPECT_EQ(bare.message.text(), "Hal");
    EXPECT_EQ(bare.events.back().error_message(), "too long");
}

TEST(OpenAIChatDecoder, MalformedJson_IsAnError) {
    EXPECT_EQ(decode(text("a") + "data: {malformed\n\n").events.back().type,
              StreamEventType::error);
}

TEST(OpenAIChatDecoder, SplitSurrogatesAndInvalidUtf8_AreRepaired) {
    const Decoded halves = decode(text("x\\ud83d") + text("\\ude00y") + finish("stop"));
    EXPECT_EQ(halves.message.text(), "x😀y");
    const Decoded alone = decode(text("x\\ud83d") + finish("stop"));
    EXPECT_EQ(alone.message.text(), "x\xef\xbf\xbd");
    const Decoded broken = decode(text("a\xff"
                                       "b") +
                                  finish("stop"));
    EXPECT_EQ(broken.message.text(),
              "a\xef\xbf\xbd"
              "b");
}

TEST(OpenAIChatDecoder, D13_ReasoningDetails_AreStored) {
    const Decoded it = decode(
        delta(
            R"("reasoning":"a","reasoning_details":[{"type":"reasoning.text","index":0,"text":"a"}])") +
        delta(
            R"("reasoning":"b","reasoning_details":[{"type":"reasoning.text","index":0,"text":"b","signature":"s"}])") +
        text("x") + finish("stop"));
    const auto& block = std::get<ThinkingContent>(it.message.content[0]);
    EXPECT_EQ(block.thinking, "ab");
    EXPECT_EQ(
        *block.extra.find("reasoning_details"),
        boost::json::parse(R"([{"type":"reasoning.text","index":0,"text":"ab","signature":"s"}])"));
}

TEST(OpenAIChatDecoder, D88_MembersInAnyPiece_AreMerged) {
    const std::string first =
        R"("tool_calls":[{"index":0,"id":"c1","a":{"x":1},"b":null,"function":{"name":"f","arguments":"{","c":2}}])";
    const std::string second =
        R"("tool_calls":[{"index":0,"a":{"y":"\u00e4"},"function":{"arguments":"}"}}])";
    const Decoded it = decode(delta(first) + delta(second) + finish("tool_calls") + done);
    const auto& call = it.block<ToolCall>(0);
    EXPECT_EQ(*call.extra.find("chat_members"),
              boost::json::parse(R"({"function":{"c":2},"a":{"x":1,"y":"ä"}})"));
    EXPECT_EQ(call.extra.find("raw_arguments"), nullptr);
    // A failed answer has them, too: its call goes back with a result.
    const Decoded cut = decode(delta(first));
    EXPECT_NE(cut.block<ToolCall>(0).extra.find("chat_members"), nullptr);
}

TEST(OpenAIChatDecoder, D88_MembersOfAnswer_AreThoseWantedBack) {
    const Decoded it = decode(
        delta(
            R"("content":"a","channel":"x","tool_call\u0073":[],"extra_content":{"g":{"s":"1"}})") +
        delta(
            R"("extra_content":{"g":{"t":2}},"provider_specific_fields":{"list":[1],"same":"s"})") +
        delta(R"("provider_specific_fields":{"list":[2],"same":"s"})") + finish("stop") + done);
    // A list in pieces cannot be put together.
    EXPECT_EQ(
        *it.message.extra.find("chat_members"),
        boost::json::parse(
            R"({"extra_content":{"g":{"s":"1","t":2}},"provider_specific_fields":{"list":null,"same":"s"}})"));
}

TEST(OpenAIChatDecoder, D88_NameWithQuotes_IsStoredWhole) {
    const std::string call =
        R"("tool_calls":[{"index":0,"id":"c1","a\"b\\":1,"\u00e4":2,"function":{"name":"f","arguments":"{}"}}])";
    const Decoded it = decode(delta(call) + finish("tool_calls") + done);
    EXPECT_EQ(*it.block<ToolCall>(0).extra.find("chat_members"),
              boost::json::parse(R"({"a\"b\\":1,"\u00e4":2})"));
}

TEST(OpenAIChatDecoder, ThinkingTag_BecomesThinkingInAnySplit) {
    const auto tagged = [](const std::string& content, std::size_t cut) {
        return decode_with<OpenAIChatDecoder>(
            text(content.substr(0, cut)) + text(content.substr(cut)) + finish("stop") + done, 0,
            false, std::string("think"));
    };
    const auto thought = [](const Decoded& it) {
        std::string joined;
        for (const AssistantContent& block : it.message.content) {
            if (const auto* thinking = std::get_if<ThinkingContent>(&block))
                joined += "[" + thinking->thinking + "]";
        }
        return joined + it.message.text();
    };
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"<think>Hm < </think> Hello </think>.", "[Hm < ]Hello </think>."},
        {" <think> Cut </thin", "[Cut </thin]"},
        {"<think>  </think>Hello.", "Hello."},
        {"Say <think>x</think>", "Say <think>x</think>"},
        {"<thinking>x", "<thinking>x"},
        {" <thi", " <thi"}};
    for (const auto& [content, expected] : cases) {
        for (std::size_t cut = 0; cut < content.size(); ++cut)
            EXPECT_EQ(thought(tagged(content, cut)), expected) << content << " " << cut;
    }
    EXPECT_EQ(decode(text("<think>x</think>y") + finish("stop")).message.text(),
              "<think>x</think>y");
}

TEST(OpenAIChatDecoder, Content_MayBeAListOfParts) {
    const Decoded it = decode(
        delta(R"("content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}])") +
        delta(R"("content":[{"type":"text","text":"yes"}])") + finish("stop"));
    EXPECT_EQ(it.spelled(),
              "start thinking_start thinking_delta(hm) text_start text_delta(yes) thinking_end "
              "text_end done");
}

TEST(OpenAIChatDecoder, NonStreamedAnswer_IsRead) {
    MessageAssembler assembler{AssistantMessage()};
    testing::SequentialIds ids("id");
    OpenAIChatDecoder decoder(assembler, ids);
    EventQueue queue;
    decoder.decode(
        {},
        R"({"id":"r","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]})",
        queue);
    decoder.finish(queue);
    while (queue.size() > 1) queue.pop();
    EXPECT_EQ(queue.pop().partial.get().text(), "Hi");
}

std::string call_piece(const std::string& members) {
    return delta("\"tool_calls\":[{" + members + "}]");
}

// Each piece opens a JSON object with a name, so each could begin another call: whether it does must not be found by parsing all
// arguments so far. With that, 50,000 pieces take minutes.
TEST(OpenAIChatDecoder, ManyArgumentPieces_CostTheirLength) {
    std::string body = call_piece(R"("index":0,"id":"c1","function":{"name":"f","arguments":"{"})");
    const std::string piece =
        call_piece(R"("index":0,"function":{"name":"f","arguments":"{\"a\":"})");
    constexpr int pieces = 50'000;
    for (int i = 0; i < pieces; ++i) body += piece;
    const Decoded it = decode(body + finish("tool_calls") + done);
    ASSERT_EQ(it.message.tool_calls().size(), 1u);
    EXPECT_EQ(it.message.stop_reason, "tool_use");
}

TEST(OpenAIChatDecoder, ToolNameInPieces_HasALimit) {
    std::string body = call_piece(R"("index":0,"id":"c1","function":{"name":"n"})");
    const std::string piece = call_piece(R"("index":0,"function":{"name":"nn"})");
    for (int i = 0; i < 200; ++i) body += piece;
    EXPECT_EQ(decode(body + finish("tool_calls") + done).failure,
              "the answer has a tool name of more than 256 characters");
}

}  // namespace
}  // namespace cubepi::detail
