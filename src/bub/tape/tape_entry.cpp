#include <bub/tape/tape_entry.hpp>

#include <cmath>
#include <utility>

#include <bub/tape/entry/encoding.hpp>
#include <bub/tape/entry/entry_facts.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

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

std::optional<std::int64_t> id_of(const JsonObject& line) {
    const Json* id = line.if_contains("id");
    if (!id) return std::nullopt;
    if (id->is_int64()) return id->get_int64();
    return std::nullopt;
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

bool is_in_context(const TapeEntry& entry) {
    const Json* context = entry.meta.if_contains("context");
    return !context || !context->is_bool() || context->get_bool();
}

std::string_view entry_name(const TapeEntry& entry) {
    const Json* name = entry.payload.if_contains("name");
    if (!name || !name->is_string()) return {};
    return name->get_string();
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

std::optional<TapeEntry> detail::entry_of_json(JsonObject object) {
    const std::optional<std::int64_t> id = id_of(object);
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
    return detail::md5_hex(text).substr(0, 16) + "__" + detail::md5_hex(session_id).substr(0, 16);
}

}  // namespace bub
