#include <cubepi/checkpoint/detail/stored_message_reader.hpp>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <simdjson.h>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

namespace dom = simdjson::dom;

/// The message is not of the common form: message_from_json takes it, or says what is wrong with it.
struct Unusual {};

std::string_view text_of(dom::element value) {
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS) throw Unusual();
    return text;
}

std::string_view text_or_nothing(dom::element value) {
    return value.is_null() ? std::string_view() : text_of(value);
}

double number_of(dom::element value) {
    double number = 0;
    if (value.get(number) != simdjson::SUCCESS) throw Unusual();
    return number;
}

dom::object object_of(dom::element value) {
    dom::object object;
    if (value.get(object) != simdjson::SUCCESS) throw Unusual();
    return object;
}

dom::array array_of(dom::element value) {
    dom::array array;
    if (value.get(array) != simdjson::SUCCESS) throw Unusual();
    return array;
}

void require_null(dom::element value) {
    if (!value.is_null()) throw Unusual();
}

Json to_json_value(dom::element value);

JsonObject to_json_object(dom::object from) {
    JsonObject object;
    object.reserve(from.size());
    for (const dom::key_value_pair field : from) {
        object.insert_or_assign(field.key, to_json_value(field.value));
    }
    return object;
}

Json to_json_value(dom::element value) {
    switch (value.type()) {
        case dom::element_type::OBJECT: return to_json_object(object_of(value));
        case dom::element_type::ARRAY: {
            JsonArray array;
            for (const dom::element item : array_of(value)) array.push_back(to_json_value(item));
            return array;
        }
        case dom::element_type::STRING: return Json(text_of(value));
        case dom::element_type::INT64: return Json(std::int64_t(value));
        case dom::element_type::UINT64: return Json(std::uint64_t(value));
        case dom::element_type::DOUBLE: return Json(number_of(value));
        case dom::element_type::BOOL: return Json(bool(value));
        case dom::element_type::NULL_VALUE: return nullptr;
    }
    return nullptr;
}

LazyObject lazy_object(dom::element value) {
    const dom::object from = object_of(value);
    if (from.begin() == from.end()) return {};
    return to_json_object(from);
}

void keep(LazyObject& extra, const dom::key_value_pair& field) {
    extra[field.key] = to_json_value(field.value);
}

Usage usage_of(dom::element value) {
    Usage usage;
    for (const dom::key_value_pair field : object_of(value)) {
        TokenCount* count = field.key == "input_tokens"         ? &usage.input_tokens
                            : field.key == "output_tokens"      ? &usage.output_tokens
                            : field.key == "cache_read_tokens"  ? &usage.cache_read_tokens
                            : field.key == "cache_write_tokens" ? &usage.cache_write_tokens
                            : field.key == "reasoning_tokens"   ? &usage.reasoning_tokens
                                                                : nullptr;
        if (!count) throw Unusual();
        std::int64_t number = 0;
        if (field.value.get(number) != simdjson::SUCCESS) throw Unusual();
        *count = TokenCount(number);
    }
    return usage;
}

}  // namespace

struct StoredMessageReader::State {
    /// The last value of a text that neighbouring messages repeat.
    class Recent {
    public:
        const SharedString& get(std::string_view text) {
            if (!(last_ == text)) last_ = SharedString(text);
            return last_;
        }

    private:
        SharedString last_;
    };

    dom::parser parser;
    std::vector<char> buffer;
    Recent run_id, tool_name, call_name, provider_id, model_id, media_type;

    Message read(std::string_view text) {
        // SQLite's memory has no room behind the text, which the parser reads (and ignores).
        buffer.resize(text.size() + simdjson::SIMDJSON_PADDING);
        std::memcpy(buffer.data(), text.data(), text.size());
        dom::element root;
        if (parser.parse(buffer.data(), text.size(), false).get(root) != simdjson::SUCCESS)
            throw Unusual();
        const dom::object object = object_of(root);
        dom::element role;
        if (object["role"].get(role) != simdjson::SUCCESS) throw Unusual();
        const std::string_view name = text_of(role);
        if (name == "assistant") return read_assistant(object);
        if (name == "tool_result") return read_tool_result(object);
        if (name == "user") return read_user(object);
        throw Unusual();
    }

    Message read_user(dom::object from) {
        UserMessage message;
        bool has_content = false;
        for (const dom::key_value_pair field : from) {
            if (field.key == "content") {
                message.content = read_content(field.value);
                has_content = true;
            } else if (!read_common(message, field)) {
                keep(message.extra, field);
            }
        }
        if (!has_content) throw Unusual();
        return message;
    }

    Message read_tool_result(dom::object from) {
        ToolResultMessage message;
        bool has_content = false, has_call = false, has_name = false;
        for (const dom::key_value_pair field : from) {
            if (field.key == "content") {
                message.content = read_content(field.value);
                has_content = true;
            } else if (field.key == "tool_call_id") {
                message.tool_call_id = text_of(field.value);
                has_call = true;
            } else if (field.key == "tool_name") {
                message.tool_name = tool_name.get(text_of(field.value));
                has_name = true;
            } else if (field.key == "details") {
                message.details = to_json_value(field.value);
            } else if (field.key == "is_error") {
                if (field.value.get(message.is_error) != simdjson::SUCCESS) throw Unusual();
            } else if (!read_common(message, field)) {
                keep(message.extra, field);
            }
        }
        if (!has_content || !has_call || !has_name) throw Unusual();
        return message;
    }

