#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/usage.hpp>
#include <cubepi/provider/wire/json_text.hpp>
#include <cubepi/schema/json/padded_text.hpp>
#include <cubepi/schema/json/simdjson_walk.hpp>

namespace cubepi::detail {

/// A piece of a call.
struct OpenAIChatCallPiece {
    std::int64_t index = -1;
    std::string_view id;
    std::string_view name;
    std::string_view arguments;
};

/// The content of one chunk, with its keys in any order. The views point into the parser or its scratch texts.
struct OpenAIChatChunk {
    std::string_view id;
    std::string_view thinking;
    std::string_view thinking_field;
    std::string_view text;
    std::string_view refusal;
    std::string_view thinking_details;  ///< raw JSON
    std::string_view finish_reason;
    // Read until the first of them was received: they are the same in all chunks.
    std::string_view model;
    std::string_view service_tier;
    std::string_view system_fingerprint;
    std::string_view error;  ///< raw JSON
    bool is_error = false;   ///< the chunk itself is an error: {"object": "error", "message": ...}
    std::vector<OpenAIChatCallPiece> calls;
    std::optional<Usage> usage;
    bool whole = false;  ///< has the whole answer so far ("message"), not only new text ("delta")

    void clear() {
        clear_content();
        id = finish_reason = error = model = service_tier = system_fingerprint = {};
        is_error = false;
        usage.reset();
    }
    void clear_content() {
        thinking = thinking_field = text = refusal = thinking_details = {};
        calls.clear();
        whole = false;
    }
};

/// Reads the chunks of a Chat Completions stream, one after the other. Reuses its memory.
class OpenAIChatChunkParser {
public:
    /// Returns false if `data` is not a JSON object; otherwise `chunk` has its content, until the next call.
    bool parse(std::string_view data);

    OpenAIChatChunk chunk;
    bool has_details = false;  ///< the details of the endpoint were received
    // Half of a character from the end of the last chunk.
    SplitText thinking;
    SplitText text;
    SplitText refusal;

private:
    void read_root(od::object& root);
    void read_usage(od::value& value);
    void read_detail(const od::raw_json_string& key, od::value& value);
    bool read_choice(od::object choice);
    void read_delta(od::object delta);
    void read_content(od::value& value);
    void read_calls(od::array calls);
    void read_call(od::object call);

    od::parser parser_;
    PaddedText padded_;
    std::int64_t choice_ = -1;  ///< the index of the choice that is read; -1: none was received yet
    SplitText arguments_;
};

}  // namespace cubepi::detail
