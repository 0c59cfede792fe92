#include <cubepi/core/message_json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/trimmed.hpp>

namespace cubepi {

namespace {

// Reads stored values like CubePi does: numeric strings, true and false are accepted as numbers; 0, 1 and the common
// words as flags. Values that CubePi rejects are rejected, because otherwise one of the two could not read the thread.

// Throws Error (validation): "message key 'KEY': expected ...".
[[noreturn]] void refuse_key(std::string_view key, std::string_view expected);

double stored_number(const Json& value, std::string_view key);
// Reads a number without fraction; clamps it if it is too large.
std::int64_t stored_integer(const Json& value, std::string_view key);
bool stored_flag(const Json& value, std::string_view key);

// A reader of an object's keys; unknown keys become `extra`.
class ObjectReader {
public:
    ObjectReader(const Json& json, std::string_view what);

    bool has(std::string_view key) const { return object_->contains(key); }
    // Returns the value of `key`; null if absent or null. Marks the key as known.
    const Json* take(std::string_view key);
    // Like take(), but rejects an explicit null, as CubePi does.
    const Json* take_not_null(std::string_view key);
    // Returns an empty string if the key is absent or null, unless it is required.
    std::string text(std::string_view key, bool required = false);
    // Returns an empty string if the key is absent.
    std::string text_not_null(std::string_view key);
    std::optional<double> number(std::string_view key);
    std::optional<std::int64_t> integer(std::string_view key);
    LazyObject object(std::string_view key);
    LazyObject rest() const;

private:
    bool is_known(std::string_view key) const;

