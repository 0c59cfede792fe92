#include <cubepi/tracing/recorder/redactions.hpp>

#include <algorithm>
#include <array>

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

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    const std::size_t begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
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

}  // namespace cubepi::detail
