#include <cubepi/provider/detail/anthropic_event.hpp>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

AnthropicEventType type_of(std::string_view name) {
    if (name == "content_block_delta") return AnthropicEventType::delta;
    if (name == "content_block_stop") return AnthropicEventType::block_stop;
    if (name == "ping") return AnthropicEventType::ping;
    if (name == "message_stop") return AnthropicEventType::message_stop;
    return AnthropicEventType::other;
}

AnthropicDelta delta_of(std::string_view name) {
    if (name == "text_delta") return AnthropicDelta::text;
    if (name == "input_json_delta") return AnthropicDelta::arguments;
    if (name == "thinking_delta") return AnthropicDelta::thinking;
    if (name == "signature_delta") return AnthropicDelta::signature;
    return AnthropicDelta::other;
}

}  // namespace

bool AnthropicEventParser::parse(std::string_view name, std::string_view data) {
    padded_.reserve(data.size() + simdjson::SIMDJSON_PADDING);
    padded_.assign(data);
    event = AnthropicEvent();
    od::document document;
    const simdjson::padded_string_view view(padded_.data(), padded_.size(), padded_.capacity());
    if (parser_.iterate(view).get(document) != simdjson::SUCCESS) return false;
    od::object root;
    if (document.get_object().get(root) != simdjson::SUCCESS) return false;
    try {
        read_root(root, name);
    } catch (const simdjson::simdjson_error&) {
        return false;
    }
    return true;
}

void AnthropicEventParser::read_root(od::object& root, std::string_view name) {
    std::string_view type = name;
    bool failed = false;
    each(root, [&](const od::raw_json_string& key, od::value value) {
        if (is(key, "type")) {
            if (is_string(value)) type = value.get_string();
        } else if (is(key, "index")) {
            event.index = integer_of(value, -1);
        } else if (is(key, "delta")) {
            if (is_object(value)) read_delta(value.get_object());
        } else if (is(key, "error")) {
            failed = !value.is_null();
        }
    });
    // Gateways put their errors in any event.
    if (!failed) event.type = type_of(type);
    if (event.type == AnthropicEventType::delta && event.delta == AnthropicDelta::other)
        event.type = AnthropicEventType::other;
}

void AnthropicEventParser::read_delta(od::object delta) {
    each(delta, [this](const od::raw_json_string& key, od::value value) {
        if (is(key, "type")) {
            if (is_string(value)) event.delta = delta_of(value.get_string());
        } else if (is(key, "text") || is(key, "partial_json") || is(key, "thinking") ||
                   is(key, "signature")) {
            event.text = text_of(value, split);
        }
    });
}

}  // namespace cubepi::detail
