#include <cubepi/tracing/recorder/content.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <cubepi/core/message_json.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

/// JSON in a string, which may contain JSON in a string: arguments of a call whose argument is JSON.
constexpr std::size_t max_nested_texts = 3;

bool is_structure(std::string_view key) {
    constexpr std::array keys{"type", "role",     "id",          "name",        "kind",
                              "tool", "model",    "tool_name",   "call_id",     "tool_call_id",
                              "key",  "decision", "question_id", "tool_use_id", "media_type"};
    return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// Returns true for the arguments of a call in a message or a question: a value with a key of its own.
bool has_own_key(std::string_view key) {
    return key == "arguments" || key == "args" || key == "edited_args";
}

/// Returns true for the members below which everything is a value: of messages, and of the bodies of requests and answers.
bool is_data_member(std::string_view key) {
    return has_own_key(key) || key == "details" || key == "input" || key == "result";
}

bool is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/// Returns true if the part is a part of a longer word.
bool is_inside_word(std::string_view text, std::size_t at, std::size_t size) {
    const bool before = at > 0 && is_word(text[at - 1]) && is_word(text[at]);
    const std::size_t end = at + size;
    return before || (end < text.size() && is_word(text[end - 1]) && is_word(text[end]));
}

std::string_view without_quotes(std::string_view json) { return json.substr(1, json.size() - 2); }

}  // namespace

void Redactions::note(const Json& before, const Json* after, bool is_data) {
    if (after && before == *after) return;
    const std::lock_guard lock(mutex_);
    if (is_data) note_object(before, after);
    note_parts(before, after, is_data);
}

/// The text may be found with the escapes of JSON, also with those of Python, and without blanks around it.
void Redactions::note_text(std::string_view before, std::string_view after) {
    // A text that remains in the value is not hidden.
    if (before.empty() || before == after || after.find(before) != std::string_view::npos) return;
    const auto add = [this](std::string_view text, std::string_view instead) {
        if (text.empty() || bytes_ > max_bytes) return;
        if (texts_.emplace(text, instead).second) bytes_ += text.size() + instead.size();
    };
    add(before, after);
    add(trimmed(before), trimmed(after));
    // A prompt of the pipeline begins with its context, which those who quote it leave out.
    constexpr std::string_view end_of_context = "---\n";
    if (const std::size_t at = before.find(end_of_context); at != std::string_view::npos)
        add(before.substr(at + end_of_context.size()), after);
    const Json text(before);
    const Json instead(after);
    const std::string escaped = json_text(text);
    const std::string python = to_python_json(text);
    const std::string instead_escaped = to_python_json(instead);
    add(without_quotes(escaped), without_quotes(instead_escaped));
    add(without_quotes(python), without_quotes(instead_escaped));
}

void Redactions::note_object(const Json& before, const Json* after) {
    const JsonObject* object = before.if_object();
    if (!object || object->empty() || bytes_ > max_bytes) return;
    const bool known = std::any_of(objects_.begin(), objects_.end(),
                                   [&](const auto& one) { return one.first == before; });
    if (known) return;
    objects_.emplace_back(before, after ? *after : Json(redacted_text));
    bytes_ += json_text(before).size();
}

void Redactions::note_parts(const Json& before, const Json* after, bool is_data) {
    if (after && before == *after) return;
    if (const auto* text = before.if_string()) {
        const bool is_text = after && after->is_string();
        return note_text(*text, is_text ? std::string_view(after->get_string()) : redacted_text);
    }
    if (const JsonObject* object = before.if_object()) {
        const JsonObject* others = after ? after->if_object() : nullptr;
        for (const auto& [key, item] : *object) {
            if (!is_data && (has_own_key(key) || (item.is_string() && is_structure(key)))) continue;
            note_parts(item, others ? others->if_contains(key) : nullptr,
                       is_data || is_data_member(key));
        }
    } else if (const JsonArray* array = before.if_array()) {
        const JsonArray* others = after ? after->if_array() : nullptr;
        if (others && others->size() != array->size()) others = nullptr;
        for (std::size_t i = 0; i < array->size(); ++i)
            note_parts((*array)[i], others ? &(*others)[i] : nullptr, is_data);
    }
}

bool Redactions::apply(Json& value) const {
    const std::lock_guard lock(mutex_);
    if (bytes_ > max_bytes) return false;
    if (!texts_.empty() || !objects_.empty()) (void)replace(value, false, 0);
    return true;
}

