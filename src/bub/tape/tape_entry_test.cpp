#include <bub/tape/tape_entry.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/entry/message_entries.hpp>
#include <bub/tape/support/encoding.hpp>
#include <bub/tape/tape_context.hpp>
#include <cubepi/core/error.hpp>

// Entries as lines of a tape, as messages of a context, and made of messages of an agent.

namespace bub {
namespace {

TapeEntry full_entry() {
    JsonObject payload;
    payload["role"] = "user";
    payload["content"] = "größe 你好 😀 \"quoted\" \\ \n\t\x01\x7f";
    payload["numbers"] = JsonArray{1, 2.5, 1.0, -0.5, nullptr, false};
    TapeEntry entry = tape_entry("message", std::move(payload));
    entry.id = 17;
    entry.meta["run_id"] = "r";
    entry.date = "2026-03-01T12:00:00.250000+00:00";
    return entry;
}

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

cubepi::Message answer_with_calls(int count) {
    cubepi::AssistantMessage answer;
    for (int i = 0; i < count; ++i) {
        cubepi::ToolCall call;
        call.id = "c" + std::to_string(i);
        call.name = "add";
        answer.content.push_back(std::move(call));
    }
    return cubepi::Message(std::move(answer));
}

cubepi::Message numbered_result(int number) {
    cubepi::ToolResultMessage message;
    message.tool_call_id = "c" + std::to_string(number);
    message.tool_name = "add";
    cubepi::TextContent text;
    text.text = "result " + std::to_string(number);
    message.content.push_back(std::move(text));
    return cubepi::Message(std::move(message));
}

}  // namespace

TEST(TapeLine, TapeLine_IsWhatPythonWrites) {
    EXPECT_EQ(tape_line(full_entry()),
              "{\"id\": 17, \"kind\": \"message\", \"payload\": {\"role\": \"user\", \"content\": "
              "\"größe 你好 😀 \\\"quoted\\\" \\\\ \\n\\t\\u0001\x7f\", \"numbers\": "
              "[1, 2.5, 1.0, -0.5, null, false]}, \"meta\": {\"run_id\": \"r\"}, "
              "\"date\": \"2026-03-01T12:00:00.250000+00:00\"}\n");
}

TEST(TapeLine, Read_ReturnsWhatWasWritten) {
    EXPECT_EQ(read_tape_line(tape_line(full_entry())), full_entry());
}

TEST(TapeLine, InvalidUtf8_BecomesReplacementCharacters) {
    const TapeEntry entry = message_entry("user", "a\xff\xc3");
    const auto read = read_tape_line(tape_line(entry));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->payload.at("content"), Json("a\xef\xbf\xbd\xef\xbf\xbd"));
}

TEST(TapeLine, LineThatIsNotAnEntry_IsSkipped) {
    for (const char* line :
         {"", "   ", "{not json}", "[1, 2]", "\"text\"", "17", "null", "{}",
          R"({"id": "3", "kind": "m", "payload": {}})",
          R"({"id": 3.0, "kind": "m", "payload": {}})",
          R"({"id": true, "kind": "m", "payload": {}})", R"({"id": 3, "kind": 4, "payload": {}})",
          R"({"id": 3, "kind": "m", "payload": "p"})", R"({"id": 3, "kind": "m"})",
          R"({"id": 3, "kind": "m", "payload": {})"}) {
        EXPECT_FALSE(read_tape_line(line)) << line;
        EXPECT_FALSE(detail::line_fields(line)) << line;
    }
}

TEST(TapeLine, OldLinesAndOddMeta_AreRead) {
    const auto old = read_tape_line(R"({"id": 7, "kind": "m", "payload": {}, "timestamp": 0.5})");
    ASSERT_TRUE(old);
    EXPECT_EQ(old->date, "1970-01-01T00:00:00.500000+00:00");
    const auto odd = read_tape_line(R"({"id": 7, "kind": "m", "payload": {}, "meta": 3})");
    ASSERT_TRUE(odd);
    EXPECT_TRUE(odd->meta.empty());
    EXPECT_EQ(odd->date, "1970-01-01T00:00:00+00:00");
}

