// Recorded, generated and damaged rows.
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

namespace cubepi::detail {
namespace {

TEST_F(MessageRowReaderTest, D71_reads_the_recorded_databases_as_the_plain_reader_does) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(CUBEPI_TEST_DATABASES)) {
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

TEST_F(MessageRowReaderTest, reads_messages_of_every_kind_as_the_plain_reader_does) {
    Messages made;
    constexpr int count = 20'000 / test_step;
    for (int i = 0; i < count; ++i) ASSERT_TRUE(expect_same(made.next())) << i;
    // Both happen often.
    EXPECT_GT(refused, count / 10);
    EXPECT_LT(refused, count / 2);
}

TEST_F(MessageRowReaderTest, reads_damaged_data_as_the_plain_reader_does) {
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
