#include <cubepi/provider/message_assembler.hpp>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

AssistantMessage head() {
    AssistantMessage message;
    message.id = "m1";
    message.provider_id = "p";
    message.model_id = "x";
    return message;
}

TEST(MessageAssembler, InterleavedBlocks_AreBuilt) {
    MessageAssembler answer(head());
    answer.start();
    const std::int32_t text = answer.text_start().content_index;
    answer.text_delta(text, "a");
    const std::int32_t call = answer.toolcall_start("c1", "add").content_index;
    answer.toolcall_delta(call, R"({"a": )");
    answer.text_delta(text, "b");
    answer.toolcall_delta(call, "1}");
    answer.text_end(text);
    const StreamEvent end = answer.toolcall_end(call);
    EXPECT_EQ(std::get<ToolCall>(end.partial.get().content[1]).arguments, JsonObject({{"a", 1}}));
    const StreamEvent done = answer.done("tool_use");
    const AssistantMessage message = done.partial.get();
    EXPECT_EQ(message.id, "m1");
    EXPECT_EQ(message.text(), "ab");
    EXPECT_EQ(message.stop_reason, "tool_use");
    ASSERT_EQ(message.tool_calls().size(), 1u);
    EXPECT_EQ(message.tool_calls()[0]->id, "c1");
}

// Beyond the first page of the log, so that a block is found by its position.
TEST(MessageAssembler, Block_IsBuiltFromItsOwnEntries) {
    MessageAssembler answer(head());
    answer.start();
    const std::int32_t text = answer.text_start().content_index;
    std::string expected;
    for (int i = 0; i < 400; ++i) answer.text_delta(text, "t");
    const std::int32_t first = answer.toolcall_start("c1", "").content_index;
    const std::int32_t second = answer.toolcall_start("c2", "sub").content_index;
    answer.rename_call(first, "add");
    answer.toolcall_delta(second, R"({"n": [)");
    for (int i = 0; i < 300; ++i) {
        answer.toolcall_delta(first, i == 0 ? "{" : " ");
        answer.toolcall_delta(second, i == 0 ? "0" : ",0");
        answer.text_delta(text, "t");
        expected += i == 0 ? "0" : ",0";
    }
    answer.toolcall_delta(first, "}");
    answer.toolcall_delta(second, "]}");
    EXPECT_EQ(answer.raw_arguments(second), R"({"n": [)" + expected + "]}");
    answer.text_end(text, LazyObject(JsonObject{{"signature", "s"}}));
    answer.toolcall_end(second);
    answer.toolcall_end(first);
    const AssistantMessage message = answer.done("tool_use").partial.get();
    EXPECT_EQ(message.text(), std::string(700, 't'));
    ASSERT_EQ(message.tool_calls().size(), 2u);
    EXPECT_EQ(message.tool_calls()[0]->name, "add");
    EXPECT_TRUE(message.tool_calls()[0]->extra.empty());
    EXPECT_EQ(message.tool_calls()[1]->arguments.at("n").as_array().size(), 300u);
}

TEST(MessageAssembler, CallsBeyondTheLimit_AreRefused) {
    MessageAssembler answer(head());
    answer.start();
    for (std::size_t i = 0; i < MessageAssembler::max_tool_calls; ++i) {
        const std::int32_t call =
            answer.toolcall_start("c" + std::to_string(i), "add").content_index;
        answer.toolcall_delta(call, "{}");
        answer.toolcall_end(call);
    }
    try {
        answer.toolcall_start("one too many", "add");
        FAIL() << "the call was accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::too_large);
    }
    const AssistantMessage message = answer.error("too large").partial.get();
    EXPECT_EQ(message.tool_calls().size(), MessageAssembler::max_tool_calls);
}

TEST(MessageAssembler, D10_Partials_NeverChange) {
    MessageAssembler answer(head());
    answer.start();
    const std::int32_t text = answer.text_start().content_index;
    const StreamEvent first = answer.text_delta(text, "one");
    const StreamEvent second = answer.text_delta(text, "two");
    EXPECT_EQ(first.partial.text(), "one");
    EXPECT_EQ(second.partial.text(), "onetwo");
    EXPECT_EQ(first.delta, "one");
}

