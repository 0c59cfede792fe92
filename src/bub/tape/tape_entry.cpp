#include <bub/tape/tape_entry.hpp>

#include <cmath>
#include <utility>

#include <simdjson.h>

#include <bub/tape/entry/encoding.hpp>
#include <bub/tape/entry/entry_facts.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/python_json.hpp>

// Entries, their lines, and the facts that stores index.

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
    return detail::md5_hex(text).substr(0, 16) + "__" + detail::md5_hex(session_id).substr(0, 16);
}

namespace detail {

using cubepi::detail::array_member;
using cubepi::detail::integer_member;
using cubepi::detail::object_member;

namespace {

// The same rules apply to an entry and to a line of a file. Creating the entry of a line takes several times as long as parsing
// the line with simdjson, so the rules are written once, for a view of a JSON object. Each of its accessors returns nothing if
// the key is missing or its value has another type:
//
//     std::optional<View> object(key)
//     std::optional<std::int64_t> integer(key)
//     std::optional<std::string_view> text(key)
//     std::optional<bool> boolean(key)
//     std::optional<std::int64_t> count(key)             // the size of an array
//     void each_object(key, void(const View&))           // the elements of an array that are objects

/// A view of an object of an entry.
class EntryObject {
public:
    explicit EntryObject(const JsonObject& object) : object_(&object) {}

    std::optional<EntryObject> object(std::string_view key) const {
        const JsonObject* found = object_member(*object_, key);
        return found ? std::optional(EntryObject(*found)) : std::nullopt;
    }
    std::optional<std::int64_t> integer(std::string_view key) const {
        return integer_member(*object_, key);
    }
    std::optional<std::string_view> text(std::string_view key) const {
        const Json* value = object_->if_contains(key);
        return value && value->is_string() ? std::optional<std::string_view>(value->get_string())
                                           : std::nullopt;
    }
    std::optional<bool> boolean(std::string_view key) const {
        const Json* value = object_->if_contains(key);
        return value && value->is_bool() ? std::optional(value->get_bool()) : std::nullopt;
    }
    std::optional<std::int64_t> count(std::string_view key) const {
        const JsonArray* found = array(key);
        if (!found) return std::nullopt;
        return static_cast<std::int64_t>(found->size());
    }
    template <class See>
    void each_object(std::string_view key, const See& see) const {
        const JsonArray* found = array(key);
        if (!found) return;
        for (const Json& element : *found) {
            if (const JsonObject* object = element.if_object()) see(EntryObject(*object));
        }
    }

private:
    const JsonArray* array(std::string_view key) const { return array_member(*object_, key); }

    const JsonObject* object_;
};

/// A view of an object of a line that simdjson has parsed.
class LineObject {
public:
    LineObject() = default;  ///< an empty object
    explicit LineObject(const simdjson::dom::object& object) : object_(object) {}

    std::optional<LineObject> object(std::string_view key) const {
        simdjson::dom::object found;
        if (value(key).get_object().get(found) != simdjson::SUCCESS) return std::nullopt;
        return LineObject(found);
    }
    std::optional<std::int64_t> integer(std::string_view key) const {
        std::int64_t found = 0;
        if (value(key).get_int64().get(found) != simdjson::SUCCESS) return std::nullopt;
        return found;
    }
    std::optional<std::string_view> text(std::string_view key) const {
        std::string_view found;
        if (value(key).get_string().get(found) != simdjson::SUCCESS) return std::nullopt;
        return found;
    }
    std::optional<bool> boolean(std::string_view key) const {
        bool found = false;
        if (value(key).get_bool().get(found) != simdjson::SUCCESS) return std::nullopt;
        return found;
    }
    std::optional<std::int64_t> count(std::string_view key) const {
        simdjson::dom::array found;
        if (value(key).get_array().get(found) != simdjson::SUCCESS) return std::nullopt;
        // Not size(), which is capped at 2^24 - 1.
        std::int64_t count = 0;
        for (auto element = found.begin(); element != found.end(); ++element) ++count;
        return count;
    }
    template <class See>
    void each_object(std::string_view key, const See& see) const {
        simdjson::dom::array found;
        if (value(key).get_array().get(found) != simdjson::SUCCESS) return;
        for (const simdjson::dom::element element : found) {
            simdjson::dom::object object;
            if (element.get_object().get(object) == simdjson::SUCCESS) see(LineObject(object));
        }
    }

private:
    /// The last of equal keys, as for all other readers; the look-up of simdjson returns the first.
    simdjson::simdjson_result<simdjson::dom::element> value(std::string_view key) const {
        simdjson::simdjson_result<simdjson::dom::element> found(simdjson::NO_SUCH_FIELD);
        if (!object_) return found;
        for (const simdjson::dom::key_value_pair field : *object_) {
            if (field.key == key) found = simdjson::dom::element(field.value);
        }
        return found;
    }