/// Returns true if anything was replaced.
bool Redactions::replace(Json& value, bool is_data, std::size_t depth) const {
    if (auto* text = value.if_string()) return replace_in(*text, depth);
    bool replaced = false;
    if (JsonObject* object = value.if_object()) {
        for (const auto& [before, after] : objects_) {
            if (before != value) continue;
            value = after;
            return true;
        }
        for (auto& member : *object) {
            const std::string_view key = member.key();
            if (!is_data && member.value().is_string() && is_structure(key)) continue;
            if (replace(member.value(), is_data || is_data_member(key), depth)) replaced = true;
        }
    } else if (JsonArray* array = value.if_array()) {
        for (Json& item : *array) {
            if (replace(item, is_data, depth)) replaced = true;
        }
    }
    return replaced;
}

bool Redactions::replace_in(boost::json::string& text, std::size_t depth) const {
    const std::string_view all = text;
    const auto same = texts_.find(std::string(all));
    if (same != texts_.end()) {
        text = same->second;
        return true;
    }
    std::string changed(all);
    bool replaced = false;
    const std::string_view begin = trimmed(all).substr(0, 1);
    if (depth < max_nested_texts && (begin == "{" || begin == "[")) {
        JsonTextError error;
        Json inner = parse_json(all, error);
        if (!error && replace(inner, true, depth + 1)) {
            changed = json_text(inner);
            replaced = true;
        }
    }
    for (const auto& [before, after] : texts_) {
        if (before.size() < min_part) break;
        for (std::size_t at = 0; (at = changed.find(before, at)) != std::string::npos;) {
            if (before.size() < min_inside && is_inside_word(changed, at, before.size())) {
                ++at;
                continue;
            }
            changed.replace(at, before.size(), after);
            at += after.size();
            replaced = true;
        }
    }
    if (replaced) text = changed;
    return replaced;
}

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

/// The content of a result in a message, or in what `redact` returned of it.
std::string text_of(const Json& result) {
    if (const auto* text = result.if_string()) return std::string(*text);
    const JsonObject* object = result.if_object();
    const Json* content = object ? object->if_contains("content") : nullptr;
    const JsonArray* blocks = content ? content->if_array() : nullptr;
    if (!blocks) return json_text(result);
    std::string text;
    for (const Json& block : *blocks) {
        const JsonObject* one = block.if_object();
        const Json* part = one ? one->if_contains("text") : nullptr;
        if (part && part->is_string()) text += std::string_view(part->get_string());
    }
    return text;
}

Json result_form(JsonArray content, Json details, bool is_error) {
    return JsonObject{{"content", std::move(content)},
                      {"details", std::move(details)},
                      {"is_error", is_error},
                      {"terminate", nullptr}};
}

Json result_of(const ToolResultMessage& message) {
    JsonArray content;
    for (const Content& block : message.content) content.emplace_back(to_json(block));
    return result_form(std::move(content), message.details, message.is_error);
}

JsonObject user_part(const Content& block) {
    if (const auto* text = std::get_if<TextContent>(&block)) return text_part(text->text);
    // The bytes of an image are in the recorded request only.
    return JsonObject{{"type", "image"}};
}

Json one_message(std::string_view role, JsonArray parts) {
    return JsonObject{{"role", role}, {"parts", std::move(parts)}};
}

/// Returns the messages that `redact` returned. `recorded`: empty if it dropped them.
JsonArray messages_of(std::string_view role, std::optional<Json> recorded) {
    if (recorded && recorded->is_array()) return std::move(recorded->get_array());
    const bool is_text = recorded && recorded->is_string();
    const std::string text(is_text ? std::string_view(recorded->get_string()) : redacted_text);
    return JsonArray{one_message(role, JsonArray{text_part(text)})};
}

