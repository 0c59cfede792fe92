#include <cubepi/checkpoint/message_row_reader_test.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cubepi::detail {
namespace {

TEST_F(MessageRowReaderTest, reads_what_the_plain_reader_reads) {
    for (const std::string_view message : stored_messages) expect_same(message);
    EXPECT_EQ(refused, 0);
}

TEST_F(MessageRowReaderTest, shares_the_texts_that_messages_have_in_common) {
    const std::string user =
        packed(parse_lenient(R"({"role": "user", "content": [], "metadata": {}, "run_id": "r"})"));
    const std::string assistant = packed(parse_lenient(
        R"({"role": "assistant", "content": [{"type": "text", "text": "a"}], "usage": {"input_tokens": 1},
            "error_message": null, "provider_id": "p", "model_id": "m", "metadata": {}, "run_id": "r"})"));
    const std::string result = packed(parse_lenient(
        R"({"role": "tool_result", "tool_call_id": "c", "tool_name": "t", "content": [], "details": null,
            "is_error": false, "id": "i", "timestamp": 1.5, "metadata": {"a": 1}, "run_id": "r"})"));
    const Message first = reader.read(user, "{}");
    const Message second = reader.read(assistant, "{}");
    const Message third = reader.read(result, R"({"a": 1})");
    EXPECT_EQ(second.run_id().c_str(), first.run_id().c_str());
    EXPECT_EQ(third.run_id().c_str(), first.run_id().c_str());
    EXPECT_EQ(reader.read(assistant, "{}").assistant()->model_id.c_str(),
              second.assistant()->model_id.c_str());
}

TEST_F(MessageRowReaderTest, refuses_what_the_plain_reader_refuses) {
    const std::vector<std::string_view> broken = {
        "{}",
        R"({"role": "user"})",
        R"({"role": 1, "content": []})",
        R"({"role": "system", "content": []})",
        R"({"role": "user", "content": [{"type": "video"}]})",
        R"({"role": "user", "content": [{"type": "thinking", "thinking": "hm"}]})",
        R"({"role": "user", "content": {}, "id": 1})",
        R"({"role": "user", "content": [], "id": 1})",
        R"({"role": "assistant", "content": [{"type": "tool_call", "name": "x", "arguments": {}}]})",
        R"({"role": "assistant", "content": [{"type": "tool_call", "id": "c", "name": "x", "arguments": []}]})",
        R"({"role": "assistant", "content": [], "stop_reason": null})",
        R"({"role": "tool_result", "content": [], "tool_name": "x"})",
    };
    for (const std::string_view message : broken) expect_same(message);
    EXPECT_EQ(refused, static_cast<int>(broken.size()));
    expect_same("\x90", "{}");
    expect_same("", "{}");
}

TEST_F(MessageRowReaderTest, D71_the_metadata_of_the_column_wins_unless_it_is_that_of_the_payload) {
    const std::vector<std::string_view> columns = {"{}",
                                                   "{ }",
                                                   R"({"a": 1})",
                                                   R"({"a": 1.0, "b": [2]})",
                                                   R"({"b": [2], "a": 1})",
                                                   "null",
                                                   "[]",
                                                   "1",
                                                   "",
                                                   "{",
                                                   R"({"a": 1} x)"};
    for (const std::string_view stored :
         {R"({"role": "user", "content": []})",
          R"({"role": "user", "content": [], "metadata": {}})",
          R"({"role": "user", "content": [], "metadata": null})",
          R"({"role": "user", "content": [], "metadata": [1]})",
          R"({"role": "user", "content": [], "metadata": {"a": 1}})",
          R"({"role": "user", "metadata": {"b": [2], "a": 1}, "content": []})",
          R"({"role": "user", "content": [], "metadata": {"a": 1, "b": NaN}})"}) {
        const std::string payload = packed(parse_lenient(stored));
        for (const std::string_view column : columns) expect_same(payload, column);
    }
    const std::string payload =
        packed(parse_lenient(R"({"role": "user", "content": [], "metadata": {"b": 2, "a": 1.0}})"));
    EXPECT_EQ(Json(reader.read(payload, R"({"a": 1, "b": 2})").metadata().get()),
              parse_lenient(R"({"b": 2, "a": 1.0})"));
    EXPECT_EQ(Json(reader.read(payload, R"({"a": 3})").metadata().get()),
              parse_lenient(R"({"a": 3})"));
    EXPECT_TRUE(reader.read(payload, "{}").metadata().empty());
}

TEST_F(MessageRowReaderTest, the_last_of_several_members_with_one_key_counts) {
    const auto map = [](const std::vector<std::pair<std::string_view, Json>>& members) {
        std::string bytes(1, static_cast<char>(0x80U | members.size()));
        for (const auto& [key, value] : members) bytes += packed(Json(key)) + packed(value);
        return bytes;
    };
    const JsonArray one{JsonObject{{"type", "text"}, {"text", "a"}}};
    expect_same(map({{"role", "user"}, {"content", one}, {"content", JsonArray()}}), "{}");
    expect_same(map({{"role", "user"},
                     {"content", JsonArray()},
                     {"content", one},
                     {"x", 1},
                     {"y", 2},
                     {"x", 3}}),
                "{}");
    expect_same(map({{"role", "user"}, {"content", one}, {"role", "assistant"}}), "{}");
    expect_same(map({{"role", "user"}, {"content", one}, {"timestamp", 5}, {"timestamp", nullptr}}),
                "{}");
    expect_same(map({{"role", "user"}, {"content", one}, {"id", "a"}, {"id", nullptr}}), "{}");
    expect_same(map({{"role", "user"},
                     {"content", one},
                     {"metadata", JsonObject{{"a", 1}}},
                     {"metadata", JsonObject()}}),
                "{}");
    expect_same(map({{"role", "assistant"},
                     {"content", one},
                     {"usage", JsonObject{{"input_tokens", 1}}},
                     {"usage", nullptr}}),
                "{}");
    EXPECT_EQ(refused, 0);
}

TEST_F(MessageRowReaderTest, reads_every_format_of_a_value) {
    // Texts and keys as binary data, and with sizes and numbers of more bytes than necessary.
    const std::string user = std::string("\x83\xa4role\xa4user\xa7") + "content\x90\xa9timestamp";
    for (const std::string& number : {std::string("\x05"),
                                      std::string("\xff"),
                                      std::string("\xcc\x05"),
                                      std::string("\xcd\x00\x05", 3),
                                      std::string("\xce\x00\x00\x00\x05", 5),
                                      std::string("\xcf\x00\x00\x00\x00\x00\x00\x00\x05", 9),
                                      std::string(9, '\xff').replace(0, 1, "\xcf"),
                                      std::string("\xd0\xf0"),
                                      std::string("\xd1\xff\x00", 3),
                                      std::string("\xd2\xff\xff\xff\x00", 5),
                                      std::string(9, '\xfe').replace(0, 1, "\xd3"),
                                      std::string("\xca\x3f\x80\x00\x00", 5),
                                      std::string("\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00", 9),
                                      std::string("\xca\x7f\xc0\x00\x00", 5),
                                      std::string("\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00", 9),
                                      std::string("\xc2"),
                                      std::string("\xc4\x01\x35"),
                                      std::string("\xd9\x01\x35"),
                                      std::string("\xda\x00\x01\x35", 4),
                                      std::string("\xdb\x00\x00\x00\x01\x35", 6),
                                      std::string("\xc1"),
                                      std::string("\xd4\x01\x01")}) {
        expect_same(user + number, "{}");
    }
    for (const std::string& key :
         {std::string("\xc4\x02id"), std::string("\xd9\x02id"), std::string("\xda\x00\x02id", 5),
          std::string("\xdb\x00\x00\x00\x02id", 7),
          std::string("\xa3i\xff"
                      "d"),
          std::string("\x01")}) {
        expect_same(std::string("\xde\x00\x03\xa4role\xa4user\xa7"
                                "content\xdd\x00\x00\x00\x00",
                                25) +
                        key + "\xa1m",
                    "{}");
    }
    expect_same(std::string("\xdf\x00\x00\x00\x02\xa4role\xa4user\xa7"
                            "content\xdc\x00\x00",
                            26),
                "{}");
    expect_same(std::string("\xdf\xff\xff\xff\xff\xa4role\xa4user\xa7"
                            "content\xdd\xff\xff\xff\xff",
                            28),
                "{}");
}

TEST_F(MessageRowReaderTest, the_limit_of_nesting_is_that_of_the_plain_reader) {
    for (const char* role : {"user", "assistant"}) {
        for (int depth = 560; depth < 590; ++depth) {
            Json nested = JsonArray();
            for (int i = 0; i < depth; ++i) nested = JsonArray{std::move(nested)};
            JsonObject block{{"type", "text"}, {"text", "a"}, {"later", nested}};
            expect_same(packed(JsonObject{{"role", role}, {"content", JsonArray{block}}}), "{}");
            expect_same(
                packed(JsonObject{{"role", role}, {"content", JsonArray()}, {"later", nested}}),
                "{}");
        }
    }
    EXPECT_GT(refused, 0);
    EXPECT_LT(refused, 120);
}

}  // namespace
}  // namespace cubepi::detail
