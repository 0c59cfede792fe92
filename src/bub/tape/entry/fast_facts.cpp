#include <bub/tape/entry/fast_facts.hpp>

#include <simdjson.h>

#include <cubepi/schema/parse_json.hpp>

namespace bub::detail {

namespace {

using Object = simdjson::dom::object;
using Found = simdjson::simdjson_result<simdjson::dom::element>;

/// Returns the last of equal keys, like all other readers; simdjson's own look-up returns the first.
Found value_at(const Object& object, std::string_view key) {
    Found found(simdjson::NO_SUCH_FIELD);
    for (const simdjson::dom::key_value_pair field : object) {
        if (field.key == key) found = Found(simdjson::dom::element(field.value));
    }
    return found;
}

std::optional<Object> object_at(const Object& object, std::string_view key) {
    Object found;
    if (value_at(object, key).get_object().get(found) != simdjson::SUCCESS) return std::nullopt;
    return found;
}

std::optional<std::int64_t> integer_at(const Object& object, std::string_view key) {
    std::int64_t found = 0;
    if (value_at(object, key).get_int64().get(found) != simdjson::SUCCESS) return std::nullopt;
    return found;
}

std::string_view text_at(const Object& object, std::string_view key) {
    std::string_view found;
    if (value_at(object, key).get_string().get(found) != simdjson::SUCCESS) return {};
    return found;
}

std::optional<RunUsage> usage_of(const Object& payload) {
    const auto data = object_at(payload, "data");
    const auto usage = data ? object_at(*data, "usage") : std::nullopt;
    const auto total = usage ? integer_at(*usage, "total_tokens") : std::nullopt;
    if (!total) return std::nullopt;
    RunUsage found;
    found.total = *total;
    found.prompt = integer_at(*usage, "prompt_tokens");
    if (const auto details = object_at(*usage, "prompt_tokens_details"))
        found.cached = integer_at(*details, "cached_tokens");
    return found;
}

std::int64_t foreign_messages(std::string_view kind, const Object& payload,
                              const std::optional<Object>& meta) {
    bool in_context = true;
    if (meta && value_at(*meta, "context").get_bool().get(in_context) == simdjson::SUCCESS &&
        !in_context)
        return 0;
    if (kind == entry_kind::message || kind == entry_kind::tool_call) return 1;
    simdjson::dom::array results;
    if (kind != entry_kind::tool_result ||
        value_at(payload, "results").get_array().get(results) != simdjson::SUCCESS)
        return 0;
    std::int64_t count = 0;
    for (auto result = results.begin(); result != results.end(); ++result) ++count;
    return count;
}

void add_messages(EntryFacts& facts, const Object& ours, const simdjson::dom::array& stored) {
    std::int64_t count = 0;
    for (const simdjson::dom::element message : stored) {
        ++count;
        Object object;
        if (message.get_object().get(object) != simdjson::SUCCESS) continue;
        const std::string_view id = text_at(object, "id");
        if (!id.empty()) facts.message_ids.emplace_back(id);
    }
    facts.position = integer_at(ours, "position");
    facts.messages = integer_at(ours, "count").value_or(count);
}

LineFacts facts_of(std::int64_t id, std::string_view kind, const Object& payload,
                   const std::optional<Object>& meta) {
    LineFacts found;
    found.id = id;
    EntryFacts& facts = found.facts;
    facts.anchor = kind == entry_kind::anchor;
    facts.event = kind == entry_kind::event;
    if (facts.anchor || facts.event) facts.name = text_at(payload, "name");
    if (facts.event && facts.name == "run") facts.usage = usage_of(payload);
    if (facts.event && facts.name == run_event) {
        if (const auto data = object_at(payload, "data")) facts.run_id = text_at(*data, "run_id");
    }
    const auto ours = meta ? object_at(*meta, meta_key) : std::nullopt;
    simdjson::dom::array stored;
    if (ours && value_at(*ours, "messages").get_array().get(stored) == simdjson::SUCCESS) {
        add_messages(facts, *ours, stored);
    } else {
        facts.messages = foreign_messages(kind, payload, meta);
    }
    return found;
}

/// Parses the entry, for lines that only a lenient reader accepts.
std::optional<LineFacts> slow_facts(std::string_view line) {
    const std::optional<TapeEntry> entry = read_tape_line(line);
    if (!entry) return std::nullopt;
    LineFacts found;
    found.id = entry->id;
    found.facts = detail::facts_of(*entry);
    return found;
}

}  // namespace

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
        return slow_facts(line);
    simdjson::dom::element json;
    if (reader.parse(line.data(), line.size()).get(json) != simdjson::SUCCESS)
        return slow_facts(line);
    Object object;
    Object payload;
    std::int64_t id = 0;
    std::string_view kind;
    const bool whole = json.get_object().get(object) == simdjson::SUCCESS &&
                       value_at(object, "id").get_int64().get(id) == simdjson::SUCCESS &&
                       value_at(object, "kind").get_string().get(kind) == simdjson::SUCCESS &&
                       value_at(object, "payload").get_object().get(payload) == simdjson::SUCCESS;
    if (!whole) return std::nullopt;
    return facts_of(id, kind, payload, object_at(object, "meta"));
}

}  // namespace bub::detail
