#include <bub/tape/tape_entry.hpp>

#include <gtest/gtest.h>

#include <bub/tape/entry/encoding.hpp>
#include <bub/tape/entry/entry_facts.hpp>
#include <cubepi/core/error.hpp>

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

}  // namespace

TEST(TapeLine, IsWhatPythonWrites) {
    EXPECT_EQ(tape_line(full_entry()),
              "{\"id\": 17, \"kind\": \"message\", \"payload\": {\"role\": \"user\", \"content\": "
              "\"größe 你好 😀 \\\"quoted\\\" \\\\ \\n\\t\\u0001\x7f\", \"numbers\": "
              "[1, 2.5, 1.0, -0.5, null, false]}, \"meta\": {\"run_id\": \"r\"}, "
              "\"date\": \"2026-03-01T12:00:00.250000+00:00\"}\n");
}

TEST(TapeLine, IsReadAsItWasWritten) {
    EXPECT_EQ(read_tape_line(tape_line(full_entry())), full_entry());
}

TEST(TapeLine, InvalidUtf8BecomesReplacementCharacters) {
    const TapeEntry entry = message_entry("user", "a\xff\xc3");
    const auto read = read_tape_line(tape_line(entry));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->payload.at("content"), Json("a\xef\xbf\xbd\xef\xbf\xbd"));
}

TEST(TapeLine, ALineThatIsNotAnEntryIsSkipped) {
    for (const char* line :
         {"", "   ", "{not json}", "[1, 2]", "\"text\"", "17", "null", "{}",
          R"({"id": "3", "kind": "m", "payload": {}})",
          R"({"id": 3.0, "kind": "m", "payload": {}})",
          R"({"id": true, "kind": "m", "payload": {}})", R"({"id": 3, "kind": 4, "payload": {}})",
          R"({"id": 3, "kind": "m", "payload": "p"})", R"({"id": 3, "kind": "m"})",
          R"({"id": 3, "kind": "m", "payload": {})"}) {
        EXPECT_FALSE(read_tape_line(line)) << line;
        EXPECT_FALSE(detail::line_facts(line)) << line;
    }
}

TEST(TapeLine, OldLinesAndOddMetaAreRead) {
    const auto old = read_tape_line(R"({"id": 7, "kind": "m", "payload": {}, "timestamp": 0.5})");
    ASSERT_TRUE(old);
    EXPECT_EQ(old->date, "1970-01-01T00:00:00.500000+00:00");
    const auto odd = read_tape_line(R"({"id": 7, "kind": "m", "payload": {}, "meta": 3})");
    ASSERT_TRUE(odd);
    EXPECT_TRUE(odd->meta.empty());
    EXPECT_EQ(odd->date, "1970-01-01T00:00:00+00:00");
}

TEST(TapeLine, WhatPythonAcceptsBeyondJsonIsRead) {
    const auto read = read_tape_line(R"({"id": 7, "kind": "m", "payload": {"x": NaN}})");
    ASSERT_TRUE(read);
    EXPECT_TRUE(read->payload.at("x").is_null());
    EXPECT_TRUE(detail::line_facts(R"({"id": 7, "kind": "m", "payload": {"x": NaN}})"));
}

/// The views of a parsed line and of an entry agree.
TEST(TapeLine, FactsOfALineAreThoseOfItsEntry) {
    for (
        const char* line : {
            R"({"id": 1, "kind": "anchor", "payload": {"name": "a"}})",
            R"({"id": 2, "kind": "event", "payload": {"name": "run", "data": {"usage": {"total_tokens": 5, "prompt_tokens": 4, "prompt_tokens_details": {"cached_tokens": 1}}}}})",
            R"({"id": 3, "kind": "event", "payload": {"name": "run", "data": {"usage": {"total_tokens": true}}}})",
            R"({"id": 4, "kind": "event", "payload": {"name": "cubepi.run", "data": {"run_id": "r"}}})",
            R"({"id": 5, "kind": "message", "payload": {"role": "user"}, "meta": {"context": false}})",
            R"({"id": 6, "kind": "tool_result", "payload": {"results": [1, 2]}})",
            R"({"id": 7, "kind": "tool_call", "payload": {}, "meta": {"cubepi": {"position": 9, "count": 1, "messages": [{"id": "m1"}, {"id": 4}]}}})",
            R"({"id": 8, "kind": "other", "payload": {}, "meta": {"cubepi": {"messages": 3}}})",
            R"({"id": 8, "id": 9, "kind": "anchor", "kind": "event", "payload": {}, "payload": {"name": "a", "name": "b"}})",
        }) {
        const auto quick = detail::line_facts(line);
        const auto entry = read_tape_line(line);
        ASSERT_TRUE(quick && entry) << line;
        const detail::EntryFacts slow = detail::facts_of(*entry);
        EXPECT_EQ(quick->id, entry->id) << line;
        EXPECT_EQ(quick->facts.anchor, slow.anchor) << line;
        EXPECT_EQ(quick->facts.event, slow.event) << line;
        EXPECT_EQ(quick->facts.name, slow.name) << line;
        EXPECT_EQ(quick->facts.messages, slow.messages) << line;
        EXPECT_EQ(quick->facts.position, slow.position) << line;
        EXPECT_EQ(quick->facts.message_ids, slow.message_ids) << line;
        EXPECT_EQ(quick->facts.run_id, slow.run_id) << line;
        EXPECT_EQ(quick->facts.usage.has_value(), slow.usage.has_value()) << line;
    }
}

TEST(TapeLine, ALineThatIsNestedTooDeepIsNotAnEntryForBothReaders) {
    for (const std::size_t depth : {400U, 512U, 540U, 570U, 573U, 574U, 575U, 576U, 600U, 900U}) {
        const std::string line = R"({"id": 1, "kind": "m", "payload": {"x": )" +
                                 std::string(depth, '[') + std::string(depth, ']') + "}}";
        EXPECT_EQ(read_tape_line(line).has_value(), detail::line_facts(line).has_value()) << depth;
    }
}

TEST(TapeName, IsThatOfBub) {
    // words: allowed, the name of a recorded session
    const char* const session = "cli:room";
    const char* const name = "9d206d8bd1ce919f__c53a75b7909f4322";
    EXPECT_EQ(tape_name("/nonexistent/ws", session), name);
    EXPECT_EQ(tape_name("/nonexistent/./ws/", session), name);
}

TEST(TapeDate, IsReadInAllItsForms) {
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

}  // namespace bub
