#include <cubepi/checkpoint/format/stored_message_reader.hpp>

#include <cstring>
#include <utility>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/schema/json/padded_text.hpp>
#include <cubepi/schema/json/simdjson_walk.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

/// Thrown for a message that is not of the common form: message_from_json() reads it, or throws.
struct Unusual {};

bool has_escapes(std::string_view text) {
    return std::memchr(text.data(), '\\', text.size()) != nullptr;
}

/// Returns a string, which is valid until the next message is read.
std::string_view text_of(od::value& value) {
    std::string_view token = value.raw_json_token();
    if (has_escapes(token)) return value.get_string();
    od::raw_json_string start;
    if (value.get_raw_json_string().get(start) != simdjson::SUCCESS) throw Unusual();
    // The token reaches to the next one.
    while (token.back() != '"') token.remove_suffix(1);
    return token.substr(1, token.size() - 2);
}

bool is_null(od::value& value) { return value.is_null(); }

std::string_view text_or_nothing(od::value& value) {
    return is_null(value) ? std::string_view() : text_of(value);
}

void require_null(od::value& value) {
    if (!is_null(value)) throw Unusual();
}

/// The members of an object, one after another.
class Members {
public:
    explicit Members(od::object object)
        : here_(object.begin().value()), end_(object.end().value()) {}

    /// Advances to the first member, then to the next. Returns false at the end.
    bool next() {
        if (started_) ++here_;
        started_ = true;
        if (here_ == end_) return false;
        field_ = *here_;
        key_ = field_.key();
        return true;
    }
    bool is(std::string_view name) const { return detail::is(key_, name); }
    std::string_view key() const {
        const char* end = key_.raw();
        for (; *end != '"'; ++end) {
            // The key would have to be compared unescaped.
            if (*end == '\\') throw Unusual();
        }
        return {key_.raw(), end};
    }
    od::value& value() { return field_.value(); }

private:
    od::object_iterator here_;
    od::object_iterator end_;
    od::field field_;
    od::raw_json_string key_;
    bool started_ = false;
};

/// Values deeper than this are left to the plain reader, which has a limit of its own.
constexpr int max_depth = 64;

Json to_json_value(od::value& value, int depth = 0);

JsonObject to_json_object(od::value& value, int depth = 0) {
    JsonObject object;
    Members members(value.get_object());
    while (members.next()) {
        const std::string_view key = members.key();
        object.insert_or_assign(key, to_json_value(members.value(), depth + 1));
    }
    return object;
}

JsonArray to_json_array(od::value& value, int depth) {
    JsonArray array;
    for (od::value item : value.get_array()) array.push_back(to_json_value(item, depth + 1));
    return array;
}

Json to_json_number(od::value& value) {
    const od::number number = value.get_number();
    switch (number.get_number_type()) {
        case od::number_type::signed_integer: return number.get_int64();
        case od::number_type::unsigned_integer: return number.get_uint64();
        case od::number_type::floating_point_number: break;
    }
    return number.get_double();
}

Json to_json_value(od::value& value, int depth) {
    if (depth > max_depth) throw Unusual();
    switch (value.type()) {
        case od::json_type::object: return to_json_object(value, depth);
        case od::json_type::array: return to_json_array(value, depth);
        case od::json_type::string: return Json(text_of(value));
        case od::json_type::number: return to_json_number(value);
        case od::json_type::boolean: return Json(bool(value.get_bool()));
        case od::json_type::null: break;
    }
    require_null(value);
    return nullptr;
}

LazyObject lazy_object(od::value& value) { return to_json_object(value); }

/// Keeps a member that has no field. `kind` is the key that determines the kind: a second one would replace the first.
void keep(LazyObject& extra, Members& members, std::string_view kind) {
    const std::string_view key = members.key();
    if (key == kind) throw Unusual();
    extra[key] = to_json_value(members.value());
}

