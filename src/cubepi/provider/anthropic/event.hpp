#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <cubepi/provider/wire/json_text.hpp>
#include <cubepi/schema/json/padded_text.hpp>
#include <cubepi/schema/json/simdjson_walk.hpp>

namespace cubepi::detail {

/// What an event of a Messages stream is about.
enum class AnthropicEventType : std::uint8_t {
    other,  ///< read from the whole JSON: everything that comes once per block or per message
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
    std::int64_t index = -1;     ///< of the block, as the endpoint counts; -1: not said
    std::string_view text = {};  ///< of a delta
};

/// Reads the events that come by the thousand in one pass and without memory of their own; it only says of the others
/// that they are others.
class AnthropicEventParser {
public:
    /// False when `data` is not JSON, or not an object. `name` is the event's, for data that does not say its type.
    bool parse(std::string_view name, std::string_view data);

    AnthropicEvent event;
    /// Half of a character that the last delta kept back.
    SplitText split;

private:
    void read_root(od::object& root, std::string_view name);
    void read_delta(od::object delta);

    od::parser parser_;
    PaddedText padded_;
};

}  // namespace cubepi::detail
