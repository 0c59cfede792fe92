#include <bub/tape/entry/entry_facts.hpp>

namespace bub::detail {

namespace {

const JsonObject* object_at(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    return value ? value->if_object() : nullptr;
}

std::optional<std::int64_t> integer_at(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    if (!value || !value->is_int64()) return std::nullopt;
    return value->get_int64();
}

std::string text_at(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    if (!value || !value->is_string()) return {};
    return std::string(value->get_string());
}

std::optional<RunUsage> usage_of(const JsonObject& payload) {
    const JsonObject* data = object_at(payload, "data");
    const JsonObject* usage = data ? object_at(*data, "usage") : nullptr;
    const auto total = usage ? integer_at(*usage, "total_tokens") : std::nullopt;
    if (!total) return std::nullopt;
    RunUsage found;
    found.total = *total;
    found.prompt = integer_at(*usage, "prompt_tokens");
    if (const JsonObject* details = object_at(*usage, "prompt_tokens_details"))
        found.cached = integer_at(*details, "cached_tokens");
    return found;
}

/// Returns the number of messages that an entry written by another program adds.
std::int64_t foreign_messages(const TapeEntry& entry) {
    if (!is_in_context(entry)) return 0;
    if (entry.kind == entry_kind::message || entry.kind == entry_kind::tool_call) return 1;
    if (entry.kind != entry_kind::tool_result) return 0;
    const Json* results = entry.payload.if_contains("results");
    return results && results->is_array() ? static_cast<std::int64_t>(results->get_array().size())
                                          : 0;
}

}  // namespace

std::optional<double> RunUsage::hit_rate() const {
    if (!prompt || !cached || *prompt <= 0) return std::nullopt;
    return static_cast<double>(*cached) / static_cast<double>(*prompt);
}

const JsonArray* stored_messages(const TapeEntry& entry) {
    const JsonObject* ours = object_at(entry.meta, meta_key);
    const Json* messages = ours ? ours->if_contains("messages") : nullptr;
    return messages ? messages->if_array() : nullptr;
}

EntryFacts facts_of(const TapeEntry& entry) {
    EntryFacts facts;
    facts.anchor = entry.kind == entry_kind::anchor;
    facts.event = entry.kind == entry_kind::event;
    if (facts.anchor || facts.event) facts.name = entry_name(entry);
    if (facts.event && facts.name == "run") facts.usage = usage_of(entry.payload);
    if (facts.event && facts.name == run_event) {
        if (const JsonObject* data = object_at(entry.payload, "data"))
            facts.run_id = text_at(*data, "run_id");
    }
    const JsonArray* stored = stored_messages(entry);
    if (!stored) {
        facts.messages = foreign_messages(entry);
        return facts;
    }
    const JsonObject& ours = entry.meta.at(meta_key).get_object();
    facts.position = integer_at(ours, "position");
    facts.messages = integer_at(ours, "count").value_or(static_cast<std::int64_t>(stored->size()));
    for (const Json& message : *stored) {
        if (!message.is_object()) continue;
        std::string id = text_at(message.get_object(), "id");
        if (!id.empty()) facts.message_ids.push_back(std::move(id));
    }
    return facts;
}

std::int64_t set_position(TapeEntry& entry, std::int64_t before) {
    if (!stored_messages(entry)) return before + foreign_messages(entry);
    JsonObject& ours = entry.meta.at(meta_key).get_object();
    const std::int64_t count =
        integer_at(ours, "count")
            .value_or(static_cast<std::int64_t>(ours.at("messages").get_array().size()));
    ours["position"] = before + count;
    return before + count;
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

}  // namespace bub::detail