    std::optional<simdjson::dom::object> object_;
};

template <class View>
std::optional<RunUsage> usage_of(const View& payload) {
    const auto data = payload.object("data");
    const auto usage = data ? data->object("usage") : std::nullopt;
    const auto total = usage ? usage->integer("total_tokens") : std::nullopt;
    if (!total) return std::nullopt;
    RunUsage found;
    found.total = *total;
    found.prompt = usage->integer("prompt_tokens");
    if (const auto details = usage->object("prompt_tokens_details"))
        found.cached = details->integer("cached_tokens");
    return found;
}

/// Returns the number of messages that the entry adds. Only this library stores that number.
template <class View>
std::int64_t added_messages(std::string_view kind, const View& payload, const View& meta) {
    const auto ours = meta.object(meta_key);
    if (const auto stored = ours ? ours->count("messages") : std::nullopt)
        return ours->integer("count").value_or(*stored);
    if (!meta.boolean("context").value_or(true)) return 0;
    if (kind == entry_kind::message || kind == entry_kind::tool_call) return 1;
    return kind == entry_kind::tool_result ? payload.count("results").value_or(0) : 0;
}

template <class View>
EntryFacts extracted_facts(std::string_view kind, const View& payload, const View& meta) {
    EntryFacts facts;
    facts.anchor = kind == entry_kind::anchor;
    facts.event = kind == entry_kind::event;
    if (facts.anchor || facts.event) facts.name = payload.text("name").value_or(std::string_view());
    if (facts.event && facts.name == "run") facts.usage = usage_of(payload);
    if (facts.event && facts.name == run_event) {
        if (const auto data = payload.object("data"))
            facts.run_id = data->text("run_id").value_or(std::string_view());
    }
    facts.messages = added_messages(kind, payload, meta);
    const auto ours = meta.object(meta_key);
    if (!ours || !ours->count("messages")) return facts;
    facts.position = ours->integer("position");
    ours->each_object("messages", [&facts](const View& message) {
        const std::string_view id = message.text("id").value_or(std::string_view());
        if (!id.empty()) facts.message_ids.emplace_back(id);
    });
    return facts;
}

/// Creates the entry, for lines that only a lenient reader accepts.
std::optional<LineFacts> lenient_facts(std::string_view line) {
    const std::optional<TapeEntry> entry = read_tape_line(line);
    if (!entry) return std::nullopt;
    return LineFacts{entry->id, facts_of(*entry)};
}

std::optional<LineFacts> parsed_facts(const LineObject& line) {
    const auto id = line.integer("id");
    const auto kind = line.text("kind");
    const auto payload = line.object("payload");
    if (!id || !kind || !payload) return std::nullopt;
    return LineFacts{*id,
                     extracted_facts(*kind, *payload, line.object("meta").value_or(LineObject()))};
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

EntryFacts facts_of(const TapeEntry& entry) {
    return extracted_facts(entry.kind, EntryObject(entry.payload), EntryObject(entry.meta));
}

std::optional<LineFacts> line_facts(std::string_view line) {
    if (line.find('{') == line.npos) return std::nullopt;
    thread_local simdjson::dom::parser parser;
    // A parser retains memory for the longest text it has seen.
    constexpr std::size_t long_line = std::size_t{128} << 10U;
    constexpr std::size_t deepest = cubepi::max_read_json_depth;
    simdjson::dom::parser parser_for_long_lines;
    simdjson::dom::parser& reader = line.size() > long_line ? parser_for_long_lines : parser;
    // A text that is too deep for the other reader must be so for this one: the other reader is authoritative.
    if (reader.capacity() < line.size() &&
        reader.allocate(line.size(), deepest) != simdjson::SUCCESS)
        return lenient_facts(line);
    simdjson::dom::element json;
    if (reader.parse(line.data(), line.size()).get(json) != simdjson::SUCCESS)
        return lenient_facts(line);
    simdjson::dom::object object;
    if (json.get_object().get(object) != simdjson::SUCCESS) return std::nullopt;
    return parsed_facts(LineObject(object));
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
    const std::int64_t after =
        before + added_messages(entry.kind, EntryObject(entry.payload), EntryObject(entry.meta));
    if (stored_messages(entry)) entry.meta.at(meta_key).get_object()["position"] = after;
    return after;
}

void add_to(TapeInfo& info, const EntryFacts& facts) {
    ++info.entries;
    ++info.entries_since_last_anchor;
    if (facts.anchor) {
        ++info.anchors;
        info.last_anchor = facts.name.empty() ? "-" : facts.name;
        info.entries_since_last_anchor = 0;
    }
    if (facts.usage) {
        info.last_token_usage = facts.usage->total;
        info.last_token_cache_hit_rate = facts.usage->hit_rate();
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
