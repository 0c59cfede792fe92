#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/usage.hpp>
#include <cubepi/schema/json/padded_text.hpp>
#include <cubepi/schema/json/simdjson_walk.hpp>

namespace cubepi::detail {

/// The content of one event of a Responses stream, with its keys in any order. The views are valid until the next
/// event.
struct OpenAIResponsesEvent {
    std::string_view type;
    std::string_view item_id;
    std::int64_t output_index = -1;
    std::string_view delta_token;           ///< the JSON text, with its quotes
    std::optional<std::string_view> delta;  ///< absent: it contains half of a character
    std::string_view item;                  ///< raw JSON
    std::string_view error;                 ///< raw JSON; of the event itself, or of its response
    // Of its response.
    std::string_view output;  ///< raw JSON
    std::string_view status;
    std::string_view response_id;
    std::string_view model;
    std::string_view service_tier;
    std::string_view incomplete_reason;
    std::optional<Usage> usage;
    bool is_response = false;  ///< not an event but a whole response: the answer was not streamed

    /// Forgets the last event.
    void clear() noexcept;
};

/// Reads the events of a Responses stream, one after the other. Reuses its memory.
class OpenAIResponsesEventParser {
public:
    /// Returns false if `data` is not a JSON object.
    bool parse(std::string_view data);

    OpenAIResponsesEvent event;

private:
    bool walk(std::string_view data, void (OpenAIResponsesEventParser::*read)(od::object&));
    void read_event(od::object& root);
    void read_member(const od::raw_json_string& key, od::value& value);
    void read_delta(od::value& value);
    void read_response(od::object& response);

    od::parser parser_;
    PaddedText padded_;
    bool has_output_ = false;  ///< the event itself has an output, as a whole response does
};

}  // namespace cubepi::detail