TEST(TapeLine, PythonExtensionsOfJson_AreRead) {
    const auto read = read_tape_line(R"({"id": 7, "kind": "m", "payload": {"x": NaN}})");
    ASSERT_TRUE(read);
    EXPECT_TRUE(read->payload.at("x").is_null());
    EXPECT_TRUE(detail::line_fields(R"({"id": 7, "kind": "m", "payload": {"x": NaN}})"));
}

/// The views of a parsed line and of an entry agree.
std::string fields_text(const char* line) {
    const auto found = detail::line_fields(line);
    if (!found) return "none";
    const detail::EntryFields& fields = found->fields;
    std::string text = std::to_string(found->id) + (fields.anchor ? " anchor" : "") +
                       (fields.event ? " event" : "") + " " + fields.name + fields.run_id + " +" +
                       std::to_string(fields.messages);
    if (fields.position) text += " at " + std::to_string(*fields.position);
    for (const std::string& id : fields.message_ids) text += " " + id;
    if (fields.usage) text += " " + std::to_string(fields.usage->total) + " tokens";
    return text;
}

TEST(TapeLine, FieldsOfLine_AreRead) {
    EXPECT_EQ(fields_text(R"({"id": 1, "kind": "anchor", "payload": {"name": "a"}})"),
              "1 anchor a +0");
    EXPECT_EQ(
        fields_text(
            R"({"id": 2, "kind": "event", "payload": {"name": "run", "data": {"usage": {"total_tokens": 5, "prompt_tokens": 4, "prompt_tokens_details": {"cached_tokens": 1}}}}})"),
        "2 event run +0 5 tokens");
    EXPECT_EQ(
        fields_text(
            R"({"id": 3, "kind": "event", "payload": {"name": "run", "data": {"usage": {"total_tokens": true}}}})"),
        "3 event run +0");
    EXPECT_EQ(
        fields_text(
            R"({"id": 4, "kind": "event", "payload": {"name": "cubepi.run", "data": {"run_id": "r"}}})"),
        "4 event cubepi.runr +0");
    EXPECT_EQ(
        fields_text(
            R"({"id": 5, "kind": "message", "payload": {"role": "user"}, "meta": {"context": false}})"),
        "5  +0");
    EXPECT_EQ(fields_text(R"({"id": 6, "kind": "tool_result", "payload": {"results": [1, 2]}})"),
              "6  +2");
    EXPECT_EQ(
        fields_text(
            R"({"id": 7, "kind": "tool_call", "payload": {}, "meta": {"cubepi": {"position": 9, "count": 1, "messages": [{"id": "m1"}, {"id": 4}]}}})"),
        "7  +1 at 9 m1");
    EXPECT_EQ(
        fields_text(
            R"({"id": 8, "kind": "other", "payload": {}, "meta": {"cubepi": {"messages": 3}}})"),
        "8  +0");
    EXPECT_EQ(
        fields_text(
            R"({"id": 8, "id": 9, "kind": "anchor", "kind": "event", "payload": {}, "payload": {"name": "a", "name": "b"}})"),
        "9 event b +0");
}

TEST(TapeName, TapeName_IsThatOfBub) {
    // words: allowed, the name of a recorded session
    const char* const session = "cli:room";
    const char* const name = "9d206d8bd1ce919f__c53a75b7909f4322";
    EXPECT_EQ(tape_name("/nonexistent/ws", session), name);
    EXPECT_EQ(tape_name("/nonexistent/./ws/", session), name);
}