std::optional<Usage> usage_of(od::value& value) {
    if (is_null(value)) return std::nullopt;
    Usage usage;
    Members members(value.get_object());
    while (members.next()) {
        TokenCount* const count = members.is("input_tokens")         ? &usage.input_tokens
                                  : members.is("output_tokens")      ? &usage.output_tokens
                                  : members.is("cache_read_tokens")  ? &usage.cache_read_tokens
                                  : members.is("cache_write_tokens") ? &usage.cache_write_tokens
                                  : members.is("reasoning_tokens")   ? &usage.reasoning_tokens
                                                                     : nullptr;
        if (!count) throw Unusual();
        *count = TokenCount(std::int64_t(members.value().get_int64()));
    }
    return usage;
}

UnixTime time_of(od::value& value) {
    if (is_null(value)) return {};
    return double(value.get_double());
}

/// Returns the value of the first member, which must have that name: both systems write the kind of an object first.
std::string_view first_text(Members& members, std::string_view name) {
    if (!members.next() || !members.is(name)) throw Unusual();
    return text_of(members.value());
}

}  // namespace

struct StoredMessageReader::State {
    /// The last value of a text that adjacent messages repeat.
    class Recent {
    public:
        const SharedString& get(std::string_view text) {
            if (!(last_ == text)) last_ = SharedString(text);
            return last_;
        }

    private:
        SharedString last_;
    };

    od::parser parser;
    PaddedText padded;
    Recent run_id, tool_name, call_name, provider_id, model_id, media_type;
    // The buffers in which the blocks are collected.
    ContentList<Content> user_blocks;
    ContentList<AssistantContent> assistant_blocks;