/// JSON text with invalid UTF-8, of a tool for example, replaced.
std::string valid_json_text(const Json& value) {
    std::string text = json_text(value);
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

ContentFilter ContentFilter::with(std::shared_ptr<Redactions> shared) const {
    ContentFilter filter = *this;
    if (enabled_ && redact_) filter.redactions_ = std::move(shared);
    return filter;
}

ContentFilter ContentFilter::for_nested_run() const {
    ContentFilter filter = *this;
    filter.is_nested_ = true;
    return filter;
}

std::optional<Json> ContentFilter::call(std::string_view key, Json value) const {
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

std::optional<Json> ContentFilter::value(std::string_view key, Json value) const {
    if (!redactions_) return call(key, std::move(value));
    std::optional<Json> recorded = call(key, value);
    const bool is_data = key == "gen_ai.tool.call.arguments" || key == "hitl.answer";
    redactions_->note(value, recorded ? &*recorded : nullptr, is_data);
    return recorded;
}

JsonObject ContentFilter::redacted_call(const ToolCall& call) const {
    JsonObject part{{"type", "tool_call"},
                    {"id", std::string_view(call.id)},
                    {"name", std::string_view(call.name)}};
    std::optional<Json> arguments = value("gen_ai.tool.call.arguments", call.arguments);
    const Json* raw = call.extra.find("raw_arguments");
    // The text of arguments that are not JSON is in the bodies only.
    if (!arguments && raw && redactions_) redactions_->note(*raw, nullptr, true);
    part["arguments"] = arguments ? std::move(*arguments) : Json(redacted_text);
    return part;
}

std::string ContentFilter::redacted_result(Json result) const {
    const std::optional<Json> recorded = value("gen_ai.tool.call.result", std::move(result));
    return recorded ? text_of(*recorded) : std::string(redacted_text);
}

std::string ContentFilter::result_text(std::string_view text) const {
    JsonArray content{JsonObject{{"type", "text"}, {"text", text}}};
    return redacted_result(result_form(std::move(content), Json(), false));
}

/// The answer of a nested run is what its tool call returns.
void ContentFilter::redact_answer(const AssistantMessage& answer, JsonArray& parts) const {
    if (!is_nested_ || !redact_ || answer.has_tool_calls()) return;
    for (Json& part : parts) {
        JsonObject& object = part.get_object();
        if (object.at("type") != "text") continue;
        object["content"] = result_text(object.at("content").as_string());
    }
}

JsonArray ContentFilter::messages(const Message& message) const {
    JsonArray parts;
    if (const ToolResultMessage* result = message.tool_result()) {
        std::string text = redact_ ? redacted_result(result_of(*result)) : message.text();
        parts.emplace_back(JsonObject{{"type", "tool_call_response"},
                                      {"id", std::string_view(result->tool_call_id)},
                                      {"result", std::move(text)}});
        return JsonArray{one_message("tool", std::move(parts))};
    }
    if (const UserMessage* user = message.user()) {
        for (const Content& block : user->content) parts.emplace_back(user_part(block));
        auto recorded =
            value("gen_ai.input.messages", JsonArray{one_message("user", std::move(parts))});
        for (const Content& block : user->content) {
            const auto* image = std::get_if<ImageContent>(&block);
            if (image && !recorded && redactions_)
                redactions_->note(Json(image->source), nullptr, true);
        }
        return messages_of("user", std::move(recorded));
    }
    const AssistantMessage& answer = *message.assistant();
    for (const AssistantContent& block : answer.content) {
        if (const auto* call = std::get_if<ToolCall>(&block)) {
            parts.emplace_back(redacted_call(*call));
        } else if (const auto* thinking = std::get_if<ThinkingContent>(&block)) {
            parts.emplace_back(JsonObject{{"type", "reasoning"}, {"content", thinking->thinking}});
        } else if (const auto* text = std::get_if<TextContent>(&block)) {
            parts.emplace_back(text_part(text->text));
        } else {
            parts.emplace_back(JsonObject{{"type", "image"}});
        }
    }
    redact_answer(answer, parts);
    return messages_of("assistant", value("gen_ai.output.messages",
                                          JsonArray{one_message("assistant", std::move(parts))}));
}

JsonArray ContentFilter::messages(const MessageList& list) const {
    JsonArray all;
    all.reserve(list.size());
    for (const Message& message : list) {
        JsonArray one = messages(message);
        for (Json& item : one) all.push_back(std::move(item));
    }
    return all;
}

std::optional<Json> ContentFilter::hidden(std::optional<Json> recorded) const {
    if (!recorded || !redactions_ || redactions_->apply(*recorded)) return recorded;
    if (losses_) losses_->add(Loss::redacted_value, "more than 32 MiB were redacted in a run");
    return std::nullopt;
}

std::optional<Json> ContentFilter::whole(std::string_view key, Json value) const {
    return hidden(call(key, std::move(value)));
}

void ContentFilter::set(Attributes& attributes, AttributeKey key,
                        std::optional<Json> recorded) const {
    recorded = hidden(std::move(recorded));
    if (!recorded || recorded->is_null()) return;
    std::string text =
        recorded->is_string() ? std::string(recorded->get_string()) : valid_json_text(*recorded);
    attributes.set(std::move(key), SharedString(std::move(text)));
}

void ContentFilter::add_whole(Attributes& attributes, AttributeKey key, Json value) const {
    std::optional<Json> recorded = call(key.text(), std::move(value));
    set(attributes, std::move(key), std::move(recorded));
}

std::string ContentFilter::error_text(std::string_view text, std::string_view instead) const {
    const std::optional<Json> recorded = hidden(value("exception.message", Json(text)));
    if (!recorded || !recorded->is_string()) return std::string(instead);
    const std::string_view all = recorded->get_string();
    const std::string_view begin = all.substr(0, max_error_text);
    return replace_broken_utf8(begin.substr(0, complete_utf8_prefix(begin)));
}

}  // namespace cubepi::detail