TEST(TapeDate, AllForms_AreRead) {
    using detail::parse_date;
    const auto noon = parse_date("2026-03-01T12:00:00+00:00");
    ASSERT_TRUE(noon);
    for (const char* same :
         {"2026-03-01T12:00:00Z", "2026-03-01 12:00", "2026-03-01T12", "20260301T120000Z",
          "2026-03-01T14:00:00+02:00", "2026-03-01T06:30:00-05:30", "2026-03-01T12:00:00.000"})
        EXPECT_EQ(parse_date(same), noon) << same;
    EXPECT_EQ(parse_date("2026-03-01T12:00:00.5"), *noon + 500'000);
    EXPECT_EQ(*parse_date("2026-03-01", true) - *parse_date("2026-03-01"), 86'400'000'000 - 1);
    for (const char* same : {"2026-W09-7T12:00", "2026W097T12"})
        EXPECT_EQ(parse_date(same), noon) << same;
    EXPECT_EQ(parse_date("2026-W01"), parse_date("2025-12-29"));
    EXPECT_EQ(parse_date("2020-W53-5"), parse_date("2021-01-01"));
    for (const char* none : {"2025-W53-1", "2026-W00-1", "2026-W01-8", "2026-W01-", "2026-W1"})
        EXPECT_FALSE(parse_date(none)) << none;
    for (const char* none :
         {"", "soon", "2026", "2026-13-01", "2026-02-29", "2026-03-01T", "2026-03-01T25:00",
          "2026-03-01T12:60", "2026-03-01T12:00:00.", "2026-03-01T12:00+", "2026-03-01x"})
        EXPECT_FALSE(parse_date(none)) << none;
    EXPECT_EQ(detail::format_date(-1), "1969-12-31T23:59:59.999999+00:00");
}

TEST(Context, B10_Anchors_AreUserMessages) {
    JsonObject state;
    state["summary"] = "größer";
    const JsonArray messages = context_messages({anchor_entry("a", state), anchor_entry("b")});
    ASSERT_EQ(messages.size(), 2u);
    EXPECT_EQ(messages[0].at("role"), Json("user"));
    EXPECT_EQ(messages[0].at("content"), Json("[Anchor created: a]: {\"summary\": \"größer\"}"));
    EXPECT_EQ(messages[1].at("content"), Json("[Anchor created: b]: null"));
}

TEST(Context, Results_BelongToLatestCallsByPosition) {
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

TEST(Context, HiddenEntriesAndOtherKinds_AreLeftOut) {
    const std::vector<TapeEntry> entries = {tape_entry("system", {}),
                                            event_entry("run", {}),
                                            tape_entry("error", {}),
                                            tape_entry("custom", {}),
                                            message_entry("user", "no", hidden_from_context()),
                                            message_entry("user", "yes")};
    EXPECT_EQ(context_messages(entries).size(), 1u);
    EXPECT_EQ(agent_messages(entries).size(), 1u);
}

TEST(Context, B21_BubPartsAndArguments_BecomeContent) {
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

// If the work per result grew with the number of earlier results, this would take hours.
TEST(MessageEntries, ResultsOfManyCalls_TakeLinearTime) {
    constexpr int count = 20'000;
    detail::MessageEntries entries;
    std::vector<TapeEntry> made;
    entries.add(answer_with_calls(count), made);
    for (int i = count; i-- > 0;) entries.add(numbered_result(i), made);
    ASSERT_EQ(made.size(), count + 1u);
    EXPECT_EQ(made[1].kind, entry_kind::event);
    EXPECT_EQ(made.back().kind, entry_kind::tool_result);
    const JsonArray& texts = made.back().payload.at("results").as_array();
    ASSERT_EQ(texts.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(texts.front(), Json("result 0"));
    EXPECT_EQ(texts.back(), Json("result " + std::to_string(count - 1)));
    EXPECT_FALSE(entries.expects("c0"));
}

TEST(MessageEntries, Resume_KeepsTheResultsSoFar) {
    detail::MessageEntries first;
    std::vector<TapeEntry> made;
    first.add(answer_with_calls(3), made);
    first.add(numbered_result(2), made);
    first.add(numbered_result(2), made);  // the same call twice: the first result counts
    first.add(numbered_result(0), made);
    std::vector<TapeEntry> newest_first(made.rbegin(), made.rend());
    detail::MessageEntries second;
    second.resume(newest_first);
    EXPECT_TRUE(second.expects("c1"));
    std::vector<TapeEntry> rest;
    second.add(numbered_result(1), rest);
    ASSERT_EQ(rest.size(), 1u);
    EXPECT_EQ(rest[0].kind, entry_kind::tool_result);
    const JsonArray expected{"result 0", "result 1", "result 2"};
    EXPECT_EQ(rest[0].payload.at("results").as_array(), expected);
}

}  // namespace bub
