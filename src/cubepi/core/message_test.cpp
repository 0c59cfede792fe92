#include <cubepi/core/message.hpp>

#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

ToolCall call(std::string id, std::string name) {
    ToolCall it;
    it.id = std::move(id);
    it.name = std::move(name);
    return it;
}

AssistantMessage answer() {
    AssistantMessage message;
    message.content.emplace_back(ThinkingContent{"hm"});
    message.content.emplace_back(TextContent{"one "});
    message.content.emplace_back(call("c1", "add"));
    message.content.emplace_back(TextContent{"two"});
    message.content.emplace_back(call("c2", "sub"));
    message.id = "m";
    message.run_id = "r";
    message.timestamp = 5;
    return message;
}

TEST(Message, IsOneWordAndItsTypeSaysWhatItIs) {
    static_assert(sizeof(Message) == sizeof(void*));
    static_assert(std::is_nothrow_move_constructible_v<Message>);
    const Message user = user_message("hi", "u1");
    EXPECT_EQ(user.role(), Role::user);
    EXPECT_NE(user.user(), nullptr);
    EXPECT_EQ(user.assistant(), nullptr);
    EXPECT_EQ(user.tool_result(), nullptr);
    EXPECT_EQ(user.id(), "u1");
    EXPECT_EQ(user.text(), "hi");
    EXPECT_EQ(user.timestamp(), std::nullopt);
    const Message result = ToolResultMessage{"c1", "add"};
    EXPECT_EQ(result.role(), Role::tool_result);
    EXPECT_EQ(result.tool_result()->tool_name, "add");
    const Message assistant = answer();
    EXPECT_EQ(assistant.role(), Role::assistant);
    EXPECT_EQ(assistant.run_id(), "r");
    EXPECT_EQ(assistant.timestamp(), 5.0);
    EXPECT_EQ(assistant.text(), "one two");
    EXPECT_EQ(to_string(Role::tool_result), "tool_result");
}

TEST(Message, D22_DoesNotChangeWithWhatItWasMadeFrom) {
    UserMessage source;
    source.content.emplace_back(TextContent{"before"});
    source.metadata["key"] = "before";
    const Message message = source;
    const Message copy = message;
    std::get<TextContent>(source.content[0]).text = "after";
    source.metadata["key"] = "after";
    EXPECT_EQ(message.text(), "before");
    EXPECT_EQ(*copy.metadata().find("key"), "before");
    EXPECT_TRUE(copy.is_same(message));
}

TEST(Message, CopiesShareAndEqualContentIsEqual) {
    const Message one = answer();
    Message copy = one;
    EXPECT_TRUE(copy.is_same(one));
    const Message twin = answer();
    EXPECT_FALSE(twin.is_same(one));
    EXPECT_EQ(twin, one);
    EXPECT_NE(one, user_message("one two"));
    const Message taken = std::move(copy);
    EXPECT_FALSE(copy);  // NOLINT(bugprone-use-after-move)
    EXPECT_TRUE(taken.is_same(one));
    EXPECT_EQ(copy, Message());
    EXPECT_NE(copy, taken);
    copy = taken;
    copy = *&copy;
    EXPECT_EQ(copy, one);
}

TEST(Message, WithIdLeavesTheOriginalAlone) {
    const Message one = answer();
    const Message other = one.with_id("n").with_run_id("s");
    EXPECT_EQ(other.id(), "n");
    EXPECT_EQ(other.run_id(), "s");
    EXPECT_EQ(other.text(), one.text());
    EXPECT_EQ(one.id(), "m");
    EXPECT_EQ(one.run_id(), "r");
    EXPECT_EQ(user_message("x").with_id("i").id(), "i");
    EXPECT_EQ(Message(ToolResultMessage()).with_run_id("s").run_id(), "s");
}

TEST(Message, EveryFieldCounts) {
    const AssistantMessage base = answer();
    const auto differs = [&](auto change) {
        AssistantMessage other = base;
        change(other);
        return !(other == base);
    };
    EXPECT_FALSE(differs([](AssistantMessage&) {}));
    EXPECT_TRUE(differs([](AssistantMessage& m) { m.content.pop_back(); }));
    EXPECT_TRUE(differs([](AssistantMessage& m) { m.id = "x"; }));
    EXPECT_TRUE(differs([](AssistantMessage& m) { m.stop_reason = "length"; }));
    EXPECT_TRUE(differs([](AssistantMessage& m) { m.error_message = "x"; }));
    EXPECT_TRUE(differs([](AssistantMessage& m) { m.usage.emplace(); }));
    EXPECT_TRUE(differs([](AssistantMessage& m) { m.timestamp.reset(); }));
    EXPECT_TRUE(differs([](AssistantMessage& m) { m.provider_id = "x"; }));
    EXPECT_TRUE(differs([](AssistantMessage& m) { m.model_id = "x"; }));
    EXPECT_TRUE(differs([](AssistantMessage& m) { m.response_id = "x"; }));
    EXPECT_TRUE(differs([](AssistantMessage& m) { m.metadata["x"] = 1; }));
    EXPECT_TRUE(differs([](AssistantMessage& m) { m.run_id = "x"; }));
    EXPECT_TRUE(differs([](AssistantMessage& m) { m.extra["x"] = 1; }));
    EXPECT_TRUE(
        differs([](AssistantMessage& m) { std::get<ToolCall>(m.content[2]).extra["x"] = 1; }));
}

