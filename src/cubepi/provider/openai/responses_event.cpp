#include <cubepi/provider/openai/responses_event.hpp>

#include <cubepi/provider/openai/usage.hpp>

namespace cubepi::detail {

namespace {

constexpr OpenAIUsageNames usage_names = {
    .input = "input_tokens",
    .output = "output_tokens",
    .input_details = "input_tokens_details",
    .output_details = "output_tokens_details",
    .cached = {},
};

std::string_view string_of(od::value& value) {
    return is_json_string(value) ? std::string_view(value.get_string()) : std::string_view();
}

/// A string without escapes, as it stands in the text: names of types and ids.
std::string_view word_of(od::value& value) {
    if (!is_json_string(value)) return {};
    const std::string_view token = value.raw_json_token();
    return token.substr(1, token.rfind('"') - 1);
}

/// Empty for null.
std::string_view present(od::value& value) {
    const std::string_view raw = raw_of(value);
    return raw.starts_with('n') ? std::string_view() : raw;
}

}  // namespace

void OpenAIResponsesEvent::clear() noexcept {
    type = item_id = delta_token = item = error = {};
    output_index = -1;
    delta.reset();
    output = status = response_id = model = service_tier = incomplete_reason = {};
    usage.reset();
    is_response = false;
}

bool OpenAIResponsesEventParser::walk(std::string_view data,
                                      void (OpenAIResponsesEventParser::*read)(od::object&)) {
    event.clear();
    od::document document;
    if (parser_.iterate(padded_.hold(data)).get(document) != simdjson::SUCCESS) return false;
    od::object root;
    if (document.get_object().get(root) != simdjson::SUCCESS) return false;
    try {
        (this->*read)(root);
    } catch (const simdjson::simdjson_error&) {
        return false;
    }
    return true;
}

bool OpenAIResponsesEventParser::parse(std::string_view data) {
    if (!walk(data, &OpenAIResponsesEventParser::read_event)) return false;
    if (!event.is_response) return true;
    if (!walk(data, &OpenAIResponsesEventParser::read_response)) return false;
    event.is_response = true;
    return true;
}

void OpenAIResponsesEventParser::read_delta(od::value& value) {
    if (!is_json_string(value)) return;
    event.delta_token = value.raw_json_token();
    std::string_view plain;
    if (value.get_string().get(plain) == simdjson::SUCCESS) event.delta = plain;
}

void OpenAIResponsesEventParser::read_event(od::object& root) {
    has_output_ = false;
    for (auto member : root) {
        od::field field;
        if (std::move(member).get(field) != simdjson::SUCCESS)
            throw simdjson::simdjson_error(simdjson::TAPE_ERROR);
        read_member(field.key(), field.value());
        // Deltas are nearly all there is; what follows (logprobs, padding against listeners) is of no use.
        const bool whole_delta =
            event.delta && event.output_index >= 0 && event.type.ends_with(".delta");
        if (whole_delta) return;
    }
    event.is_response = event.type.empty() && has_output_;
}

void OpenAIResponsesEventParser::read_member(const od::raw_json_string& key, od::value& value) {
    switch (*key.raw()) {
        case 'd':
            if (is(key, "delta")) read_delta(value);
            break;
        case 't':
            if (is(key, "type")) event.type = word_of(value);
            break;
        case 'i':
            if (is(key, "item_id")) {
                event.item_id = word_of(value);
            } else if (is(key, "item")) {
                event.item = present(value);
            }
            break;
        case 'o':
            if (is(key, "output_index")) {
                event.output_index = integer_of(value, -1);
            } else if (is(key, "output")) {
                has_output_ = is_json_array(value);
            }
            break;
        case 'r':
            if (is(key, "response") && is_json_object(value)) {
                od::object response = value.get_object();
                read_response(response);
            }
            break;
        case 'e':
            if (is(key, "error")) event.error = present(value);
            break;
        default: break;
    }
}

void OpenAIResponsesEventParser::read_response(od::object& response) {
    each(response, [this](const od::raw_json_string& key, od::value value) {
        if (is(key, "id")) {
            event.response_id = string_of(value);
        } else if (is(key, "status")) {
            event.status = string_of(value);
        } else if (is(key, "model")) {
            event.model = string_of(value);
        } else if (is(key, "service_tier")) {
            event.service_tier = string_of(value);
        } else if (is(key, "usage")) {
            if (!is_json_object(value)) return;
            if (auto usage = read_openai_usage(value.get_object(), usage_names))
                event.usage = usage;
        } else if (is(key, "error")) {
            event.error = present(value);
        } else if (is(key, "output")) {
            if (is_json_array(value)) event.output = raw_of(value);
        } else if (is(key, "incomplete_details") && is_json_object(value)) {
            od::object details = value.get_object();
            each(details, [this](const od::raw_json_string& inner, od::value reason) {
                if (is(inner, "reason")) event.incomplete_reason = string_of(reason);
            });
        }
    });
}

}  // namespace cubepi::detail
