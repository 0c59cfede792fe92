#include <cubepi/provider/anthropic/event.hpp>

#include <utility>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

/// `token` is a string as it stands in the text, with its quotes and what follows it.
bool spells(std::string_view token, std::string_view word) {
    return token.size() >= word.size() + 2 && token.front() == '"' &&
           token.substr(1, word.size()) == word && token[word.size() + 1] == '"';
}

AnthropicEventType type_of(std::string_view token) {
    if (spells(token, "content_block_delta")) return AnthropicEventType::delta;
    if (spells(token, "content_block_stop")) return AnthropicEventType::block_stop;
    if (spells(token, "ping")) return AnthropicEventType::ping;
    if (spells(token, "message_stop")) return AnthropicEventType::message_stop;
    return AnthropicEventType::other;
}

AnthropicEventType type_named(std::string_view name) {
    return name.empty() ? AnthropicEventType::other : type_of('"' + std::string(name) + '"');
}

AnthropicDelta delta_of(std::string_view token) {
    if (spells(token, "text_delta")) return AnthropicDelta::text;
    if (spells(token, "input_json_delta")) return AnthropicDelta::arguments;
    if (spells(token, "thinking_delta")) return AnthropicDelta::thinking;
    if (spells(token, "signature_delta")) return AnthropicDelta::signature;
    return AnthropicDelta::other;
}

/// A string; a \u escape whose other half comes in the next delta is held back until then.
std::string_view piece_of(od::value& value, SplitText& split) {
    const std::string_view token = value.raw_json_token();
    if (token.empty() || token.front() != '"') return {};
    std::string_view plain;
    if (!split.holds_back() && value.get_string().get(plain) == simdjson::SUCCESS) return plain;
    return split.unescape(token);
}

od::field field_of(simdjson::simdjson_result<od::field> member) {
    od::field field;
    if (std::move(member).get(field) != simdjson::SUCCESS)
        throw simdjson::simdjson_error(simdjson::TAPE_ERROR);
    return field;
}

}  // namespace

bool AnthropicEventParser::parse(std::string_view name, std::string_view data) {
    event = AnthropicEvent();
    od::document document;
    if (parser_.iterate(padded_.hold(data)).get(document) != simdjson::SUCCESS) return false;
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
    bool typed = false;
    for (auto member : root) {
        od::field field = field_of(member);
        const od::raw_json_string key = field.key();
        od::value value = field.value();
        if (is(key, "type")) {
            event.type = type_of(value.raw_json_token());
            typed = true;
        } else if (is(key, "index")) {
            event.index = integer_of(value, -1);
        } else if (is(key, "delta")) {
            if (is_json_object(value)) read_delta(value.get_object());
        } else if (is(key, "error") && !value.is_null()) {
            // Gateways put their errors in any event.
            event.type = AnthropicEventType::other;
            return;
        }
        // Of a delta nothing of use follows.
        if (event.type == AnthropicEventType::delta && event.index >= 0 &&
            event.delta != AnthropicDelta::other)
            return;
    }
    if (!typed) event.type = type_named(name);
    if (event.type == AnthropicEventType::delta && event.delta == AnthropicDelta::other)
        event.type = AnthropicEventType::other;
}

void AnthropicEventParser::read_delta(od::object delta) {
    for (auto member : delta) {
        od::field field = field_of(member);
        const od::raw_json_string key = field.key();
        od::value value = field.value();
        if (is(key, "type")) {
            event.delta = delta_of(value.raw_json_token());
        } else if (is(key, "text") || is(key, "partial_json") || is(key, "thinking") ||
                   is(key, "signature")) {
            event.text = piece_of(value, split);
        }
    }
}

}  // namespace cubepi::detail