TEST(Message, D9_ErrorsAreComparedByContent) {
    AssistantMessage one = answer();
    AssistantMessage two = answer();
    ErrorInfo info;
    info.code = ErrorCode::rate_limited;
    info.status_code = 429;
    one.error = SharedValue<ErrorInfo>(info);
    EXPECT_FALSE(one == two);
    two.error = SharedValue<ErrorInfo>(info);
    EXPECT_TRUE(one == two);
    info.status_code = 529;
    two.error = SharedValue<ErrorInfo>(info);
    EXPECT_FALSE(one == two);
}

TEST(Message, ToolCallsComeInTheirOrder) {
    const AssistantMessage message = answer();
    EXPECT_TRUE(message.has_tool_calls());
    const std::vector<const ToolCall*> calls = message.tool_calls();
    ASSERT_EQ(calls.size(), 2u);
    EXPECT_EQ(calls[0]->id, "c1");
    EXPECT_EQ(calls[1]->name, "sub");
    EXPECT_FALSE(AssistantMessage().has_tool_calls());
    EXPECT_EQ(AssistantMessage().stop_reason, stop_reason::stop);
}

TEST(Message, SyntheticMessagesSayWhoMadeThem) {
    const Message message = synthetic_user_message("continue", "goal");
    EXPECT_TRUE(is_synthetic_message(message));
    EXPECT_EQ(message.metadata().get(),
              JsonObject({{"synthetic", true}, {"synthetic_source", "goal"}}));
    EXPECT_FALSE(is_synthetic_message(user_message("continue")));
    UserMessage odd;
    odd.metadata["synthetic"] = "yes";
    EXPECT_FALSE(is_synthetic_message(odd));
}

TEST(Message, CopiesLiveAndDieOnSeveralThreads) {
    Message message = answer();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([message] {
            for (int n = 0; n < 1000; ++n) {
                const Message copy = message;
                const Message changed = copy.with_run_id("t");
                EXPECT_EQ(changed.assistant()->tool_calls().size(), 2u);
            }
        });
    }
    message = Message();
    for (std::thread& thread : threads) thread.join();
}

TEST(StopReason, KnownOnesAreSharedAndOthersPass) {
    for (const std::string_view reason :
         {stop_reason::stop, stop_reason::tool_use, stop_reason::length, stop_reason::error,
          stop_reason::aborted}) {
        const SharedString one = stop_reason::shared(reason);
        EXPECT_EQ(one, reason);
        EXPECT_EQ(one.c_str(), stop_reason::shared(reason).c_str());
    }
    EXPECT_EQ(stop_reason::shared("pause_turn"), "pause_turn");
}

TEST(Message, AMessageWithoutOtherOwnersIsChangedInPlace) {
    Message message = user_message("hi");
    const UserMessage* const content = message.user();
    message = std::move(message).with_id("m1").with_run_id("r1").with_timestamp(1.5);
    EXPECT_EQ(message.user(), content);
    EXPECT_EQ(message.id(), "m1");
    EXPECT_EQ(message.run_id(), "r1");
    EXPECT_EQ(message.timestamp(), 1.5);
}

TEST(Message, WhatIsSharedIsCopiedBeforeItChanges) {
    const Message before = user_message("hi", "m1");
    Message message = before;
    message = std::move(message).with_id("m2").with_timestamp(2.5);
    EXPECT_EQ(message.id(), "m2");
    EXPECT_EQ(before.id(), "m1");
    EXPECT_FALSE(before.timestamp());
}

TEST(UserMessage, WithPicturesAndAnIdInOneExpression) {
    const Message message =
        user_message("What is this?", image_url("https://example.com/cat.png")).with_id("input-1");
    EXPECT_EQ(message.id(), "input-1");
    EXPECT_EQ(message.text(), "What is this?");
    ASSERT_EQ(message.user()->content.size(), 2u);
    EXPECT_EQ(std::get<ImageContent>(message.user()->content[1]).source,
              "https://example.com/cat.png");
    const ImageContent picture = image_bytes("\x89PNG", "image/png");
    EXPECT_EQ(picture.source, "iVBORw==");
    EXPECT_EQ(user_message("Both", {picture, picture}), user_message("Both", picture, picture));
    EXPECT_EQ(user_message("Hi", "id-1").id(), "id-1");
    EXPECT_THROW((void)image_url("cat.png"), Error);
}

TEST(UserMessage, BytesAreEncodedAsBase64) {
    EXPECT_EQ(image_bytes("", "image/png").source, "");
    EXPECT_EQ(image_bytes("f", "image/png").source, "Zg==");
    EXPECT_EQ(image_bytes("fo", "image/png").source, "Zm8=");
    EXPECT_EQ(image_bytes("foo", "image/png").source, "Zm9v");
    EXPECT_EQ(image_bytes("foob", "image/png").source, "Zm9vYg==");
}

}  // namespace
}  // namespace cubepi
