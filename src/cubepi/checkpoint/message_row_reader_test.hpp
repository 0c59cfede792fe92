// Compares the fast reader of rows with the plain reader: it returns what that returns, and throws what that throws.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/format/message_row.hpp>
#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

inline std::string packed(const Json& value) {
    std::string bytes;
    append_msgpack(bytes, value);
    return bytes;
}

/// Returns the message in its stored form, or the error.
template <class Read>
std::string outcome_of(Read read) {
    try {
        const Message message = read();
        return packed(to_json(message));
    } catch (const Error& error) {
        return "error " + std::to_string(static_cast<int>(error.code())) + ": " + error.what();
    }
}

/// Compares the two readers.
class MessageRowComparison {
public:
    /// Returns false, after a failure of the test, if the readers differ.
    bool expect_same(std::string_view payload, std::string_view metadata) {
        // In an allocation of its size, so that AddressSanitizer detects reading after the end.
        const std::unique_ptr<char[]> exact(new char[payload.size()]);
        payload.copy(exact.get(), payload.size());
        const std::string_view bytes(exact.get(), payload.size());
        const std::string slow = outcome_of([&] { return read_message_row(bytes, metadata); });
        const std::string fast = outcome_of([&] { return reader.read(bytes, metadata); });
        EXPECT_EQ(fast, slow) << metadata << '\n' << ::testing::PrintToString(payload);
        if (slow.starts_with("error ")) ++refused;
        return fast == slow;
    }

    /// The message with the metadata that the server has of it.
    bool expect_same(const JsonObject& message) {
        const Json* metadata = message.if_contains("metadata");
        const std::string payload = packed(message);
        return expect_same(payload, metadata ? server_json_text(*metadata) : "{}");
    }

    bool expect_same(std::string_view message) {
        return expect_same(parse_lenient(message).as_object());
    }

    MessageRowReader reader;
    int refused = 0;
};

class MessageRowReaderTest : public ::testing::Test, public MessageRowComparison {};

/// Compares them for rows of a server, which are pairs of `payload` in hex and `metadata`.
inline void expect_same_rows(const std::vector<std::string>& values) {
    MessageRowComparison readers;
    for (std::size_t row = 0; row < values.size(); row += 2) {
        std::string payload;
        for (std::size_t i = 0; i < values[row].size(); i += 2)
            payload += static_cast<char>(std::stoi(values[row].substr(i, 2), nullptr, 16));
        readers.expect_same(payload, values[row + 1]);
    }
}

inline constexpr std::array<std::string_view, 12> stored_messages = {
    R"({"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image", "source": "aGk=",
        "media_type": "image/png"}], "timestamp": 1700000000.5, "metadata": {"b": [1, -2, 3.5, true, null], "a": 1e300},
        "run_id": "r1"})",
    R"({"role": "user", "content": [], "id": "m1", "timestamp": null, "metadata": {}, "run_id": null})",
    R"({"role": "user", "content": [{"type": "text"}], "new": {"b": 18446744073709551615}})",
    R"({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 9007199254740993}}], "id": "m2",
        "stop_reason": "tool_use", "error_message": null, "error_type": null, "usage": {"input_tokens": 10,
        "output_tokens": 5, "cache_write_1h_tokens": 3000000000}, "timestamp": 1700000001, "provider_id": "openai",
        "model_id": "m", "response_id": "resp", "metadata": {}, "run_id": "r1", "later": []})",
    R"({"role": "assistant", "content": [], "stop_reason": "error", "error_message": "no", "error_type": "RateLimited",
        "status_code": 429, "retry_after": 1.5})",
    R"({"role": "assistant", "content": [], "usage": {"input_tokens": 10.0, "new": 1}})",
    R"({"role": "tool_result", "tool_call_id": "c1", "tool_name": "add", "content": [], "details": {"x": 1},
        "is_error": true, "id": "m3", "run_id": "r1"})",
    R"({"role": "tool_result", "tool_call_id": "c1", "tool_name": "add", "content": [], "details": NaN, "is_error": 1})",
    R"({"role": "user", "content": [], "timestamp": "12.5"})",
    R"({"role": "user", "content": [], "timestamp": Infinity})",
    R"({"content": [{"text": "no kind"}, {"text": "late", "type": "text"}], "role": "user"})",
    R"({"role": "user", "content": [{"type": "text", "text": "lone \udce9 \u0000 \ud83d\ude00"}], "\u00e9": "\u00e9"})",
};

}  // namespace cubepi::detail
