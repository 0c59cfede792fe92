#include <bub/tape/detail/checkpointer_state.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

#include <bub/tape/detail/entry_facts.hpp>
#include <bub/tape/tape_context.hpp>
#include <cubepi/core/error.hpp>

namespace bub {

using namespace cubepi;

namespace detail {

namespace {

std::int64_t number_at(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    return value && value->is_int64() ? value->get_int64() : 0;
}

}  // namespace

std::string state_text(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

const JsonArray& SideState::list(std::string_view name) const {
    static const JsonArray none;
    const Json* value = state_.if_contains(name);
    return value && value->is_array() ? value->get_array() : none;
}

bool SideState::is_open(const std::string& run_id) const {
    const JsonArray& open = list("open_runs");
    return std::find(open.begin(), open.end(), Json(run_id)) != open.end();
}

bool SideState::holds(const std::string& run_id, const std::string& owner_id) const {
    for (const Json& json : list("claims")) {
        if (!json.is_object()) continue;
        const cubepi::detail::HeldClaim claim = read_claim(json.get_object());
        if (claim.run_id == run_id && claim.owner.owner_id == owner_id) return true;
    }
    return false;
}

cubepi::detail::HeldClaim SideState::read_claim(const JsonObject& json) {
    cubepi::detail::HeldClaim claim;
    claim.run_id = state_text(json, "run_id");
    claim.owner.owner_id = state_text(json, "owner_id");
    claim.owner.host = state_text(json, "host");
    claim.owner.boot_id = state_text(json, "boot_id");
    claim.owner.pid = number_at(json, "pid");
    claim.owner.process_start = number_at(json, "process_start");
    claim.owner.description = state_text(json, "description");
    const Json* until = json.if_contains("lease_until");
    if (until && until->is_number()) claim.lease_until = until->to_number<double>();
    return claim;
}

JsonObject SideState::claim_json(const cubepi::detail::HeldClaim& claim) {
    JsonObject json;
    json["run_id"] = claim.run_id;
    json["owner_id"] = claim.owner.owner_id;
    json["host"] = claim.owner.host;
    json["boot_id"] = claim.owner.boot_id;
    json["pid"] = claim.owner.pid;
    json["process_start"] = claim.owner.process_start;
    json["description"] = claim.owner.description;
    json["lease_until"] = claim.lease_until;
    return json;
}

JsonArray& SideState::edit(JsonObject& state, std::string_view name) {
    Json& value = state[name];
    if (!value.is_array()) value = JsonArray();
    return value.get_array();
}

void SideState::tidy(JsonObject& state) {
    for (const char* name : {"claims", "open_runs", "pending", "answers"}) {
        const Json* value = state.if_contains(name);
        if (value && value->is_array() && value->get_array().empty()) state.erase(name);
    }
}

}  // namespace detail

double TapeCheckpointer::State::now() const {
    return std::chrono::duration<double>(options.clock->wall().time_since_epoch()).count();
}

double TapeCheckpointer::State::lease_end() const {
    return now() + std::chrono::duration<double>(options.lease).count();
}

Task<std::vector<TapeEntry>> TapeCheckpointer::State::read_context(std::string tape) {
    std::vector<TapeEntry> entries;
    bool has_anchor = true;
    try {
        TapeQuery query = options.context.start.query();
        entries = co_await store->fetch(tape, std::move(query));
    } catch (const Error& error) {
        const bool any = options.context.start.query().slice() == TapeQuery::Slice::last_anchor;
        if (error.code() != ErrorCode::not_found || !any) throw;
        has_anchor = false;
    }
    if (!has_anchor) {
        TapeQuery all;
        entries = co_await store->fetch(std::move(tape), std::move(all));
    }
    co_return entries;
}

Task<bool> TapeCheckpointer::State::is_complete(std::string tape, std::string run_id) {
    const std::optional<TapeEntry> event =
        co_await index->find_run(std::move(tape), std::move(run_id));
    if (!event) co_return false;
    const Json* data = event->payload.if_contains("data");
    co_return data && data->is_object() &&
        detail::state_text(data->get_object(), "status") == "complete";
}

Task<std::vector<TapeEntry>> TapeCheckpointer::State::entries_of(std::string tape,
                                                                 MessageList messages) {
    std::vector<TapeEntry> entries;
    const ToolResultMessage* first = messages.empty() ? nullptr : messages.front().tool_result();
    bool known = true;
    if (first) {
        const TapePosition end = co_await store->position(tape);
        const std::lock_guard lock(mutex);
        const Batch& batch = batches[tape];
        known = batch.position == end.messages && batch.entries.expects(first->tool_call_id);
    }
    std::vector<TapeEntry> newest;
    if (!known) {
        // More than one answer can hold calls, and other events come in between.
        constexpr std::size_t far_enough = 512;
        TapeQuery query = TapeQuery().newest_first().limit(far_enough);
        newest = co_await store->fetch(tape, std::move(query));
    }
    const std::lock_guard lock(mutex);
    Batch& batch = batches[tape];
    if (!known) batch.entries.resume(newest);
    for (const Message& message : messages) batch.entries.add(message, entries);
    co_return entries;
}

void TapeCheckpointer::State::forget_batch(const std::string& tape) {
    const std::lock_guard lock(mutex);
    batches.erase(tape);
}

void TapeCheckpointer::State::note_position(const std::string& tape, std::int64_t position) {
    const std::lock_guard lock(mutex);
    batches[tape].position = position;
}

Task<void> TapeCheckpointer::State::put_media_aside(std::vector<TapeEntry>& entries) {
    // What is shorter than what would stand for it stays.
    constexpr std::size_t worth_it = 512;
    if (!media) co_return;
    for (TapeEntry& entry : entries) {
        for (JsonObject* block : detail::image_blocks(entry)) {
            std::string source((*block)["source"].as_string());
            if (source.size() < worth_it || source.starts_with("http")) continue;
            const std::string name = co_await media->put_media(std::move(source));
            (*block)["source"] = std::string(detail::media_prefix) + name;
        }
    }
}

Task<void> TapeCheckpointer::State::restore_media(std::vector<TapeEntry>& entries) {
    for (TapeEntry& entry : entries) {
        for (JsonObject* block : detail::image_blocks(entry)) {
            std::string source((*block)["source"].as_string());
            if (!source.starts_with(detail::media_prefix)) continue;
            std::optional<std::string> bytes;
            if (media) {
                source.erase(0, detail::media_prefix.size());
                bytes = co_await media->get_media(std::move(source));
            }
            if (bytes) {
                (*block)["source"] = std::move(*bytes);
                continue;
            }
            block->clear();
            (*block)["type"] = "text";
            (*block)["text"] = "[an image that is not there any more]";
        }
    }
}

}  // namespace bub