TEST(MessageAssembler, D4_IncompleteArguments_AreStoredAsRawArguments) {
    MessageAssembler answer(head());
    answer.start();
    const std::int32_t call = answer.toolcall_start("c1", "add").content_index;
    answer.toolcall_delta(call, R"({"a": 1, "b": "x)");
    const AssistantMessage message = answer.toolcall_end(call).partial.get();
    const auto& made = std::get<ToolCall>(message.content[0]);
    EXPECT_TRUE(made.arguments.empty());
    ASSERT_NE(made.extra.find("raw_arguments"), nullptr);
    EXPECT_EQ(*made.extra.find("raw_arguments"), Json(R"({"a": 1, "b": "x)"));
}

TEST(MessageAssembler, D9_Error_KeepsTheStreamedContent) {
    MessageAssembler answer(head());
    answer.start();
    const std::int32_t text = answer.text_start().content_index;
    answer.text_delta(text, "Hal");
    answer.toolcall_start("c1", "add");
    answer.toolcall_delta(1, R"({"a")");
    ErrorInfo info;
    info.code = ErrorCode::disconnected;
    info.type = "ProviderUnavailable";
    const StreamEvent event = answer.error("broke off", info);
    EXPECT_EQ(event.error_message(), "broke off");
    const AssistantMessage message = event.partial.get();
    EXPECT_EQ(message.text(), "Hal");
    EXPECT_EQ(message.stop_reason, "error");
    ASSERT_TRUE(message.error);
    EXPECT_EQ(message.error->code, ErrorCode::disconnected);
    EXPECT_EQ(*std::get<ToolCall>(message.content[1]).extra.find("raw_arguments"), Json(R"({"a")"));
}

TEST(MessageAssembler, D34_Abort_DropsTheStreamingCall) {
    MessageAssembler answer(head());
    answer.start();
    answer.toolcall_start("c1", "add");
    answer.toolcall_delta(0, "{}");
    answer.toolcall_end(0);
    answer.toolcall_start("c2", "add");
    answer.toolcall_delta(1, "{");
    const AssistantMessage message = answer.aborted().partial.get();
    ASSERT_EQ(message.tool_calls().size(), 1u);
    EXPECT_EQ(message.tool_calls()[0]->id, "c1");
    EXPECT_EQ(message.stop_reason, "aborted");
    EXPECT_EQ(message.error_message, "Request was aborted");
    EXPECT_FALSE(message.error);
}

TEST(MessageAssembler, D13_ExtrasOfBlock_AreMergedAtItsEnd) {
    MessageAssembler answer(head());
    answer.start();
    LazyObject before;
    before["item_id"] = "i";
    LazyObject after;
    after["signature"] = "s";
    answer.thinking_start(before);
    answer.thinking_delta(0, "hm");
    const AssistantMessage message = answer.thinking_end(0, after).partial.get();
    const auto& block = std::get<ThinkingContent>(message.content[0]);
    EXPECT_EQ(block.thinking, "hm");
    EXPECT_EQ(*block.extra.find("item_id"), Json("i"));
    EXPECT_EQ(*block.extra.find("signature"), Json("s"));
}

TEST(MessageAssembler, ErrorBeforeTheStart_HasNoContent) {
    MessageAssembler answer(head());
    EXPECT_FALSE(answer.started());
    const StreamEvent event = answer.error("no");
    EXPECT_EQ(event.type, StreamEventType::error);
    EXPECT_TRUE(event.partial.get().content.empty());
    EXPECT_EQ(event.partial.get().model_id, "x");
}

TEST(MessageAssembler, CallNames_AreValidFromTheStart) {
    const std::vector<std::pair<std::string, std::string>> names{
        {"read", "read"},
        {" read\n", "read"},
        {"functions.read", "functions_read"},
        {"\x1b]52;c;eA==\x07", "_52_c_eA_"},
        {"a\x1b[2Jb", "a_2Jb"},
        {"\xE2\x80\xAEread", "_read"},
        {"", "unnamed"},
        {std::string(64, 'n'), std::string(64, 'n')},
        {std::string(65, 'n'), std::string(60, 'n') + "_cut"},
        {std::string(std::size_t{1} << 20U, '.'), "_"},
    };
    for (const auto& [wire, stored] : names) {
        MessageAssembler answer(head());
        answer.start();
        const std::int32_t early = answer.toolcall_start("c1", SharedString(wire)).content_index;
        const std::int32_t late = answer.toolcall_start("c2", "").content_index;
        answer.rename_call(late, SharedString(wire));
        const std::int32_t last = answer.toolcall_start("c3", "x").content_index;
        ToolCall call;
        call.name = SharedString(wire);
        answer.toolcall_end(early);
        answer.toolcall_end(late);
        answer.toolcall_end(last, std::move(call), "{}");
        const AssistantMessage message = answer.done("tool_use").partial.get();
        for (const ToolCall* one : message.tool_calls()) EXPECT_EQ(one->name, stored) << wire;
    }
}

TEST(MessageAssembler, RepeatedMembersOfCall_AreCountedOnce) {
    constexpr std::size_t limit = 1000 * 1000;
    MessageAssembler answer(head(), limit);
    answer.start();
    const std::int32_t call = answer.toolcall_start("c1", "write").content_index;
    const JsonObject members{{"signature", std::string(10'000, 'x')}};
    for (int i = 0; i < 1000; ++i) {
        answer.extend_call(call, "chat_members", members);
        answer.toolcall_delta(call, " ");
    }
    answer.toolcall_delta(call, "{}");
    answer.toolcall_end(call);
    EXPECT_EQ(answer.done("tool_use").partial.get().tool_calls().size(), 1u);
}

TEST(MessageAssembler, D74_VersionsOfOpenCall_AreAllCounted) {
    for (const bool renames : {false, true}) {
        MessageAssembler answer(head(), 1000 * 1000);
        answer.start();
        const std::int32_t call = answer.toolcall_start("c1", "write").content_index;
        answer.extend_call(call, "chat_members", JsonObject{{"signature", std::string(2000, 'x')}});
        bool limited = false;
        for (int i = 0; i < 3000 && !limited; ++i) {
            const std::string name = "k" + std::to_string(i);
            try {
                if (renames) answer.rename_call(call, SharedString(name));
                if (!renames) answer.extend_call(call, "chat_members", JsonObject{{name, 0}});
            } catch (const LimitReachedError&) {
                limited = true;
            }
        }
        EXPECT_TRUE(limited) << renames;
    }
}

TEST(MessageAssembler, OversizedAnswer_EndsWithItsBeginning) {
    constexpr std::size_t limit = 1000 * 1000;
    MessageAssembler answer(head(), limit);
    answer.start();
    const std::int32_t text = answer.text_start().content_index;
    answer.text_delta(text, "first");
    answer.text_end(text);
    const std::int32_t call = answer.toolcall_start("c1", "write").content_index;
    const std::string piece(1000, 'x');
    std::size_t streamed = 0;
    std::exception_ptr failure;
    while (!failure && streamed < 2 * limit) {
        try {
            answer.toolcall_delta(call, piece);
            streamed += piece.size();
        } catch (const LimitReachedError& error) {
            EXPECT_EQ(error.limit(), "max_answer_bytes");
            failure = std::current_exception();
        }
    }
    EXPECT_LT(streamed, limit);
    EXPECT_GT(streamed, limit * 9 / 10);
    const AssistantMessage message = answer.error(failure).partial.get();
    EXPECT_EQ(message.stop_reason, "error");
    EXPECT_EQ(message.error->code, ErrorCode::limit);
    EXPECT_EQ(message.text(), "first");
    EXPECT_TRUE(message.tool_calls().empty()) << "its arguments were still streaming (D34)";
}

TEST(MessageAssembler, LongText_KeepsOnlyItsBeginning) {
    MessageAssembler answer(head(), 1000 * 1000);
    answer.start();
    const std::int32_t text = answer.text_start().content_index;
    std::exception_ptr failure;
    while (!failure) {
        try {
            answer.text_delta(text, "\u00FC\u00FC\u00FC\u00FC\u00FC");
        } catch (const LimitReachedError&) {
            failure = std::current_exception();
        }
    }
    const AssistantMessage message = answer.error(failure).partial.get();
    EXPECT_LE(message.text().size(), std::size_t{64} << 10U);
    EXPECT_GT(message.text().size(), std::size_t{63} << 10U);
    EXPECT_TRUE(message.text().ends_with("\u00FC"));
}

TEST(MessageAssembler, OversizedArguments_AreRefusedBeforeParsing) {
    MessageAssembler answer(head(), std::size_t{8} << 20U);
    answer.start();
    const std::int32_t call = answer.toolcall_start("c1", "f").content_index;
    std::string json = "{\"a\":[0";
    while (json.size() < (std::size_t{2} << 20U)) json += ",0";
    answer.toolcall_delta(call, json + "]}");
    EXPECT_THROW(answer.toolcall_end(call), LimitReachedError);
}

TEST(MessageAssembler, BlocksBeyondTheLimit_AreRefused) {
    MessageAssembler answer(head());
    answer.start();
    for (std::size_t i = 0; i < MessageAssembler::max_blocks; ++i) answer.text_start();
    EXPECT_THROW(answer.thinking_start(), Error);
}

}  // namespace
}  // namespace cubepi
