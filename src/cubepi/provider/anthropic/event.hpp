#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <cubepi/provider/wire/json_text.hpp>
#include <cubepi/schema/json/padded_text.hpp>
#include <cubepi/schema/json/simdjson_walk.hpp>

namespace cubepi::detail {

/// Kinds of events of a Messages stream.
enum class AnthropicEventType : std::uint8_t {
    other,  ///< parsed as a whole: events that occur once per block or per message
    delta,  ///< a piece of text, thinking, arguments or signature
    block_stop,
    ping,
    message_stop,
};

enum class AnthropicDelta : std::uint8_t { other, text, thinking, arguments, signature };

/// One event, in any order of its keys. The views point into the parser or its scratch text.
struct AnthropicEvent {
    AnthropicEventType type = AnthropicEventType::other;
    AnthropicDelta delta = AnthropicDelta::other;
    std::int64_t index = -1;     ///< of the block at the endpoint; -1: absent
    std::string_view text = {};  ///< of a delta
};

/// Reads the frequent events in one pass and without allocating; it only reports that the others are others.
class AnthropicEventParser {
public:
    /// Returns false if `data` is not a JSON object. `name` is that of the event, for data without a type.
    bool parse(std::string_view name, std::string_view data);

    AnthropicEvent event;
    /// Half of a character from the end of the last delta.
    SplitText split;

private:
    void read_root(od::object& root, std::string_view name);
    void read_delta(od::object delta);

    od::parser parser_;
    PaddedText padded_;
};

}  // namespace cubepi::detail