    Message read(std::string_view text) {
        od::document document = parser.iterate(padded.hold(text));
        Members members(document.get_object());
        const std::string_view role = first_text(members, "role");
        Message message = role == "assistant"     ? read_assistant(members)
                          : role == "tool_result" ? read_tool_result(members)
                          : role == "user"        ? read_user(members)
                                                  : throw Unusual();
        // No other text may follow.
        if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) throw Unusual();
        return message;
    }

    template <class M, class Blocks>
    static Message made_of(M& message, Blocks& blocks) {
        Message made(std::move(message));
        // NOLINTNEXTLINE(bugprone-use-after-move): Message leaves the list reusable
        blocks = std::move(message.content);
        return made;
    }

    Message read_user(Members& from) {
        UserMessage message;
        message.content = std::move(user_blocks);
        bool has_content = false;
        while (from.next()) {
            if (from.is("content")) {
                read_content(message.content, from.value());
                has_content = true;
            } else if (!read_common(message, from)) {
                keep(message.extra, from, "role");
            }
        }
        if (!has_content) throw Unusual();
        return made_of(message, user_blocks);
    }

    Message read_tool_result(Members& from) {
        ToolResultMessage message;
        message.content = std::move(user_blocks);
        bool has_content = false, has_call = false, has_name = false;
        while (from.next()) {
            if (from.is("content")) {
                read_content(message.content, from.value());
                has_content = true;
            } else if (from.is("tool_call_id")) {
                message.tool_call_id = text_of(from.value());
                has_call = true;
            } else if (from.is("tool_name")) {
                message.tool_name = tool_name.get(text_of(from.value()));
                has_name = true;
            } else if (from.is("details")) {
                message.details = to_json_value(from.value());
            } else if (from.is("is_error")) {
                message.is_error = from.value().get_bool();
            } else if (!read_common(message, from)) {
                keep(message.extra, from, "role");
            }
        }
        if (!has_content || !has_call || !has_name) throw Unusual();
        return made_of(message, user_blocks);
    }

    Message read_assistant(Members& from) {
        AssistantMessage message;
        message.content = std::move(assistant_blocks);
        bool has_content = false;
        while (from.next()) {
            if (from.is("content")) {
                read_content(message.content, from.value());
                has_content = true;
            } else if (from.is("stop_reason")) {
                message.stop_reason = stop_reason::shared(text_of(from.value()));
            } else if (is_error_key(from)) {
                require_null(from.value());
            } else if (from.is("usage")) {
                message.usage = usage_of(from.value());
            } else if (from.is("provider_id")) {
                message.provider_id = provider_id.get(text_of(from.value()));
            } else if (from.is("model_id")) {
                message.model_id = model_id.get(text_of(from.value()));
            } else if (from.is("response_id")) {
                message.response_id = SharedString(text_or_nothing(from.value()));
            } else if (!read_common(message, from)) {
                keep(message.extra, from, "role");
            }
        }
        if (!has_content) throw Unusual();
        return made_of(message, assistant_blocks);
    }

    static bool is_error_key(const Members& from) {
        return from.is("error_message") || from.is("error_type") || from.is("error_code") ||
               from.is("status_code") || from.is("retry_after") || from.is("tokens_in") ||
               from.is("context_window");
    }

    /// Reads a member that all roles have. Returns false if the key is not one of these.
    template <class M>
    bool read_common(M& message, Members& from) {
        if (from.is("id")) {
            message.id = text_or_nothing(from.value());
        } else if (from.is("timestamp")) {
            message.timestamp = time_of(from.value());
        } else if (from.is("metadata")) {
            message.metadata = lazy_object(from.value());
        } else if (from.is("run_id")) {
            message.run_id = run_id.get(text_or_nothing(from.value()));
        } else {
            return false;
        }
        return true;
    }

    template <class Block>
    void read_content(ContentList<Block>& content, od::value& value) {
        content.clear();
        for (od::value item : value.get_array()) {
            Members members(item.get_object());
            read_block(content, first_text(members, "type"), members);
        }
    }

    void read_block(ContentList<Content>& content, std::string_view type, Members& from) {
        if (type == "text") {
            content.emplace_back(read_text(from));
        } else if (type == "image") {
            content.emplace_back(read_image(from));
        } else {
            throw Unusual();
        }
    }

    void read_block(ContentList<AssistantContent>& content, std::string_view type, Members& from) {
        if (type == "text") {
            content.emplace_back(read_text(from));
        } else if (type == "tool_call") {
            content.emplace_back(read_tool_call(from));
        } else if (type == "thinking") {
            content.emplace_back(read_thinking(from));
        } else if (type == "image") {
            content.emplace_back(read_image(from));
        } else {
            throw Unusual();
        }
    }

    static TextContent read_text(Members& from) {
        TextContent block;
        while (from.next()) {
            if (from.is("text")) {
                block.text = std::string(text_of(from.value()));
            } else {
                keep(block.extra, from, "type");
            }
        }
        return block;
    }

    static ThinkingContent read_thinking(Members& from) {
        ThinkingContent block;
        while (from.next()) {
            if (from.is("thinking")) {
                block.thinking = std::string(text_of(from.value()));
            } else {
                keep(block.extra, from, "type");
            }
        }
        return block;
    }

    ImageContent read_image(Members& from) {
        ImageContent block;
        while (from.next()) {
            if (from.is("source")) {
                block.source = std::string(text_of(from.value()));
            } else if (from.is("media_type")) {
                block.media_type = media_type.get(text_of(from.value()));
            } else {
                keep(block.extra, from, "type");
            }
        }
        return block;
    }

    ToolCall read_tool_call(Members& from) {
        ToolCall block;
        bool has_id = false, has_name = false, has_arguments = false;
        while (from.next()) {
            if (from.is("id")) {
                block.id = text_of(from.value());
                has_id = true;
            } else if (from.is("name")) {
                block.name = call_name.get(text_of(from.value()));
                has_name = true;
            } else if (from.is("arguments")) {
                block.arguments = to_json_object(from.value());
                has_arguments = true;
            } else {
                keep(block.extra, from, "type");
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
        // Read again below, outside of the handler: an exception there must not be nested in this one.
    } catch (const simdjson::simdjson_error&) {
    }
    return message_from_json(parse_lenient(text));
}

}  // namespace cubepi::detail
