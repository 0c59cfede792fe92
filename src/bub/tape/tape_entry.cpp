#include <bub/tape/tape_entry.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/python_json.hpp>

// Entries, their lines, and the fields that stores index.

namespace bub {

namespace {

std::string date_of(const JsonObject& line) {
    if (const Json* date = line.if_contains("date"); date && date->is_string())
        return std::string(date->get_string());
    double seconds = 0;
    if (const Json* timestamp = line.if_contains("timestamp"); timestamp && timestamp->is_number())
        seconds = timestamp->to_number<double>();
    // A value beyond the range of a date (the year 9999) is not a time stamp.
    if (!std::isfinite(seconds) || std::abs(seconds) > 2.5e11) seconds = 0;
    return detail::format_date(static_cast<std::int64_t>(std::llround(seconds * 1e6)));
}

}  // namespace

TapeEntry tape_entry(std::string_view kind, JsonObject payload, JsonObject meta) {
    TapeEntry entry;
    entry.kind = kind;
    entry.payload = std::move(payload);
    entry.meta = std::move(meta);
    return entry;
}

TapeEntry message_entry(std::string_view role, std::string content, JsonObject meta) {
    JsonObject payload;
    payload["role"] = role;
    payload["content"] = std::move(content);
    return tape_entry(entry_kind::message, std::move(payload), std::move(meta));
}

TapeEntry anchor_entry(std::string name, std::optional<JsonObject> state, JsonObject meta) {
    JsonObject payload;
    payload["name"] = std::move(name);
    if (state) payload["state"] = std::move(*state);
    return tape_entry(entry_kind::anchor, std::move(payload), std::move(meta));
}

TapeEntry event_entry(std::string_view name, JsonObject data, JsonObject meta) {
    JsonObject payload;
    payload["name"] = name;
    payload["data"] = std::move(data);
    return tape_entry(entry_kind::event, std::move(payload), std::move(meta));
}

JsonObject hidden_from_context(JsonObject meta) {
    meta["context"] = false;
    return meta;
}

JsonObject after_open_calls(JsonObject meta) {
    meta["after_open_calls"] = true;
    return meta;
}

bool follows_open_calls(const TapeEntry& entry) {
    return cubepi::detail::flag_member(entry.meta, "after_open_calls");
}

bool is_in_context(const TapeEntry& entry) {
    return cubepi::detail::flag_member(entry.meta, "context", true);
}

std::string_view entry_name(const TapeEntry& entry) {
    return cubepi::detail::string_member(entry.payload, "name");
}

std::string tape_line(const TapeEntry& entry) {
    std::string line = "{\"id\": " + std::to_string(entry.id) + ", \"kind\": ";
    detail::append_json_string(line, entry.kind);
    line += ", \"payload\": ";
    detail::append_json_text(line, entry.payload);
    line += ", \"meta\": ";
    detail::append_json_text(line, entry.meta);
    line += ", \"date\": ";
    detail::append_json_string(line, entry.date);
    line += "}\n";
    return line;
}

std::optional<TapeEntry> read_tape_line(std::string_view line) {
    if (line.find('{') == std::string_view::npos) return std::nullopt;
    Json json;
    try {
        json = cubepi::parse_lenient(line);
    } catch (const cubepi::Error&) {
        return std::nullopt;
    }
    JsonObject* object = json.if_object();
    if (!object) return std::nullopt;
    return detail::entry_of_json(std::move(*object));
}

std::string tape_date(std::chrono::system_clock::time_point time) {
    return detail::format_date(
        std::chrono::floor<std::chrono::microseconds>(time.time_since_epoch()).count());
}

std::string tape_name(const std::filesystem::path& workspace, std::string_view session_id) {
    std::error_code failed;
    std::filesystem::path path =
        std::filesystem::weakly_canonical(std::filesystem::absolute(workspace), failed);
    if (failed) path = std::filesystem::absolute(workspace).lexically_normal();
    std::string text = path.string();
    if (text.size() > 1 && text.back() == '/') text.pop_back();
    return cubepi::detail::md5_hex(text).substr(0, 16) + "__" +
           cubepi::detail::md5_hex(session_id).substr(0, 16);
}

namespace detail {

using cubepi::detail::array_member;
using cubepi::detail::integer_member;
using cubepi::detail::object_member;
using cubepi::detail::string_member;

namespace {

std::optional<RunUsage> usage_of(const JsonObject& payload) {
    const JsonObject* data = object_member(payload, "data");
    const JsonObject* usage = data ? object_member(*data, "usage") : nullptr;
    const auto total = usage ? integer_member(*usage, "total_tokens") : std::nullopt;
    if (!total) return std::nullopt;
    RunUsage found;
    found.total = *total;
    found.prompt = integer_member(*usage, "prompt_tokens");
    if (const JsonObject* details = object_member(*usage, "prompt_tokens_details"))
        found.cached = integer_member(*details, "cached_tokens");
    return found;
}

/// Returns the number of messages that the entry adds. Only this library stores that number.
std::int64_t added_messages(const TapeEntry& entry) {
    const auto size_of = [](const JsonArray* array) {
        return array ? static_cast<std::int64_t>(array->size()) : 0;
    };
    if (const JsonArray* stored = stored_messages(entry)) {
        const JsonObject* ours = object_member(entry.meta, meta_key);
        return integer_member(*ours, "count").value_or(size_of(stored));
    }
    const Json* context = entry.meta.if_contains("context");
    if (context && context->is_bool() && !context->get_bool()) return 0;
    if (entry.kind == entry_kind::message || entry.kind == entry_kind::tool_call) return 1;
    return entry.kind == entry_kind::tool_result ? size_of(array_member(entry.payload, "results"))
                                                 : 0;
}

}  // namespace

std::optional<TapeEntry> entry_of_json(JsonObject object) {
    const std::optional<std::int64_t> id = integer_member(object, "id");
    Json* kind = object.if_contains("kind");
    Json* payload = object.if_contains("payload");
    if (!id || !kind || !kind->is_string() || !payload || !payload->is_object())
        return std::nullopt;
    TapeEntry entry;
    entry.id = *id;
    entry.kind = std::string(kind->get_string());
    entry.date = date_of(object);
    entry.payload = std::move(payload->get_object());
    if (Json* meta = object.if_contains("meta"); meta && meta->is_object())
        entry.meta = std::move(meta->get_object());
    return entry;
}

std::optional<double> RunUsage::hit_rate() const {
    if (!prompt || !cached || *prompt <= 0) return std::nullopt;
    return static_cast<double>(*cached) / static_cast<double>(*prompt);
}

const JsonArray* stored_messages(const TapeEntry& entry) {
    const JsonObject* ours = object_member(entry.meta, meta_key);
    return ours ? array_member(*ours, "messages") : nullptr;
}

bool EntryFields::matches(TapeKey key, const std::string& value) const {
    switch (key) {
        case TapeKey::message:
            return std::find(message_ids.begin(), message_ids.end(), value) != message_ids.end();
        case TapeKey::event: return event && name == value;
        case TapeKey::run: return !run_id.empty() && run_id == value;
    }
    return false;
}

EntryFields fields_of(const TapeEntry& entry) {
    EntryFields fields;
    fields.anchor = entry.kind == entry_kind::anchor;
    fields.event = entry.kind == entry_kind::event;
    if (fields.anchor || fields.event) fields.name = string_member(entry.payload, "name");
    if (fields.event && fields.name == detail::step_event) fields.usage = usage_of(entry.payload);
    if (fields.event && fields.name == run_event) {
        if (const JsonObject* data = object_member(entry.payload, "data"))
            fields.run_id = string_member(*data, "run_id");
    }
    fields.messages = added_messages(entry);
    const JsonArray* messages = stored_messages(entry);
    if (!messages) return fields;
    fields.position = integer_member(*object_member(entry.meta, meta_key), "position");
    for (const Json& message : *messages) {
        const JsonObject* object = message.if_object();
        const std::string_view id = object ? string_member(*object, "id") : std::string_view();
        if (!id.empty()) fields.message_ids.emplace_back(id);
    }
    return fields;
}

std::optional<LineFields> line_fields(std::string_view line) {
    const std::optional<TapeEntry> entry = read_tape_line(line);
    if (!entry) return std::nullopt;
    return LineFields{entry->id, fields_of(*entry)};
}

void assign_id(TapeEntry& entry, std::int64_t& last, bool keep) {
    if (!keep) {
        entry.id = ++last;
        return;
    }
    if (entry.id <= last) {
        throw cubepi::StaleAppendError(cubepi::ErrorCode::stale_append,
                                       "an entry with the id " + std::to_string(entry.id) +
                                           " cannot follow the entry " + std::to_string(last) +
                                           "; nothing was stored",
                                       std::string());
    }
    last = entry.id;
}

std::int64_t set_position(TapeEntry& entry, std::int64_t before) {
    const std::int64_t after = before + added_messages(entry);
    if (stored_messages(entry)) entry.meta.at(meta_key).get_object()["position"] = after;
    return after;
}

void add_to(TapeInfo& info, const EntryFields& fields) {
    ++info.entries;
    ++info.entries_since_last_anchor;
    if (fields.anchor) {
        ++info.anchors;
        info.last_anchor = fields.name.empty() ? "-" : fields.name;
        info.entries_since_last_anchor = 0;
    }
    if (fields.usage) {
        info.last_token_usage = fields.usage->total;
        info.last_token_cache_hit_rate = fields.usage->hit_rate();
    }
}

namespace {

[[noreturn]] void throw_too_deep(const std::string& tape, const std::string& what) {
    throw cubepi::CheckpointerError(cubepi::ErrorCode::invalid_argument,
                                    what + " of tape '" + tape + "' is nested deeper than " +
                                        std::to_string(cubepi::max_stored_json_depth) +
                                        " levels and could not be read again; nothing was stored");
}

}  // namespace

bool is_main_tape(std::string_view name) {
    const std::size_t first = name.find("__");
    return first != name.npos && name.find("__", first + 2) == name.npos;
}

std::vector<std::string> sidecars_of(const std::string& tape, std::vector<std::string> tapes) {
    // NAME__X is a sidecar of NAME, unless NAME has no "__" itself: then it is the tape of another session.
    const bool has_sidecars = is_main_tape(tape);
    std::erase_if(tapes, [&](const std::string& one) {
        return !has_sidecars || !one.starts_with(tape + "__");
    });
    return tapes;
}

void check_tape_name(std::string_view name) {
    constexpr std::size_t longest = 200;
    const bool odd = name.empty() || name.size() > longest || name.front() == '.' ||
                     name.find('/') != name.npos || name.find('\0') != name.npos;
    if (!odd) return;
    throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                        "'" + std::string(name) +
                            "' cannot be the name of a tape: it must be a file name of at most 200 "
                            "bytes that does not begin with a dot");
}

void check_depth(const std::string& tape, const std::vector<TapeEntry>& entries) {
    constexpr std::size_t inside = cubepi::max_stored_json_depth - 1;  // of the line
    for (const TapeEntry& entry : entries) {
        // It contains the entries of a turn, whose depth was checked when they were appended.
        if (entry_name(entry) == refused_event) continue;
        if (cubepi::is_nested_deeper(entry.payload, inside) ||
            cubepi::is_nested_deeper(entry.meta, inside))
            throw_too_deep(tape, "an entry (" + entry.kind + ")");
    }
}

void check_depth(const std::string& tape, const JsonObject& state) {
    if (cubepi::is_nested_deeper(state, cubepi::max_stored_json_depth))
        throw_too_deep(tape, "the side state");
}

void throw_stale(const std::string& tape, std::int64_t expected, std::int64_t found) {
    throw cubepi::StaleAppendError(cubepi::ErrorCode::stale_append,
                                   "another writer has continued tape '" + tape + "' (it holds " +
                                       std::to_string(found) + " messages, expected " +
                                       std::to_string(expected) +
                                       "); nothing was stored, load the tape again",
                                   tape);
}

}  // namespace detail

}  // namespace bub
