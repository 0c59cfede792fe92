#include <cubepi/provider/wire/encoding.hpp>

#include <algorithm>
#include <array>
#include <cctype>

#include <cubepi/core/error.hpp>
#include <cubepi/provider/tool_schema.hpp>

namespace cubepi::detail {

ContentList<Content> with_sender(const UserMessage& message) {
    ContentList<Content> content = message.content;
    const Json* name = message.metadata.find("sender_display_name");
    if (!name || !name->is_string() || name->get_string().empty()) return content;
    const std::string sender = "[" + std::string(name->get_string()) + "]";
    for (Content& block : content) {
        auto* text = std::get_if<TextContent>(&block);
        if (!text || text->text.empty()) continue;
        text->text.insert(0, sender + ": ");
        return content;
    }
    TextContent sent;
    sent.text = sender + " sent:";
    content.insert(content.begin(), Content(std::move(sent)));
    return content;
}

bool has_images(const ContentList<Content>& content) noexcept {
    return std::any_of(content.begin(), content.end(), [](const Content& block) {
        return std::holds_alternative<ImageContent>(block);
    });
}

namespace {

/// Replaces the images of a message. Returns whether it had any.
bool replace_images(Message& message) {
    constexpr std::string_view text = "[An image was omitted: the endpoint refused it.]";
    const auto replaced = [&](const auto* found) {
        if (!found || !has_images(found->content)) return false;
        auto copy = *found;
        for (Content& block : copy.content) {
            if (std::holds_alternative<ImageContent>(block))
                block = TextContent{std::string(text), {}};
        }
        message = Message(std::move(copy));
        return true;
    };
    return replaced(message.user()) || replaced(message.tool_result());
}

/// Removes the thinking of an answer. Returns whether it had any.
bool remove_thinking(Message& message) {
    const AssistantMessage* answer = message.assistant();
    if (!answer) return false;
    AssistantMessage copy = *answer;
    copy.content.clear();
    for (const AssistantContent& block : answer->content) {
        if (!std::holds_alternative<ThinkingContent>(block)) copy.content.push_back(block);
    }
    if (copy.content.size() == answer->content.size()) return false;
    message = Message(std::move(copy));
    return true;
}

/// Returns the messages with the changes of `change`, which returns whether it changed one; absent if it changed none.
std::optional<MessageList> changed_messages(const MessageList& messages,
                                            bool (*change)(Message& message)) {
    std::vector<Message> copies(messages.begin(), messages.end());
    bool changed = false;
    for (Message& message : copies) changed = change(message) || changed;
    if (!changed) return std::nullopt;
    return MessageList(std::move(copies));
}

}  // namespace

std::optional<MessageList> without_images(const MessageList& messages) {
    return changed_messages(messages, replace_images);
}

std::optional<MessageList> without_thinking(const MessageList& messages) {
    return changed_messages(messages, remove_thinking);
}

std::string joined_text(const ContentList<Content>& content, std::string_view separator) {
    std::string joined;
    bool first = true;
    for (const Content& block : content) {
        const auto* text = std::get_if<TextContent>(&block);
        if (!text) continue;
        if (!first) joined += separator;
        joined += text->text;
        first = false;
    }
    return joined;
}

bool is_url(std::string_view source) noexcept {
    return source.starts_with("http://") || source.starts_with("https://");
}

std::string image_url(const ImageContent& image) {
    if (is_url(image.source)) return image.source;
    return "data:" + image.media_type.str() + ";base64," + image.source;
}

std::string shortened_id(std::string_view id, std::size_t longest) {
    if (id.size() <= longest) return std::string(id);
    std::uint64_t hash = 14695981039346656037u;
    for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    constexpr std::size_t longest_number = 20;
    std::string shorter(id.substr(0, longest - longest_number - 1));
    // Half a character at the cut would not be UTF-8.
    while (!shorter.empty() && (static_cast<unsigned char>(shorter.back()) & 0x80u) != 0)
        shorter.pop_back();
    return shorter + "_" + std::to_string(hash);
}

std::string marked_error(std::string text) {
    constexpr std::string_view word = "error";
    const bool says_so =
        text.size() >= word.size() &&
        std::equal(word.begin(), word.end(), text.begin(), [](char a, char b) {
            return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
        });
    return says_so ? text : "Error: " + text;
}

JsonObject typed(std::string_view type) {
    JsonObject made;
    made["type"] = type;
    return made;
}

JsonObject typed_text(std::string_view type, std::string_view text) {
    JsonObject made = typed(type);
    made["text"] = text;
    return made;
}

std::string from_base64(std::string_view text) {
    static const std::array<std::int8_t, 256> values = [] {
        std::array<std::int8_t, 256> made{};
        made.fill(-1);
        constexpr std::string_view letters =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for (std::size_t i = 0; i < letters.size(); ++i)
            made[static_cast<unsigned char>(letters[i])] = static_cast<std::int8_t>(i);
        return made;
    }();
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3);
    std::uint32_t held = 0;
    int bits = 0;
    for (const char c : text) {
        if (c == '=' || c == '\n' || c == '\r' || c == ' ') continue;
        const std::int8_t value = values[static_cast<unsigned char>(c)];
        if (value < 0) {
            throw Error(ErrorCode::invalid_argument,
                        "An image's source is neither base64 nor a URL");
        }
        held = (held << 6) | static_cast<std::uint32_t>(value);
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        bytes.push_back(static_cast<char>((held >> bits) & 0xffU));
    }
    return bytes;
}

Notice tool_choice_omitted() {
    return request_changed("The tool choice was omitted because the request has no tools",
                           "tool_choice");
}

Notice repaired(std::string text, std::string_view call_id) {
    Notice notice;
    notice.code = "repair";
    notice.text = std::move(text);
    if (!call_id.empty()) notice.details["tool_call_id"] = call_id;
    return notice;
}

Notice result_missing(const std::string& call_id) {
    return repaired("Tool call " + call_id +
                        " had no result in the history; the request says that it was interrupted",
                    call_id);
}

const Json& parameters_of(const ToolDefinition& tool) {
    static const Json none;
    return tool.parameters ? *tool.parameters : none;
}

void put_function(JsonObject& to, const ToolDefinition& tool, SchemaDialect dialect) {
    to["name"] = tool.name.str();
    to["description"] = tool.description.str();
    to["parameters"] = lower_tool_schema(parameters_of(tool), dialect);
}

std::string_view tool_choice_word(ToolChoice::Mode mode) noexcept {
    switch (mode) {
        case ToolChoice::Mode::automatic: return "auto";
        case ToolChoice::Mode::required: return "required";
        case ToolChoice::Mode::none: return "none";
        case ToolChoice::Mode::named: break;
    }
    return {};
}

void put_json_schema(JsonObject& to, const ResponseFormat& format) {
    to["name"] = format.name.str();
    if (!format.description.empty()) to["description"] = format.description.str();
    to["schema"] = *format.schema;
    to["strict"] = is_strict_schema(*format.schema);
}

}  // namespace cubepi::detail