    const JsonObject* object_ = nullptr;
    std::array<std::string_view, 24> known_{};
    std::size_t count_ = 0;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr std::string_view python_spaces = " \t\n\v\f\r";

// Parses a number in Python's notation: " +1_000.5 ".
double number_in(std::string_view written, std::string_view key) {
    std::string_view text = detail::trimmed(written, python_spaces);
    if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
    std::string digits;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool between = text[i] == '_' && i > 0 && i + 1 < text.size() &&
                             is_digit(text[i - 1]) && is_digit(text[i + 1]);
        if (!between) digits += text[i];
    }
    const std::optional<double> number = detail::parsed_number<double>(digits);
    if (!number) refuse_key(key, "a number");
    return *number;
}

std::int64_t nearest_integer(double value) {
    // The greatest integer plus one is a double; the greatest integer itself is not.
    const double above = std::ldexp(1.0, std::numeric_limits<std::int64_t>::digits);
    if (value >= above) return std::numeric_limits<std::int64_t>::max();
    if (value <= -above) return std::numeric_limits<std::int64_t>::min();
    return static_cast<std::int64_t>(value);
}

void refuse_key(std::string_view key, std::string_view expected) {
    throw Error(ErrorCode::validation,
                "message key '" + std::string(key) + "': expected " + std::string(expected));
}

double stored_number(const Json& value, std::string_view key) {
    if (value.is_string()) return number_in(value.get_string(), key);
    if (value.is_bool()) return value.get_bool() ? 1 : 0;
    if (!value.is_number()) refuse_key(key, "a number");
    return value.to_number<double>();
}

std::int64_t stored_integer(const Json& value, std::string_view key) {
    if (value.is_int64()) return value.get_int64();
    const double number = stored_number(value, key);
    if (!(std::trunc(number) == number)) refuse_key(key, "a number without fraction");
    return nearest_integer(number);
}

bool stored_flag(const Json& value, std::string_view key) {
    if (value.is_bool()) return value.get_bool();
    if (value.is_string()) {
        std::string word(value.get_string());
        std::transform(word.begin(), word.end(), word.begin(), [](char c) {
            return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        });
        for (const std::string_view yes : {"1", "true", "t", "yes", "y", "on"}) {
            if (word == yes) return true;
        }
        for (const std::string_view no : {"0", "false", "f", "no", "n", "off"}) {
            if (word == no) return false;
        }
    } else if (value.is_number()) {
        const double number = value.to_number<double>();
        if (number == 0 || number == 1) return number == 1;
    }
    refuse_key(key, "true or false");
}

ObjectReader::ObjectReader(const Json& json, std::string_view what) {
    if (!json.is_object()) refuse_key(what, "an object");
    object_ = &json.get_object();
}

const Json* ObjectReader::take(std::string_view key) {
    known_[count_++] = key;
    const Json* value = object_->if_contains(key);
    return value && !value->is_null() ? value : nullptr;
}

const Json* ObjectReader::take_not_null(std::string_view key) {
    known_[count_++] = key;
    const Json* value = object_->if_contains(key);
    if (value && value->is_null()) refuse_key(key, "a value, found null");
    return value;
}

std::string ObjectReader::text(std::string_view key, bool required) {
    const Json* value = required ? take_not_null(key) : take(key);
    if (!value) {
        if (required) refuse_key(key, "a string, found nothing");
        return {};
    }
    if (!value->is_string()) refuse_key(key, "a string");
    return std::string(value->get_string());
}

std::string ObjectReader::text_not_null(std::string_view key) {
    const Json* value = take_not_null(key);
    if (!value) return {};
    if (!value->is_string()) refuse_key(key, "a string");
    return std::string(value->get_string());
}

std::optional<double> ObjectReader::number(std::string_view key) {
    const Json* value = take(key);
    if (!value) return std::nullopt;
    const double number = stored_number(*value, key);
    // A number would also be read as absent.
    if (std::isnan(number)) return std::nullopt;
    return number;
}

std::optional<std::int64_t> ObjectReader::integer(std::string_view key) {
    const Json* value = take(key);
    if (!value) return std::nullopt;
    return stored_integer(*value, key);
}

LazyObject ObjectReader::object(std::string_view key) {
    const Json* value = take_not_null(key);
    if (!value) return {};
    if (!value->is_object()) refuse_key(key, "an object");
    return value->get_object();
}

LazyObject ObjectReader::rest() const {
    LazyObject extra;
    for (const auto& [key, value] : *object_) {
        if (!is_known(key)) extra[key] = value;
    }
    return extra;
}

bool ObjectReader::is_known(std::string_view key) const {
    const auto end = known_.begin() + static_cast<std::ptrdiff_t>(count_);
    return std::find(known_.begin(), end, key) != end;
}

void add_extra(JsonObject& json, const LazyObject& extra) {
    for (const auto& [key, value] : extra.get()) json.emplace(key, value);
}

Json nullable(UnixTime time) { return time ? Json(*time) : Json(nullptr); }

Json nullable(const SharedString& text) {
    return text.empty() ? Json(nullptr) : Json(std::string_view(text));
}

template <class T>
Json nullable(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

template <class Blocks>
JsonArray blocks_to_json(const Blocks& blocks) {
    JsonArray array;
    array.reserve(blocks.size());
    for (const auto& block : blocks) array.emplace_back(to_json(block));
    return array;
}

JsonObject block_json(const TextContent& block) {
    JsonObject json{{"type", "text"}, {"text", block.text}};
    add_extra(json, block.extra);
    return json;
}

JsonObject block_json(const ImageContent& block) {
    JsonObject json{{"type", "image"},
                    {"source", block.source},
                    {"media_type", std::string_view(block.media_type)}};
    add_extra(json, block.extra);
    return json;
}

JsonObject block_json(const ThinkingContent& block) {
    JsonObject json{{"type", "thinking"}, {"thinking", block.thinking}};
    add_extra(json, block.extra);
    return json;
}

JsonObject block_json(const ToolCall& block) {
    JsonObject json{{"type", "tool_call"},
                    {"id", block.id},
                    {"name", std::string_view(block.name)},
                    {"arguments", block.arguments}};
    add_extra(json, block.extra);
    return json;
}

void add_error(JsonObject& json, const AssistantMessage& message) {
    static const ErrorInfo none;
    const ErrorInfo& info = message.error ? *message.error : none;
    json["error_message"] = nullable(message.error_message);
    json["error_type"] = info.type.empty() ? Json(nullptr) : Json(info.type);
    json["error_code"] = info.provider_code.empty() ? Json(nullptr) : Json(info.provider_code);
    json["status_code"] = nullable(info.status_code);
    json["retry_after"] = nullable(info.retry_after);
    json["tokens_in"] = nullable(info.tokens_in);
    json["context_window"] = nullable(info.context_window);
}

}  // namespace

JsonObject to_json(const Content& block) {
    return std::visit([](const auto& one) { return block_json(one); }, block);
}

JsonObject to_json(const AssistantContent& block) {
    return std::visit([](const auto& one) { return block_json(one); }, block);
}

JsonObject to_json(const Usage& usage) {
    JsonObject json;
    const auto add = [&](std::string_view key, TokenCount count) {
        if (count) json.emplace(key, *count);
    };
    add("input_tokens", usage.input_tokens);
    add("output_tokens", usage.output_tokens);
    add("cache_read_tokens", usage.cache_read_tokens);
    add("cache_write_tokens", usage.cache_write_tokens);
    add("reasoning_tokens", usage.reasoning_tokens);
    add("cache_write_1h_tokens", usage.cache_write_1h_tokens);
    return json;
}

namespace {

/// Returns the usage with its unknown keys, which are stored under `usage` in `extra`.
Json usage_json(const AssistantMessage& message) {
    const Json* unknown = message.extra.find("usage");
    const bool more = unknown && unknown->is_object();
    if (!message.usage && !more) return nullptr;
    JsonObject json = message.usage ? to_json(*message.usage) : JsonObject();
    if (more) {
        for (const auto& [key, value] : unknown->get_object()) json.emplace(key, value);
    }
    return json;
}

}  // namespace

JsonObject to_json(const UserMessage& message) {
    JsonObject json;
    json.reserve(6);
    json["role"] = "user";
    json["content"] = blocks_to_json(message.content);
    if (!message.id.empty()) json["id"] = message.id;
    json["timestamp"] = nullable(message.timestamp);
    json["metadata"] = message.metadata.get();
    json["run_id"] = nullable(message.run_id);
    add_extra(json, message.extra);
    return json;
}

JsonObject to_json(const AssistantMessage& message) {
    JsonObject json;
    json.reserve(18);
    json["role"] = "assistant";
    json["content"] = blocks_to_json(message.content);
    if (!message.id.empty()) json["id"] = message.id;
    json["stop_reason"] = std::string_view(message.stop_reason);
    add_error(json, message);
    json["usage"] = usage_json(message);
    json["timestamp"] = nullable(message.timestamp);
    json["provider_id"] = std::string_view(message.provider_id);
    json["model_id"] = std::string_view(message.model_id);
    json["response_id"] = nullable(message.response_id);
    json["metadata"] = message.metadata.get();
    json["run_id"] = nullable(message.run_id);
    add_extra(json, message.extra);
    return json;
}

JsonObject to_json(const ToolResultMessage& message) {
    JsonObject json;
    json.reserve(10);
    json["role"] = "tool_result";
    json["tool_call_id"] = std::string_view(message.tool_call_id);
    json["tool_name"] = std::string_view(message.tool_name);
    json["content"] = blocks_to_json(message.content);
    json["details"] = message.details;
    json["is_error"] = message.is_error;
    if (!message.id.empty()) json["id"] = message.id;
    json["timestamp"] = nullable(message.timestamp);
    json["metadata"] = message.metadata.get();
    json["run_id"] = nullable(message.run_id);
    add_extra(json, message.extra);
    return json;
}

JsonObject to_json(const Message& message) {
    if (const auto* user = message.user()) return to_json(*user);
    if (const auto* assistant = message.assistant()) return to_json(*assistant);
    return to_json(*message.tool_result());
}

// Reading.

namespace {

constexpr std::array<std::string_view, 6> usage_keys{"input_tokens",      "output_tokens",
                                                     "cache_read_tokens", "cache_write_tokens",
                                                     "reasoning_tokens",  "cache_write_1h_tokens"};

/// CubePi assigns to a block without a type the type with which it shares most keys; the first of its list if it shares
/// none.
std::string_view likely_type(const ObjectReader& block) {
    if (block.has("id") && block.has("name") && block.has("arguments")) return "tool_call";
    if (block.has("text")) return "text";
    if (block.has("source") || block.has("media_type")) return "image";
    return block.has("thinking") ? "thinking" : "text";
}

AssistantContent block_from_json(const Json& json) {
    ObjectReader reader(json, "content block");
    const std::string type =
        reader.has("type") ? reader.text("type", true) : std::string(likely_type(reader));
    if (type == "text") {
        TextContent block;
        block.text = reader.text_not_null("text");
        block.extra = reader.rest();
        return block;
    }
    if (type == "image") {
        ImageContent block;
        block.source = reader.text_not_null("source");
        block.media_type = reader.text_not_null("media_type");
        block.extra = reader.rest();
        return block;
    }
    if (type == "thinking") {
        ThinkingContent block;
        block.thinking = reader.text_not_null("thinking");
        block.extra = reader.rest();
        return block;
    }
    if (type != "tool_call")
        refuse_key("type", "text, image, thinking or tool_call, found " + type);
    ToolCall block;
    block.id = reader.text("id", true);
    block.name = reader.text("name", true);
    const Json* arguments = reader.take_not_null("arguments");
    if (!arguments || !arguments->is_object()) refuse_key("arguments", "an object");
    block.arguments = arguments->get_object();
    block.extra = reader.rest();
    return block;
}

const JsonArray& content_array(ObjectReader& reader) {
    const Json* content = reader.take_not_null("content");
    if (!content || !content->is_array()) refuse_key("content", "a list of blocks");
    return content->get_array();
}

ContentList<Content> content_from_json(ObjectReader& reader, std::string_view role) {
    ContentList<Content> blocks;
    const JsonArray& array = content_array(reader);
    blocks.reserve(array.size());
    for (const Json& json : array) {
        AssistantContent block = block_from_json(json);
        if (auto* text = std::get_if<TextContent>(&block)) {
            blocks.emplace_back(std::move(*text));
        } else if (auto* image = std::get_if<ImageContent>(&block)) {
            blocks.emplace_back(std::move(*image));
        } else {
            refuse_key("content",
                       "text and image blocks in a message of role " + std::string(role));
        }
    }
    return blocks;
}

ErrorCode code_of_type(std::string_view type) noexcept {
    static constexpr std::array<std::pair<std::string_view, ErrorCode>, 7> table{{
        {"ContextLengthExceeded", ErrorCode::context_length},
        {"RateLimited", ErrorCode::rate_limited},
        {"ProviderAuthFailed", ErrorCode::auth},
        {"ProviderUnavailable", ErrorCode::unavailable},
        {"ProviderBadRequest", ErrorCode::bad_request},
        {"ModelNotFound", ErrorCode::model_not_found},
        {"ContentFiltered", ErrorCode::content_filtered},
    }};
    for (const auto& [name, code] : table) {
        if (name == type) return code;
    }
    return type.empty() ? ErrorCode::unknown : ErrorCode::provider;
}

SharedValue<ErrorInfo> error_from_json(ObjectReader& reader) {
    ErrorInfo info;
    info.type = reader.text("error_type");
    info.provider_code = reader.text("error_code");
    if (const auto status = reader.integer("status_code")) {
        info.status_code = static_cast<int>(std::clamp<std::int64_t>(
            *status, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
    }
    info.retry_after = reader.number("retry_after");
    info.tokens_in = reader.integer("tokens_in");
    info.context_window = reader.integer("context_window");
    info.code = code_of_type(info.type);
    if (info == ErrorInfo{}) return nullptr;
    return info;
}

Message user_from_json(ObjectReader& reader) {
    UserMessage message;
    message.content = content_from_json(reader, "user");
    message.id = reader.text("id");
    message.timestamp = reader.number("timestamp");
    message.metadata = reader.object("metadata");
    message.run_id = reader.text("run_id");
    message.extra = reader.rest();
    return message;
}

AssistantMessage assistant_from_json(ObjectReader& reader) {
    AssistantMessage message;
    JsonObject unknown_usage;
    const JsonArray& array = content_array(reader);
    message.content.reserve(array.size());
    for (const Json& json : array) message.content.push_back(block_from_json(json));
    message.id = reader.text("id");
    if (const Json* reason = reader.take_not_null("stop_reason")) {
        if (!reason->is_string()) refuse_key("stop_reason", "a string");
        message.stop_reason = stop_reason::shared(reason->get_string());
    }
    message.error_message = reader.text("error_message");
    message.error = error_from_json(reader);
    if (const Json* usage = reader.take("usage")) {
        if (!usage->is_object()) refuse_key("usage", "an object");
        message.usage = usage_from_json(usage->get_object());
        for (const auto& [key, value] : usage->get_object()) {
            if (std::find(usage_keys.begin(), usage_keys.end(), std::string_view(key)) ==
                usage_keys.end()) {
                unknown_usage.emplace(key, value);
            }
        }
    }
    message.timestamp = reader.number("timestamp");
    for (SharedString AssistantMessage::* field :
         {&AssistantMessage::provider_id, &AssistantMessage::model_id}) {
        const bool provider = field == &AssistantMessage::provider_id;
        const std::string_view key = provider ? "provider_id" : "model_id";
        if (const Json* value = reader.take_not_null(key)) {
            if (!value->is_string()) refuse_key(key, "a string");
            message.*field = std::string_view(value->get_string());
        }
    }
    message.response_id = reader.text("response_id");
    message.metadata = reader.object("metadata");
    message.run_id = reader.text("run_id");
    message.extra = reader.rest();
    if (!unknown_usage.empty()) message.extra["usage"] = std::move(unknown_usage);
    return message;
}

Message tool_result_from_json(ObjectReader& reader) {
    ToolResultMessage message;
    message.tool_call_id = reader.text("tool_call_id", true);
    message.tool_name = reader.text("tool_name", true);
    message.content = content_from_json(reader, "tool_result");
    if (const Json* details = reader.take("details")) message.details = *details;
    if (const Json* flag = reader.take_not_null("is_error"))
        message.is_error = stored_flag(*flag, "is_error");
    message.id = reader.text("id");
    message.timestamp = reader.number("timestamp");
    message.metadata = reader.object("metadata");
    message.run_id = reader.text("run_id");
    message.extra = reader.rest();
    return message;
}

}  // namespace

Usage usage_from_json(const JsonObject& json) {
    Usage usage;
    const auto read = [&](std::string_view key, TokenCount& count) {
        if (const Json* value = json.if_contains(key))
            count = TokenCount(stored_integer(*value, key));
    };
    // CubePi does not read these, so invalid values must not make the thread unreadable.
    const auto read_ours = [&](std::string_view key, TokenCount& count) {
        const Json* value = json.if_contains(key);
        if (!value || !value->is_number()) return;
        const double number = value->to_number<double>();
        count = TokenCount(stored_integer(Json(std::trunc(number)), key));
    };
    read("input_tokens", usage.input_tokens);
    read("output_tokens", usage.output_tokens);
    read("cache_read_tokens", usage.cache_read_tokens);
    read("cache_write_tokens", usage.cache_write_tokens);
    read_ours("reasoning_tokens", usage.reasoning_tokens);
    read_ours("cache_write_1h_tokens", usage.cache_write_1h_tokens);
    return usage;
}

AssistantMessage assistant_message_from_json(const Json& json) {
    ObjectReader reader(json, "message");
    if (reader.text("role", true) != "assistant") refuse_key("role", "assistant");
    return assistant_from_json(reader);
}

Message message_from_json(const Json& json) {
    ObjectReader reader(json, "message");
    const std::string role = reader.text("role", true);
    if (role == "user") return user_from_json(reader);
    if (role == "assistant") return assistant_from_json(reader);
    if (role == "tool_result") return tool_result_from_json(reader);
    refuse_key("role", "user, assistant or tool_result, found " + role);
}

}  // namespace cubepi
