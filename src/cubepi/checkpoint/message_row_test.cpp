#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/message_row_reader_test.hpp>
#include <cubepi/core/sanitizer_test_support.hpp>

#include "source_tree.hpp"

// Recorded, generated and damaged rows.

namespace cubepi::detail {

namespace {

TEST_F(MessageRowReaderTest, ValidRow_EqualsThePlainReader) {
    for (const std::string_view message : stored_messages) expect_same(message);
    EXPECT_EQ(refused, 0);
}

TEST_F(MessageRowReaderTest, RepeatedTexts_AreSharedBetweenMessages) {
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

TEST_F(MessageRowReaderTest, InvalidRow_IsRefusedByBothReaders) {
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

TEST_F(MessageRowReaderTest, D71_MetadataColumn_OverridesDifferentPayload) {
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

TEST_F(MessageRowReaderTest, DuplicateKeys_UseTheLastValue) {
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

TEST_F(MessageRowReaderTest, EveryValueFormat_IsRead) {
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

TEST_F(MessageRowReaderTest, NestingLimit_EqualsThePlainReader) {
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

TEST_F(MessageRowReaderTest, D71_RecordedDatabases_EqualThePlainReader) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(
             cubepi::testing::source_path("tests/conformance/databases"))) {
        if (entry.path().extension() != ".json") continue;
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(file),
                               std::istreambuf_iterator<char>()};
        const Json recorded = parse_lenient(text);
        for (const auto& thread : recorded.at("threads").as_object()) {
            const Json* list = thread.value().as_object().if_contains("messages");
            if (!list || !list->is_array()) continue;
            for (const Json& message : list->get_array()) {
                ASSERT_TRUE(expect_same(message.as_object())) << entry.path();
                ++count;
            }
        }
    }
    EXPECT_GT(count, 100);
}

/// Makes stored messages of every kind, from the same numbers in every run.
class Messages {
public:
    JsonObject next() {
        JsonObject message;
        const std::size_t role = below(3);
        const char* const names[] = {"user", "assistant", "tool_result"};
        if (below(20) != 0) message["role"] = names[role];
        if (role == 2) {
            message["tool_call_id"] = text();
            message["tool_name"] = text();
        }
        message["content"] = blocks(role == 1);
        std::vector<std::string_view> keys = {"id", "timestamp", "metadata", "run_id"};
        if (role == 1) {
            keys.insert(keys.end(), {"stop_reason", "error_message", "error_type", "error_code",
                                     "status_code", "retry_after", "tokens_in", "context_window",
                                     "usage", "provider_id", "model_id", "response_id"});
        } else if (role == 2) {
            keys.insert(keys.end(), {"details", "is_error"});
        }
        for (const std::string_view key : keys) {
            if (below(4) != 0) message[key] = field(key);
        }
        while (below(4) == 0) message[text()] = value(0);
        return message;
    }

    std::size_t below(std::size_t end) { return engine_() % end; }

private:
    std::string text() {
        static const std::vector<std::string> texts = {"",
                                                       "a",
                                                       "run-1",
                                                       "gpt",
                                                       "stop",
                                                       "tool_use",
                                                       "error",
                                                       "aborted",
                                                       "RateLimited",
                                                       "Zo\xc3\xab",
                                                       "\xf0\x9f\x98\x80",
                                                       "12",
                                                       "true",
                                                       "usage",
                                                       std::string("n\0l", 3),
                                                       "text",
                                                       "a \"quoted\" \\ text\n",
                                                       std::string(31, 'x'),
                                                       std::string(32, 'y'),
                                                       std::string(255, 'z'),
                                                       std::string(256, '\t'),
                                                       std::string(70000, 'w')};
        return texts[below(below(30) == 0 ? texts.size() : texts.size() - 1)];
    }

    Json number() {
        constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
        const Json numbers[] = {0,
                                1,
                                -1,
                                127,
                                128,
                                -32,
                                -33,
                                255,
                                256,
                                -128,
                                -129,
                                65535,
                                65536,
                                -32769,
                                4294967295,
                                4294967296,
                                9007199254740993,
                                most,
                                -most - 1,
                                static_cast<std::uint64_t>(most) + 1,
                                std::numeric_limits<std::uint64_t>::max(),
                                0.5,
                                -0.0,
                                1e300,
                                1700000000.25,
                                std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()};
        return numbers[below(std::size(numbers))];
    }

    Json value(int depth) {
        switch (below(depth < 4 ? 8 : 6)) {
            case 0: return nullptr;
            case 1: return below(2) == 0;
            case 2:
            case 3: return number();
            case 4:
            case 5: return Json(text());
            case 6: {
                JsonArray array;
                for (std::size_t left = below(below(10) == 0 ? 20 : 4); left > 0; --left)
                    array.push_back(value(depth + 1));
                return array;
            }
            default: return object(depth);
        }
    }

    JsonObject object(int depth) {
        JsonObject members;
        for (std::size_t left = below(below(10) == 0 ? 20 : 4); left > 0; --left)
            members[text() + std::to_string(left)] = value(depth + 1);
        return members;
    }

    /// Mostly of the type of the field.
    Json field(std::string_view key) {
        if (below(12) == 0) return value(0);
        if (key == "timestamp" || key == "status_code" || key == "retry_after" ||
            key == "tokens_in")
            return number();
        if (key == "metadata") return object(0);
        if (key == "details") return value(0);
        if (key == "is_error") return below(2) == 0;
        if (key == "usage") return usage();
        const bool is_error = key.starts_with("error") || key == "context_window";
        return is_error && below(8) != 0 ? Json() : Json(text());
    }

    Json usage() {
        if (below(6) == 0) return nullptr;
        JsonObject counts;
        for (const char* key :
             {"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
              "reasoning_tokens", "cache_write_1h_tokens", "later"}) {
            if (below(2) == 0) counts[key] = below(3) == 0 ? number() : Json(below(100000));
        }
        return counts;
    }

    JsonArray blocks(bool is_assistant) {
        JsonArray array;
        for (std::size_t left = below(4); left > 0; --left)
            array.push_back(block(below(30) == 0 ? 4 : below(is_assistant ? 4 : 2)));
        return array;
    }

    JsonObject block(std::size_t kind) {
        const std::vector<std::vector<std::string_view>> fields = {{"text"},
                                                                   {"source", "media_type"},
                                                                   {"thinking"},
                                                                   {"id", "name", "arguments"},
                                                                   {"text"}};
        const char* const names[] = {"text", "image", "thinking", "tool_call", "video"};
        JsonObject members;
        if (below(20) != 0) members["type"] = names[kind];
        for (const std::string_view key : fields[kind]) {
            if (below(20) == 0) continue;
            members[key] = below(20) == 0       ? value(1)
                           : key == "arguments" ? Json(object(1))
                                                : Json(text());
        }
        while (below(4) == 0) members[text()] = value(1);
        return members;
    }

    std::mt19937 engine_{71};
};

TEST_F(MessageRowReaderTest, MessagesOfEveryKind_EqualThePlainReader) {
    Messages made;
    constexpr int count = 20'000 / test_step;
    for (int i = 0; i < count; ++i) ASSERT_TRUE(expect_same(made.next())) << i;
    // Both happen often.
    EXPECT_GT(refused, count / 10);
    EXPECT_LT(refused, count / 2);
}

TEST_F(MessageRowReaderTest, DamagedData_EqualsThePlainReader) {
    Messages made;
    std::vector<std::string> payloads;
    for (const std::string_view message : stored_messages)
        payloads.push_back(packed(parse_lenient(message)));
    while (payloads.size() < 24) {
        std::string payload = packed(made.next());
        if (payload.size() < 200) payloads.push_back(std::move(payload));
    }
    constexpr std::string_view bytes(
        "\x00\x01\x7f\x80\x81\x8f\x90\x91\xa0\xa1\xbf\xc0\xc1\xc2\xc4\xc9\xca\xcb\xcc\xcf\xd0\xd3"
        "\xd4"
        "\xd9\xda\xdb\xdc\xdd\xde\xdf\xe0\xff",
        32);
    for (const std::string& whole : payloads) {
        expect_same(whole, "{}");
        for (std::size_t i = 0; i < whole.size(); i += test_step) {
            expect_same(std::string_view(whole).substr(0, i), "{}");
            for (const char byte : bytes) {
                std::string payload = whole;
                payload[i] = byte;
                ASSERT_TRUE(expect_same(payload, "{}"));
            }
            std::string payload = whole;
            payload.erase(i, 1);
            ASSERT_TRUE(expect_same(payload, "{}"));
            payload.insert(i, 2, bytes[i % bytes.size()]);
            ASSERT_TRUE(expect_same(payload, "{}"));
        }
        expect_same(whole + '\xc0', "{}");
    }
}

}  // namespace

}  // namespace cubepi::detail
