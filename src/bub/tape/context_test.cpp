#include <gtest/gtest.h>

#include <bub/tape/tape_context.hpp>

namespace bub {
namespace {

JsonObject call(const char* id, const char* name) {
    JsonObject function;
    function["name"] = name;
    function["arguments"] = "{\"broken";
    JsonObject made;
    if (id) made["id"] = id;
    made["function"] = std::move(function);
    return made;
}

TapeEntry calls(std::vector<JsonObject> list) {
    JsonObject payload;
    payload["calls"] = JsonArray(list.begin(), list.end());
    return tape_entry("tool_call", std::move(payload));
}

TapeEntry results(JsonArray list) {
    JsonObject payload;
    payload["results"] = std::move(list);
    return tape_entry("tool_result", std::move(payload));
}

}  // namespace

TEST(Context, B10_AnchorsAreUserMessages) {
    JsonObject state;
    state["summary"] = "größer";
    const JsonArray messages = context_messages({anchor_entry("a", state), anchor_entry("b")});
    ASSERT_EQ(messages.size(), 2u);
    EXPECT_EQ(messages[0].at("role"), Json("user"));
    EXPECT_EQ(messages[0].at("content"), Json("[Anchor created: a]: {\"summary\": \"größer\"}"));
    EXPECT_EQ(messages[1].at("content"), Json("[Anchor created: b]: null"));
}

TEST(Context, ResultsBelongToTheLatestCallsByPosition) {
    const std::vector<TapeEntry> entries = {
        calls({call("a", "one"), call("b", "two")}),
        event_entry("spill.write", {}),
        results({"x"}),
        results({"stray"}),
        calls({call(nullptr, "")}),
        results(JsonArray(1, Json(JsonArray{1, nullptr}))),
    };
    const JsonArray messages = context_messages(entries);
    ASSERT_EQ(messages.size(), 5u);
    EXPECT_EQ(messages[1].at("tool_call_id"), Json("a"));
    EXPECT_EQ(messages[1].at("name"), Json("one"));
    EXPECT_FALSE(messages[2].as_object().contains("tool_call_id"));
    EXPECT_FALSE(messages[4].as_object().contains("tool_call_id"));
    EXPECT_EQ(messages[4].at("content"), Json("[1, null]"));
}

TEST(Context, HiddenEntriesAndOtherKindsAreLeftOut) {
    const std::vector<TapeEntry> entries = {tape_entry("system", {}),
                                            event_entry("run", {}),
                                            tape_entry("error", {}),
                                            tape_entry("custom", {}),
                                            message_entry("user", "no", hidden_from_context()),
                                            message_entry("user", "yes")};
    EXPECT_EQ(context_messages(entries).size(), 1u);
    EXPECT_EQ(agent_messages(entries).size(), 1u);
}

TEST(Context, B21_PartsAndOddArgumentsOfBubBecomeContent) {
    JsonObject text;
    text["type"] = "text";
    text["text"] = "look";
    JsonObject url;
    url["url"] = "data:image/png;base64,aGk=";
    JsonObject image;
    image["type"] = "image_url";
    image["image_url"] = std::move(url);
    JsonObject payload;
    payload["role"] = "user";
    payload["content"] = JsonArray{Json(text), Json(image)};
    const cubepi::MessageList messages =
        agent_messages({tape_entry("message", std::move(payload)), calls({call("a", "one")})});
    ASSERT_EQ(messages.size(), 2u);
    ASSERT_EQ(messages[0].user()->content.size(), 2u);
    const auto& picture = std::get<cubepi::ImageContent>(messages[0].user()->content[1]);
    EXPECT_EQ(picture.media_type, "image/png");
    EXPECT_EQ(picture.source, "aGk=");
    const cubepi::ToolCall* odd = messages[1].assistant()->tool_calls().at(0);
    EXPECT_TRUE(odd->arguments.empty());
    EXPECT_EQ(*odd->extra.find("raw_arguments"), Json("{\"broken"));
}

}  // namespace bub
