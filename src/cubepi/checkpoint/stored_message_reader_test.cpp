#include <cubepi/checkpoint/format/stored_message_reader.hpp>

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/sanitizer_test_support.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {
namespace {

void expect_same(StoredMessageReader& reader, std::string_view text) {
    const Message fast = reader.read(text);
    const Message slow = message_from_json(parse_lenient(text));
    EXPECT_EQ(fast, slow) << text;
    EXPECT_EQ(to_json(fast), to_json(slow)) << text;
}

TEST(StoredMessageReader, ValidText_EqualsThePlainReader) {
    StoredMessageReader reader;
    for (
        const char* text : {
            R"({"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image", "source": "aGk=",)"
            R"( "media_type": "image/png"}], "timestamp": 1700000000.5, "metadata": {"a": [1, -2, 3.5, true, null]},)"
            R"( "run_id": "r1"})",
            R"({"role": "user", "content": [], "id": "m1", "timestamp": null, "metadata": {}, "run_id": null})",
            R"({"role": "user", "content": [{"type": "text"}], "new": {"b": 18446744073709551615}})",
            R"({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"},)"
            R"( {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 9007199254740993}}],)"
            R"( "id": "m2", "stop_reason": "tool_use", "error_message": null, "error_type": null,)"
            R"( "usage": {"input_tokens": 10, "output_tokens": 5}, "timestamp": 1700000001, "provider_id": "openai",)"
            R"( "model_id": "m", "response_id": "resp", "metadata": {}, "run_id": "r1", "later": []})",
            R"({"role": "assistant", "content": [], "stop_reason": "error", "error_message": "no",)"
            R"( "error_type": "RateLimited", "status_code": 429, "retry_after": 1.5})",
            R"({"role": "tool_result", "tool_call_id": "c1", "tool_name": "add", "content": [], "details": {"x": 1},)"
            R"( "is_error": true, "id": "m3", "run_id": "r1"})",
            R"({"role": "tool_result", "tool_call_id": "c1", "tool_name": "add", "content": [], "details": NaN})",
            R"({"role": "user", "content": [{"type": "text", "text": "lone \udce9"}]})",
            R"({"role": "user", "content": [], "timestamp": "12.5"})",
            R"({"role": "assistant", "content": [], "usage": {"input_tokens": 10.0}})",
            R"({"content": [], "role": "user"})",
            R"({"role": "user", "content": [], "role": "assistant", "timestamp": 5, "timestamp": null})",
            R"({"role": "assistant", "content": [{"type": "text", "thinking": "hm", "type": "thinking"}],)"
            R"( "usage": {"input_tokens": 1}, "usage": null})",
            R"({"role": "user", "\u0069d": "m1", "content": [{"text": "late", "type": "text"}]})",
            R"({"role" : "user" , "content" : [ { "type" : "text" , "text" : "wide" } ] , "id" : null } )",
            R"({"role": "user", "content": [], "content": [{"type": "text", "text": "the last"}], "a\nb": "\u00e9"})",
        }) {
        expect_same(reader, text);
    }
}

/// Returns the result of the reader for a text: a message or the text of its error.
template <class Read>
std::string outcome_of(Read read, const std::string& text) {
    try {
        return to_python_json(to_json(read(text)));
    } catch (const Error&) {
        return "refused";
    }
}

TEST(StoredMessageReader, DamagedText_EqualsThePlainReader) {
    StoredMessageReader reader;
    const auto fast = [&](const std::string& text) { return reader.read(text); };
    const auto slow = [](const std::string& text) {
        return message_from_json(parse_lenient(text));
    };
    for (
        const std::string whole :
        {R"({"role": "user", "content": [{"type": "text", "text": "a\n\u00e9"}, {"type": "image", "source": "x"}],)"
         R"( "timestamp": 17.5, "metadata": {"a": [1, -2, true, null, {}], "b": {"c": "d"}}, "run_id": "r"})",
         R"({"role": "tool_result", "tool_call_id": "c", "tool_name": "t", "content": [], "details": null,)"
         R"( "is_error": false, "id": "m"})",
         R"({"role": "assistant", "content": [{"type": "tool_call", "id": "c", "name": "n", "arguments": {"a": 1}}],)"
         R"( "stop_reason": "stop", "error_message": null, "usage": {"input_tokens": 1}, "model_id": "m"})"}) {
        reader.read(whole);  // The buffer is full of it when damaged ones come.
        for (std::size_t i = 0; i < whole.size(); i += test_step) {
            EXPECT_EQ(outcome_of(fast, whole.substr(0, i)), outcome_of(slow, whole.substr(0, i)));
            for (const char* put : {"", " ", "\"", "\\", ",", ":", "{", "}", "[", "]", "0", "e",
                                    "-", "\n", "\xff", "}}", "\"\""}) {
                std::string text = whole;
                text.replace(i, 1, put);
                EXPECT_EQ(outcome_of(fast, text), outcome_of(slow, text)) << text;
                text = whole;
                text.insert(i, put);
                EXPECT_EQ(outcome_of(fast, text), outcome_of(slow, text)) << text;
            }
        }
    }
}

TEST(StoredMessageReader, JsonThatIsNotAMessage_IsRefused) {
    StoredMessageReader reader;
    for (
        const char* text :
        {"", "[]", "{}", R"({"role": "user"})", R"({"role": "system", "content": []})",
         R"({"role": "user", "content": [{"type": "video"}]})",
         R"({"role": "user", "content": [], "metadata": null})",
         R"({"role": "assistant", "content": [{"type": "tool_call", "name": "x", "arguments": {}}]})",
         R"({"role": "assistant", "content": [], "stop_reason": null})",
         R"({"role": "user", "content": []} x)"}) {
        EXPECT_THROW(reader.read(text), Error) << text;
    }
    expect_same(reader, R"({"role": "user", "content": []})");
}

}  // namespace
}  // namespace cubepi::detail
