#include <bub/tape/checkpointer/checkpointer_state.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/file/side_state.hpp>
#include <bub/tape/tape_context.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/wire/answer_size.hpp>

namespace bub {

using namespace cubepi;

ClaimTime TapeCheckpointer::State::time() const {
    const auto since_epoch = options.clock->wall().time_since_epoch();
    return ClaimTime{std::chrono::duration<double>(since_epoch).count(), options.lease};
}

Task<void> TapeCheckpointer::State::edit_at_end(std::string tape,
                                                std::function<void(JsonObject& state)> edit) {
    if (turn && turn->edit_state_at_end(tape, edit)) co_return;
    std::function<Json(JsonObject&)> now = [edit = std::move(edit)](JsonObject& side_state) {
        edit(side_state);
        return Json();
    };
    co_await store->edit_state(std::move(tape), std::move(now));
}

namespace {

/// The newest entries that fit, from a user's message on. `entries` are newest first.
std::vector<TapeEntry> in_order(std::vector<TapeEntry> entries, bool cut, std::size_t max_bytes) {
    std::reverse(entries.begin(), entries.end());
    if (!cut) return entries;
    const auto first = std::find_if(entries.begin(), entries.end(), [](const TapeEntry& entry) {
        return entry.kind == entry_kind::message &&
               cubepi::detail::string_member(entry.payload, "role") == "user";
    });
    entries.erase(entries.begin(), first == entries.end() ? entries.begin() : first);
    JsonObject state;
    state["reason"] = "Earlier messages of this conversation are not loaded: it takes more than " +
                      std::to_string(max_bytes) + " bytes.";
    entries.insert(entries.begin(), anchor_entry("context/cut", std::move(state)));
    return entries;
}

}  // namespace

/// Reads backward from the end, and no more than is stored: a tape may be longer than memory.
Task<std::vector<TapeEntry>> TapeCheckpointer::State::read_newest(std::string tape,
                                                                  TapeQuery query) {
    const std::size_t most = options.context.max_bytes;
    std::vector<TapeEntry> entries;
    std::size_t bytes = 0;
    bool cut = false;
    std::function<bool(const TapeEntry&)> take = [&](const TapeEntry& entry) {
        bytes += sizeof entry + cubepi::detail::json_memory(entry.payload) +
                 cubepi::detail::json_memory(entry.meta);
        cut = most != 0 && bytes > most && !entries.empty();
        if (!cut) entries.push_back(entry);
        return !cut;
    };
    TapeQuery newest = std::move(query).newest_first();
    co_await store->visit(std::move(tape), std::move(newest), std::move(take));
    co_return in_order(std::move(entries), cut, most);
}

Task<std::vector<TapeEntry>> TapeCheckpointer::State::read_context(std::string tape) {
    std::vector<TapeEntry> entries;
    bool has_anchor = true;
    try {
        TapeQuery query = options.context.start.query();
        entries = co_await read_newest(tape, std::move(query));
    } catch (const Error& error) {
        const bool any = options.context.start.query().slice() == TapeQuery::Slice::last_anchor;
        if (error.code() != ErrorCode::not_found || !any) throw;
        has_anchor = false;
    }
    if (!has_anchor) {
        TapeQuery all;
        entries = co_await read_newest(std::move(tape), std::move(all));
    }
    co_return entries;
}

Task<bool> TapeCheckpointer::State::is_complete(std::string tape, std::string run_id) {
    const std::optional<TapeEntry> event =
        co_await store->find_run(std::move(tape), std::move(run_id));
    if (!event) co_return false;
    const Json* data = event->payload.if_contains("data");
    co_return data && data->is_object() &&
        cubepi::detail::string_member(data->get_object(), "status") == "complete";
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
        // More than one answer can contain calls, and other events may lie between them.
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
    // Data shorter than its reference stays in place.
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
