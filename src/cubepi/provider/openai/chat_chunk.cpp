#include <cubepi/provider/openai/chat_chunk.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/provider/openai/usage.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {

namespace {

constexpr OpenAIUsageNames usage_names = {
    .input = "prompt_tokens",
    .output = "completion_tokens",
    .input_details = "prompt_tokens_details",
    .output_details = "completion_tokens_details",
    .cached = "prompt_cache_hit_tokens",
};

/// A string; a \u escape whose other half comes in the next chunk is held back until then.
std::string_view text_of(od::value& value, SplitText& split) {
    if (!is_json_string(value)) return {};
    const std::string_view token = value.raw_json_token();
    if (!split.holds_back()) {
        std::string_view plain;
        if (value.get_string().get(plain) == simdjson::SUCCESS) return plain;
    }
    return split.unescape(token);
}

}  // namespace

bool OpenAIChatChunkParser::parse(std::string_view data) {
    chunk.clear();
    arguments_.keep.clear();
    od::document document;
    if (parser_.iterate(padded_.hold(data)).get(document) != simdjson::SUCCESS) return false;
    od::object root;
    if (document.get_object().get(root) != simdjson::SUCCESS) return false;
    try {
        read_root(root);
    } catch (const simdjson::simdjson_error&) {
        return false;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::parse) throw;
        return false;
    }
    return true;
}

void OpenAIChatChunkParser::read_root(od::object& root) {
    each(root, [this](const od::raw_json_string& key, od::value value) {
        if (is(key, "choices")) {
            if (!is_json_array(value)) return;
            bool found = false;
            od::array choices = value.get_array();
            each(choices, [&](od::value& choice) {
                if (!found && is_json_object(choice)) found = read_choice(choice.get_object());
            });
        } else if (is(key, "id")) {
            if (is_json_string(value)) chunk.id = value.get_string();
        } else if (is(key, "usage")) {
            read_usage(value);
        } else if (is(key, "x_groq")) {
            if (!is_json_object(value)) return;
            od::object groq = value.get_object();
            each(groq, [this](const od::raw_json_string& inner, od::value part) {
                if (is(inner, "usage")) read_usage(part);
            });
        } else if (is(key, "object")) {
            chunk.is_error = value.raw_json_token().starts_with("\"error\"");
        } else if (is(key, "error")) {
            const std::string_view raw = raw_of(value);
            if (!raw.empty() && raw.front() != 'n') chunk.error = raw;
        } else if (!has_details) {
            read_detail(key, value);
        }
    });
    has_details = has_details || !chunk.model.empty();
}

void OpenAIChatChunkParser::read_detail(const od::raw_json_string& key, od::value& value) {
    if (!is_json_string(value)) return;
    if (is(key, "model")) {
        chunk.model = value.get_string();
    } else if (is(key, "service_tier")) {
        chunk.service_tier = value.get_string();
    } else if (is(key, "system_fingerprint")) {
        chunk.system_fingerprint = value.get_string();
    }
}

void OpenAIChatChunkParser::read_usage(od::value& value) {
    if (!is_json_object(value)) return;
    if (auto usage = read_openai_usage(value.get_object(), usage_names)) chunk.usage = usage;
}

/// Returns false for another choice than the first one received: if several were requested, only that one is used.
bool OpenAIChatChunkParser::read_choice(od::object choice) {
    bool has_delta = false;
    bool another = false;
    each(choice, [&](const od::raw_json_string& key, od::value value) {
        if (is(key, "index")) {
            const std::int64_t index = integer_of(value, -1);
            if (choice_ < 0) choice_ = index;
            another = index >= 0 && index != choice_;
        } else if (is(key, "usage")) {
            read_usage(value);
        } else if (is(key, "delta")) {
            if (!is_json_object(value)) return;
            // Some servers send what is new and all of it so far, side by side.
            chunk.clear_content();
            has_delta = true;
            read_delta(value.get_object());
        } else if (is(key, "message")) {
            if (has_delta || !is_json_object(value)) return;
            chunk.whole = true;
            read_delta(value.get_object());
        } else if (is(key, "finish_reason")) {
            if (is_json_string(value)) chunk.finish_reason = value.get_string();
        }
    });
    if (another) {
        chunk.clear_content();
        chunk.finish_reason = {};
    }
    return !another;
}

void OpenAIChatChunkParser::read_delta(od::object delta) {
    each(delta, [this](const od::raw_json_string& key, od::value value) {
        if (is(key, "content")) {
            read_content(value);
        } else if (is(key, "tool_calls")) {
            if (is_json_array(value)) read_calls(value.get_array());
            if (is_json_object(value)) read_call(value.get_object());
        } else if (is(key, "reasoning_content")) {
            const std::string_view piece = text_of(value, thinking);
            if (piece.empty()) return;
            chunk.thinking = piece;
            chunk.thinking_field = "reasoning_content";
        } else if (is(key, "reasoning")) {
            if (chunk.thinking_field == "reasoning_content") return;
            const std::string_view piece = text_of(value, thinking);
            if (piece.empty()) return;
            chunk.thinking = piece;
            chunk.thinking_field = "reasoning";
        } else if (is(key, "reasoning_details")) {
            if (is_json_array(value)) chunk.thinking_details = raw_of(value);
        } else if (is(key, "refusal")) {
            chunk.refusal = text_of(value, refusal);
        }
    });
}

/// A string, or (Mistral) a list of parts.
void OpenAIChatChunkParser::read_content(od::value& value) {
    if (!is_json_array(value)) {
        chunk.text = text_of(value, text);
        return;
    }
    const Json parts = parse_json(raw_of(value));
    text.scratch.clear();
    thinking.scratch.clear();
    for (const Json& part : parts.get_array()) {
        collect_content_part(part, text.scratch, thinking.scratch);
    }
    chunk.text = text.scratch;
    if (!thinking.scratch.empty()) {
        chunk.thinking = thinking.scratch;
        chunk.thinking_field = "content";
    }
}

void OpenAIChatChunkParser::read_calls(od::array calls) {
    each(calls, [this](od::value& item) {
        if (is_json_object(item)) read_call(item.get_object());
    });
}

void OpenAIChatChunkParser::read_call(od::object call) {
    OpenAIChatCallPiece piece;
    each(call, [&](const od::raw_json_string& key, od::value value) {
        if (is(key, "index")) {
            piece.index = integer_of(value, -1);
        } else if (is(key, "id")) {
            if (is_json_string(value)) piece.id = value.get_string();
        } else if (is(key, "function") && is_json_object(value)) {
            od::object function = value.get_object();
            each(function, [&](const od::raw_json_string& inner, od::value part) {
                if (is(inner, "name")) {
                    if (is_json_string(part)) piece.name = part.get_string();
                } else if (is(inner, "arguments")) {
                    // Some servers send the object itself instead of its text.
                    piece.arguments =
                        is_json_object(part) ? raw_of(part) : text_of(part, arguments_);
                }
            });
        }
    });
    // Scratch text is of one piece only: what is split between chunks is kept by hand.
    if (!piece.arguments.empty() && piece.arguments.data() == arguments_.scratch.data()) {
        arguments_.keep.push_back(arguments_.scratch);
        piece.arguments = arguments_.keep.back();
    }
    chunk.calls.push_back(piece);
}

}  // namespace cubepi::detail
