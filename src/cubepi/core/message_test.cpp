#include <cubepi/core/message.hpp>

#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/message_list.hpp>

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

TEST(Message, Message_IsOneWordWithItsType) {
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

TEST(Message, D22_ChangedSource_DoesNotChangeTheMessage) {
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

TEST(Message, Copies_ShareAndEqualContentIsEqual) {
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

TEST(Message, WithId_LeavesTheOriginalUnchanged) {
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

TEST(Message, Equality_ComparesEveryField) {
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

TEST(Message, D9_Errors_AreComparedByContent) {
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

TEST(Message, ToolCalls_ComeInTheirOrder) {
    const AssistantMessage message = answer();
    EXPECT_TRUE(message.has_tool_calls());
    const std::vector<const ToolCall*> calls = message.tool_calls();
    ASSERT_EQ(calls.size(), 2u);
    EXPECT_EQ(calls[0]->id, "c1");
    EXPECT_EQ(calls[1]->name, "sub");
    EXPECT_FALSE(AssistantMessage().has_tool_calls());
    EXPECT_EQ(AssistantMessage().stop_reason, stop_reason::stop);
}

TEST(Message, SyntheticMessages_NameTheirSource) {
    const Message message = synthetic_user_message("continue", "goal");
    EXPECT_TRUE(is_synthetic_message(message));
    EXPECT_EQ(message.metadata().get(),
              JsonObject({{"synthetic", true}, {"synthetic_source", "goal"}}));
    EXPECT_FALSE(is_synthetic_message(user_message("continue")));
    UserMessage odd;
    odd.metadata["synthetic"] = "yes";
    EXPECT_FALSE(is_synthetic_message(odd));
}

TEST(Message, CopiesOnSeveralThreads_AreSafe) {
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

TEST(StopReason, KnownReasons_AreSharedAndOthersPass) {
    for (const std::string_view reason :
         {stop_reason::stop, stop_reason::tool_use, stop_reason::length, stop_reason::error,
          stop_reason::aborted}) {
        const SharedString one = stop_reason::shared(reason);
        EXPECT_EQ(one, reason);
        EXPECT_EQ(one.c_str(), stop_reason::shared(reason).c_str());
    }
    EXPECT_EQ(stop_reason::shared("pause_turn"), "pause_turn");
}

TEST(Message, MessageWithOneOwner_IsChangedInPlace) {
    Message message = user_message("hi");
    const UserMessage* const content = message.user();
    message = std::move(message).with_id("m1").with_run_id("r1").with_timestamp(1.5);
    EXPECT_EQ(message.user(), content);
    EXPECT_EQ(message.id(), "m1");
    EXPECT_EQ(message.run_id(), "r1");
    EXPECT_EQ(message.timestamp(), 1.5);
}

TEST(Message, SharedMessage_IsCopiedBeforeItChanges) {
    const Message before = user_message("hi", "m1");
    Message message = before;
    message = std::move(message).with_id("m2").with_timestamp(2.5);
    EXPECT_EQ(message.id(), "m2");
    EXPECT_EQ(before.id(), "m1");
    EXPECT_FALSE(before.timestamp());
}

TEST(UserMessage, PicturesAndId_FitOneExpression) {
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

TEST(UserMessage, Bytes_AreEncodedAsBase64) {
    EXPECT_EQ(image_bytes("", "image/png").source, "");
    EXPECT_EQ(image_bytes("f", "image/png").source, "Zg==");
    EXPECT_EQ(image_bytes("fo", "image/png").source, "Zm8=");
    EXPECT_EQ(image_bytes("foo", "image/png").source, "Zm9v");
    EXPECT_EQ(image_bytes("foob", "image/png").source, "Zm9vYg==");
}

TEST(AgentToolResult, TextBlockOrBlocks_MakeAResult) {
    EXPECT_EQ(AgentToolResult("a").text(), "a");
    EXPECT_EQ(AgentToolResult(std::string("b")).text(), "b");
    EXPECT_EQ(AgentToolResult(Content(TextContent{"c"})).text(), "c");
    ContentList<Content> blocks;
    blocks.emplace_back(TextContent{"d"});
    blocks.emplace_back(ImageContent{"aGk=", "image/png"});
    blocks.emplace_back(TextContent{"e"});
    const AgentToolResult result(blocks);
    EXPECT_EQ(result.text(), "de");
    EXPECT_EQ(result.content, blocks);
    EXPECT_EQ(AgentToolResult().text(), "");
}

TEST(AgentToolResult, Failure_IsSetOnlyWhenKnown) {
    EXPECT_EQ(AgentToolResult("a").is_error, std::nullopt);
    const AgentToolResult failed = AgentToolResult::error("no such file");
    EXPECT_EQ(failed.is_error, true);
    EXPECT_EQ(failed.text(), "no such file");
}

TEST(AgentToolResult, Json_HasEveryField) {
    AgentToolResult result("2");
    EXPECT_EQ(boost::json::serialize(to_json(result)),
              R"({"content":[{"type":"text","text":"2"}],"details":null,"is_error":null,)"
              R"("terminate":null})");
    result.details = JsonObject{{"rows", 3}};
    result.is_error = false;
    result.terminate = true;
    EXPECT_EQ(boost::json::serialize(to_json(result)),
              R"({"content":[{"type":"text","text":"2"}],"details":{"rows":3},"is_error":false,)"
              R"("terminate":true})");
}

Message numbered(int number) { return user_message(std::to_string(number)); }

MessageList numbers(int from, int count) {
    MessageList list;
    for (int i = 0; i < count; ++i) list.push_back(numbered(from + i));
    return list;
}

std::string spelled(const MessageList& list) {
    std::string text;
    for (const Message& one : list) text += one.text() + " ";
    return text;
}

TEST(MessageList, List_HoldsMessages) {
    MessageList list;
    EXPECT_TRUE(list.empty());
    EXPECT_EQ(list.begin(), list.end());
    list = numbers(0, 40);
    EXPECT_EQ(list.size(), 40u);
    EXPECT_EQ(list[7].text(), "7");
    EXPECT_EQ(list.front().text(), "0");
    EXPECT_EQ(list.back().text(), "39");
    EXPECT_EQ(list, MessageList(list.to_vector()));
    EXPECT_EQ(spelled({numbered(1), numbered(2)}), "1 2 ");
    list.clear();
    EXPECT_EQ(list, MessageList());
    EXPECT_NE(list, numbers(0, 1));
}

TEST(MessageList, Copies_ShareTheirMessages) {
    const MessageList list = numbers(0, 10);
    const MessageList copy = list;
    EXPECT_EQ(copy.begin(), list.begin());
    MessageList longer = list;
    const Message* const before = longer.begin();
    longer.push_back(numbered(10));
    EXPECT_EQ(longer.begin(), before) << "the newest copy appends in place";
    EXPECT_EQ(list.size(), 10u);
    EXPECT_EQ(spelled(longer), spelled(list) + "10 ");
}

TEST(MessageList, D22_AppendToCopy_IsNotSeenByOthers) {
    const MessageList base = numbers(0, 5);
    MessageList left = base;
    MessageList right = base;
    left.push_back(numbered(100));
    right.push_back(numbered(200));
    left.push_back(numbered(101));
    EXPECT_EQ(spelled(base), "0 1 2 3 4 ");
    EXPECT_EQ(spelled(left), "0 1 2 3 4 100 101 ");
    EXPECT_EQ(spelled(right), "0 1 2 3 4 200 ");
}

TEST(MessageList, Truncate_LeavesOtherCopiesWhole) {
    const MessageList base = numbers(0, 6);
    MessageList cut = base;
    cut.truncate(9);
    EXPECT_EQ(cut, base);
    cut.truncate(2);
    EXPECT_EQ(spelled(cut), "0 1 ");
    cut.push_back(numbered(50));
    EXPECT_EQ(spelled(cut), "0 1 50 ");
    EXPECT_EQ(spelled(base), "0 1 2 3 4 5 ");
    cut.truncate(0);
    EXPECT_TRUE(cut.empty());
    cut.push_back(numbered(1));
    EXPECT_EQ(spelled(cut), "1 ");
}

TEST(MessageList, LastAndWithFront_LeaveTheOriginalUnchanged) {
    const MessageList base = numbers(0, 4);
    EXPECT_EQ(spelled(base.last(2)), "2 3 ");
    EXPECT_EQ(base.last(0), MessageList());
    EXPECT_EQ(base.last(9).begin(), base.begin());
    EXPECT_EQ(MessageList().last(0), MessageList());
    EXPECT_EQ(spelled(base.with_front(numbered(9))), "9 0 1 2 3 ");
    EXPECT_EQ(spelled(MessageList().with_front(numbered(9))), "9 ");
    EXPECT_EQ(spelled(base), "0 1 2 3 ");
}

TEST(MessageList, Append_AcceptsListsAndItself) {
    MessageList list = numbers(0, 3);
    list.append(numbers(7, 2));
    EXPECT_EQ(spelled(list), "0 1 2 7 8 ");
    list.append(list);
    EXPECT_EQ(spelled(list), "0 1 2 7 8 0 1 2 7 8 ");
    MessageList none;
    none.append(list);
    EXPECT_EQ(none.begin(), list.begin());
    none.append(MessageList());
    EXPECT_EQ(none, list);
    none.push_back(numbered(1));
    EXPECT_EQ(list.size(), 10u);
}

TEST(MessageList, MovedFromList_IsEmpty) {
    MessageList list = numbers(0, 3);
    const MessageList taken = std::move(list);
    EXPECT_TRUE(list.empty());  // NOLINT(bugprone-use-after-move)
    list.push_back(numbered(5));
    EXPECT_EQ(spelled(list), "5 ");
    EXPECT_EQ(taken.size(), 3u);
    MessageList assigned = numbers(0, 9);
    assigned = std::move(list);
    EXPECT_EQ(spelled(assigned), "5 ");
    assigned = *&assigned;
    EXPECT_EQ(spelled(assigned), "5 ");
}

TEST(MessageList, CopiesOnSeveralThreads_AppendAndRead) {
    const MessageList base = numbers(0, 5);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([copy = base, i]() mutable {
            for (int n = 0; n < 100; ++n) copy.push_back(numbered(1000 * i + n));
            for (int n = 0; n < 100; ++n) {
                EXPECT_EQ(copy[static_cast<std::size_t>(5 + n)].text(),
                          std::to_string(1000 * i + n));
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(spelled(base), "0 1 2 3 4 ");
}

TEST(MessageList, GrowingList_LeavesOlderCopiesReadable) {
    MessageList list = numbers(0, 1);
    std::vector<std::thread> readers;
    for (int i = 1; i <= 40; ++i) {
        if (i % 10 == 0) {
            readers.emplace_back([copy = list] {
                for (int n = 0; n < static_cast<int>(copy.size()); ++n) {
                    EXPECT_EQ(copy[static_cast<std::size_t>(n)].text(), std::to_string(n));
                }
            });
        }
        list.push_back(numbered(i));
    }
    for (std::thread& reader : readers) reader.join();
}

TEST(MessageList, Take_MovesFromListWithOneOwner) {
    MessageList list;
    list.push_back(numbered(1));
    const Message copy = list[0];
    EXPECT_TRUE(std::move(list).take(0).is_same(copy));

    MessageList shared;
    shared.push_back(numbered(2));
    const MessageList other = shared;
    EXPECT_EQ(std::move(shared).take(0).text(), "2");
    EXPECT_EQ(other[0].text(), "2");
}

TEST(MessageList, EmptyMessage_IsRefused) {
    MessageList list;
    EXPECT_THROW(list.push_back(Message()), Error);
    EXPECT_THROW((MessageList{user_message("a"), Message()}), Error);
    EXPECT_TRUE(list.empty());
}

}  // namespace
}  // namespace cubepi
