#include <cubepi/tracing/recorder/content.hpp>

#include <utility>

#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {

namespace {

struct LossText {
    const char* code;
    const char* first;   ///< text of the first notice
    const char* detail;  ///< key of the count
    const char* items;   ///< in the text of the totals
};

/// In the order of Loss.
constexpr std::array<LossText, 4> texts{
    LossText{"redact_failed", "The function redact failed, so a value was not recorded",
             "redacted_values", "values that redact failed for"},
    LossText{"held_spans_dropped", "Spans of a failed run that was not sampled are missing",
             "held_spans", "spans of failed runs"},
    LossText{"stream_file_failed", "A stream file is incomplete", "stream_lines",
             "lines of stream files"},
    LossText{"tracing_failed", "Tracing failed to record", "events", "events of runs"}};

constexpr std::size_t max_error_text = 256;

JsonObject text_part(std::string_view text) {
    return JsonObject{{"type", "text"}, {"content", text}};
}

struct PartWriter {
    JsonObject operator()(const TextContent& block) const {
        return text_part(std::string_view(block.text));
    }
    JsonObject operator()(const ThinkingContent& block) const {
        return JsonObject{{"type", "reasoning"}, {"content", std::string_view(block.thinking)}};
    }
    // The bytes of an image are in the recorded request only.
    JsonObject operator()(const ImageContent&) const { return JsonObject{{"type", "image"}}; }
    JsonObject operator()(const ToolCall& call) const {
        return JsonObject{{"type", "tool_call"},
                          {"id", std::string_view(call.id)},
                          {"name", std::string_view(call.name)},
                          {"arguments", call.arguments}};
    }
};

template <class Blocks>
JsonArray parts_of(const Blocks& blocks) {
    JsonArray parts;
    for (const auto& block : blocks) parts.emplace_back(std::visit(PartWriter(), block));
    return parts;
}

std::string text_of(const ContentList<Content>& blocks) {
    std::string text;
    for (const Content& block : blocks) {
        if (const auto* one = std::get_if<TextContent>(&block)) text += std::string_view(one->text);
    }
    return text;
}

/// JSON text with invalid UTF-8, of a tool for example, replaced.
std::string valid_json_text(const Json& value) {
    std::string text = boost::json::serialize(value);
    return is_utf8(text) ? text : replace_broken_utf8(text);
}

}  // namespace

void LossReport::add(Loss kind, std::string_view why, std::uint64_t count) noexcept {
    if (count == 0 || counts_[index_of(kind)].fetch_add(count) != 0) return;
    try {
        const LossText& known = texts.at(index_of(kind));
        const char* separator = kind == Loss::event ? " " : ": ";
        std::string text = known.first;
        if (!why.empty()) text += separator + std::string(why);
        send(known.code, std::move(text), JsonObject());
    } catch (...) {
        // No memory for a notice: the totals report the loss.
    }
}

void LossReport::end() noexcept {
    if (ended_.exchange(true)) return;
    try {
        std::string text;
        JsonObject details;
        for (std::size_t i = 0; i < kinds; ++i) {
            const std::uint64_t lost = counts_.at(i);
            if (lost == 0) continue;
            details[texts.at(i).detail] = lost;
            text += (text.empty() ? "" : ", ") + std::to_string(lost) + " " + texts.at(i).items;
        }
        if (!text.empty())
            send("recording_incomplete", "Not recorded: " + text, std::move(details));
    } catch (...) {
        // Recording must not fail a program.
    }
}

void LossReport::send(std::string code, std::string text, JsonObject details) const {
    if (!report_) return;
    Notice notice;
    notice.code = std::move(code);
    notice.text = std::move(text);
    notice.details = std::move(details);
    report_(notice);
}

JsonObject content_of(const Message& message) {
    if (const UserMessage* user = message.user())
        return JsonObject{{"role", "user"}, {"parts", parts_of(user->content)}};
    if (const AssistantMessage* answer = message.assistant())
        return JsonObject{{"role", "assistant"}, {"parts", parts_of(answer->content)}};
    const ToolResultMessage& result = *message.tool_result();
    JsonObject part{{"type", "tool_call_response"},
                    {"id", std::string_view(result.tool_call_id)},
                    {"result", text_of(result.content)}};
    return JsonObject{{"role", "tool"}, {"parts", JsonArray{std::move(part)}}};
}

JsonArray content_of(const MessageList& messages) {
    JsonArray list;
    list.reserve(messages.size());
    for (const Message& message : messages) list.emplace_back(content_of(message));
    return list;
}

JsonArray system_instructions(std::string_view text) {
    JsonArray parts;
    parts.emplace_back(text_part(text));
    JsonArray list;
    list.emplace_back(JsonObject{{"role", "system"}, {"parts", std::move(parts)}});
    return list;
}

JsonArray tool_definitions(const ToolDefinitions& tools) {
    JsonArray list;
    for (const ToolDefinition& tool : tools) {
        list.emplace_back(JsonObject{{"name", std::string_view(tool.name)},
                                     {"description", std::string_view(tool.description)},
                                     {"parameters", tool.parameters ? *tool.parameters : Json()}});
    }
    return list;
}

std::optional<Json> ContentFilter::value(std::string_view key, Json value) const {
    if (!enabled_) return std::nullopt;
    if (!redact_) return value;
    try {
        return redact_(key, std::move(value));
    } catch (...) {
        // A value that could not be redacted is not recorded.
        if (losses_) losses_->add(Loss::redacted_value, std::string_view());
        return std::nullopt;
    }
}

void ContentFilter::add(Attributes& attributes, AttributeKey key, Json value) const {
    std::optional<Json> recorded = this->value(key.text(), std::move(value));
    if (!recorded || recorded->is_null()) return;
    std::string text =
        recorded->is_string() ? std::string(recorded->get_string()) : valid_json_text(*recorded);
    attributes.set(std::move(key), SharedString(std::move(text)));
}

std::string ContentFilter::error_text(std::string_view text, std::string_view instead) const {
    const std::optional<Json> recorded = value("exception.message", Json(text));
    if (!recorded || !recorded->is_string()) return std::string(instead);
    const std::string_view all = recorded->get_string();
    const std::string_view begin = all.substr(0, max_error_text);
    return replace_broken_utf8(begin.substr(0, complete_utf8_prefix(begin)));
}

}  // namespace cubepi::detail