    Message read_assistant(dom::object from) {
        AssistantMessage message;
        bool has_content = false;
        for (const dom::key_value_pair field : from) {
            if (field.key == "content") {
                read_assistant_content(message, field.value);
                has_content = true;
            } else if (field.key == "stop_reason") {
                message.stop_reason = stop_reason::shared(text_of(field.value));
            } else if (field.key == "usage") {
                if (!field.value.is_null()) message.usage = usage_of(field.value);
            } else if (field.key == "provider_id") {
                message.provider_id = provider_id.get(text_of(field.value));
            } else if (field.key == "model_id") {
                message.model_id = model_id.get(text_of(field.value));
            } else if (field.key == "response_id") {
                message.response_id = SharedString(text_or_nothing(field.value));
            } else if (is_error_key(field.key)) {
                require_null(field.value);
            } else if (!read_common(message, field)) {
                keep(message.extra, field);
            }
        }
        if (!has_content) throw Unusual();
        return message;
    }

    static bool is_error_key(std::string_view key) {
        return key == "error_message" || key == "error_type" || key == "error_code" ||
               key == "status_code" || key == "retry_after" || key == "tokens_in" ||
               key == "context_window";
    }

    /// What all roles have. False when the key is none of these.
    template <class M>
    bool read_common(M& message, const dom::key_value_pair& field) {
        if (field.key == "role") {
        } else if (field.key == "id") {
            message.id = text_or_nothing(field.value);
        } else if (field.key == "timestamp") {
            if (!field.value.is_null()) message.timestamp = number_of(field.value);
        } else if (field.key == "metadata") {
            message.metadata = lazy_object(field.value);
        } else if (field.key == "run_id") {
            message.run_id = run_id.get(text_or_nothing(field.value));
        } else {
            return false;
        }
        return true;
    }

    static std::string_view type_of(dom::object block) {
        dom::element type;
        if (block["type"].get(type) != simdjson::SUCCESS) throw Unusual();
        return text_of(type);
    }

    ContentList<Content> read_content(dom::element value) {
        const dom::array blocks = array_of(value);
        ContentList<Content> content;
        content.reserve(blocks.size());
        for (const dom::element item : blocks) {
            const dom::object block = object_of(item);
            const std::string_view type = type_of(block);
            if (type == "text") {
                content.emplace_back(read_text(block));
            } else if (type == "image") {
                content.emplace_back(read_image(block));
            } else {
                throw Unusual();
            }
        }
        return content;
    }

    void read_assistant_content(AssistantMessage& message, dom::element value) {
        const dom::array blocks = array_of(value);
        message.content.clear();
        message.content.reserve(blocks.size());
        for (const dom::element item : blocks) {
            const dom::object block = object_of(item);
            const std::string_view type = type_of(block);
            if (type == "text") {
                message.content.emplace_back(read_text(block));
            } else if (type == "tool_call") {
                message.content.emplace_back(read_tool_call(block));
            } else if (type == "thinking") {
                message.content.emplace_back(read_thinking(block));
            } else if (type == "image") {
                message.content.emplace_back(read_image(block));
            } else {
                throw Unusual();
            }
        }
    }

    static TextContent read_text(dom::object from) {
        TextContent block;
        for (const dom::key_value_pair field : from) {
            if (field.key == "text") {
                block.text = text_of(field.value);
            } else if (field.key != "type") {
                keep(block.extra, field);
            }
        }
        return block;
    }

    static ThinkingContent read_thinking(dom::object from) {
        ThinkingContent block;
        for (const dom::key_value_pair field : from) {
            if (field.key == "thinking") {
                block.thinking = text_of(field.value);
            } else if (field.key != "type") {
                keep(block.extra, field);
            }
        }
        return block;
    }

    ImageContent read_image(dom::object from) {
        ImageContent block;
        for (const dom::key_value_pair field : from) {
            if (field.key == "source") {
                block.source = text_of(field.value);
            } else if (field.key == "media_type") {
                block.media_type = media_type.get(text_of(field.value));
            } else if (field.key != "type") {
                keep(block.extra, field);
            }
        }
        return block;
    }

    ToolCall read_tool_call(dom::object from) {
        ToolCall block;
        bool has_id = false, has_name = false, has_arguments = false;
        for (const dom::key_value_pair field : from) {
            if (field.key == "id") {
                block.id = text_of(field.value);
                has_id = true;
            } else if (field.key == "name") {
                block.name = call_name.get(text_of(field.value));
                has_name = true;
            } else if (field.key == "arguments") {
                block.arguments = to_json_object(object_of(field.value));
                has_arguments = true;
            } else if (field.key != "type") {
                keep(block.extra, field);
            }
        }
        if (!has_id || !has_name || !has_arguments) throw Unusual();
        return block;
    }
};

StoredMessageReader::StoredMessageReader() : state_(std::make_unique<State>()) {}
StoredMessageReader::~StoredMessageReader() = default;

Message StoredMessageReader::read(std::string_view text) {
    try {
        return state_->read(text);
    } catch (const Unusual&) {
        // Below, outside of the handler: what it throws is the answer, not a consequence.
    }
    return message_from_json(parse_lenient(text));
}

}  // namespace cubepi::detail
