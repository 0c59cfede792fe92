#include <bub/tape/tape_checkpointer.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <utility>
#include <variant>

#include <bub/tape/checkpointer/checkpointer_state.hpp>
#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/support/encoding.hpp>
#include <bub/tape/tape_context.hpp>
#include <bub/tape/tape_session.hpp>
#include <bub/tape/tape_sidecar.hpp>
#include <bub/tape/turn_lease.hpp>
#include <cubepi/checkpoint/support/store_errors.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/json_memory.hpp>

// The functions for messages, extra and threads, and those that all share. Runs, requests and forks have their own sources in
// checkpointer/.

namespace bub {

using namespace cubepi;
using detail::SideState;

TapeCheckpointer::TapeCheckpointer(std::shared_ptr<TapeStore> store,
                                   TapeCheckpointerOptions options)
    : StoredThreads(std::make_shared<State>(std::move(store), std::move(options))) {}

TapeCheckpointer::~TapeCheckpointer() = default;

TapeCheckpointer::State::State(std::shared_ptr<TapeStore> tapes, TapeCheckpointerOptions given)
    : store(std::move(tapes)),
      media(dynamic_cast<TapeMediaStore*>(store.get())),
      turn(dynamic_cast<TurnClaims*>(store.get())),
      options(std::move(given)) {
    if (!options.clock) options.clock = std::make_shared<SystemClock>();
}

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

Task<bool> TapeCheckpointer::State::is_run_complete(std::string tape, std::string run_id) {
    const std::optional<TapeEntry> event =
        co_await store->find_run(std::move(tape), std::move(run_id));
    if (!event) co_return false;
    const JsonObject* data = cubepi::detail::object_member(event->payload, "data");
    co_return data&& cubepi::detail::string_member(*data, "status") == "complete";
}

Task<bool> TapeCheckpointer::State::is_closed_run(std::string tape, std::string run_id) {
    const JsonObject side_state = co_await store->read_state(tape);
    if (SideState(side_state).is_open(run_id)) co_return false;
    co_return co_await is_run_complete(std::move(tape), std::move(run_id));
}

bool TapeCheckpointer::State::is_stale(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const SessionTakenError&) {
        return false;
    } catch (const StaleAppendError&) {
        return true;
    } catch (...) {
        return false;
    }
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

namespace {

JsonObject data_of(const std::optional<TapeEntry>& event) {
    if (!event) return {};
    const JsonObject* data = cubepi::detail::object_member(event->payload, "data");
    return data ? *data : JsonObject();
}

void merge_extra(JsonObject& extra, const JsonObject& changes) {
    for (const auto& [key, value] : changes) {
        if (value.is_null()) {
            extra.erase(key);
        } else {
            extra[key] = value;
        }
    }
}

Task<StoredExtra> read_extra(std::shared_ptr<TapeStore> store, std::string tape) {
    // In this order: a complete record that is written meanwhile has these changes.
    const std::optional<TapeEntry> changed =
        co_await store->find_event(tape, std::string(detail::extra_changes_event));
    const std::optional<TapeEntry> complete =
        co_await store->find_event(std::move(tape), std::string(detail::extra_event));
    co_return StoredExtra(complete, changed);
}

/// Returns the entry that changes `extra`; nothing if it changes nothing. Each event of changes has all since the complete
/// record, so that a reader needs two entries. When they have taken as much as a complete record would, one is written.
std::optional<TapeEntry> entry_of_change(StoredExtra extra, const JsonObject& change) {
    const JsonObject before = extra.value;
    merge_extra(extra.value, change);
    if (extra.exists && extra.value == before) return std::nullopt;
    for (const auto& [key, value] : change) extra.changes[key] = value;
    extra.written += cubepi::detail::json_memory(extra.changes);
    if (!extra.exists || extra.written >= cubepi::detail::json_memory(extra.value))
        return event_entry(detail::extra_event, std::move(extra.value), hidden_from_context());
    JsonObject meta{{"written", static_cast<std::int64_t>(extra.written)}};
    return event_entry(detail::extra_changes_event, std::move(extra.changes),
                       hidden_from_context(std::move(meta)));
}

}  // namespace

StoredExtra::StoredExtra(const std::optional<TapeEntry>& complete,
                         const std::optional<TapeEntry>& changed) {
    if (!complete) return;
    exists = true;
    value = data_of(complete);
    if (!changed || changed->id < complete->id) return;
    changes = data_of(changed);
    const std::int64_t size = cubepi::detail::integer_member(changed->meta, "written").value_or(0);
    written = static_cast<std::size_t>(std::max<std::int64_t>(size, 0));
    merge_extra(value, changes);
}

Task<JsonObject> stored_extra(std::shared_ptr<TapeStore> store, std::string tape) {
    StoredExtra extra = co_await read_extra(std::move(store), std::move(tape));
    co_return std::move(extra.value);
}

Task<std::optional<CheckpointData>> TapeCheckpointer::State::read_thread(ThreadQuery query) {
    const auto self = shared_from_this();
    std::optional<CheckpointData> data;
    switch (query.part) {
        case ThreadPart::all: data = co_await load(std::move(query.thread_id)); break;
        case ThreadPart::message:
            data.emplace();
            data->messages = co_await find_message(std::move(query.thread_id), std::move(query.id));
            break;
        case ThreadPart::completed:
            data.emplace();
            data->messages = co_await snapshot(std::move(query.thread_id), std::move(query.id));
            break;
    }
    co_return data;
}

Task<std::int64_t> TapeCheckpointer::State::change_thread(std::string tape, ThreadChange wanted) {
    const auto execute = [&](auto& one) { return change(std::move(tape), std::move(one)); };
    return std::visit(execute, wanted);
}

Task<std::optional<CheckpointData>> TapeCheckpointer::State::load(std::string thread_id) {
    const auto self = shared_from_this();
    std::optional<CheckpointData> data;
    TapePosition before = co_await store->position(thread_id);
    std::vector<TapeEntry> entries = co_await read_context(thread_id);
    if (turn) {
        // The store of a turn may remember an old position, until it has read the entries.
        const TapePosition now = co_await store->position(thread_id);
        if (now.messages != before.messages) {
            before = now;
            entries = co_await read_context(thread_id);
        }
    }
    co_await restore_media(entries);
    StoredExtra extra = co_await read_extra(store, thread_id);
    const std::optional<TapeEntry> fork =
        co_await store->find_event(thread_id, std::string(detail::fork_event));
    const auto& select = options.context.select;
    MessageList messages = select ? select(entries) : agent_messages(entries);
    if (messages.empty() && !extra.exists) co_return data;
    data.emplace();
    data->messages = std::move(messages);
    data->extra = std::move(extra.value);
    if (fork) data->parent_thread_id = cubepi::detail::text_member(data_of(fork), "from");
    // Entries appended since the position was read make the next append stale; they are not lost.
    data->position = before.messages;
    co_return data;
}

Task<std::int64_t> TapeCheckpointer::State::change(std::string thread_id, ThreadAppend append) {
    const auto self = shared_from_this();
    const MessageList& messages = append.messages;
    const AppendOptions& options = append.options;
    std::set<std::string> runs;
    for (const Message& message : messages) {
        if (!message.run_id().empty()) runs.insert(message.run_id().str());
    }
    // That a run is open is checked with its claim, when the entries are appended.
    const bool has_claim = !options.claim_owner().empty() && runs.erase(options.claim_run_id()) > 0;
    JsonObject side_state;
    const bool has_no_run = runs.empty() && !has_claim && !messages.empty();
    if (!runs.empty() || has_no_run) side_state = co_await store->read_state(thread_id);
    for (const std::string& run_id : runs) {
        if (SideState(side_state).is_open(run_id)) continue;
        if (co_await is_run_complete(thread_id, run_id))
            cubepi::detail::throw_run_completed(thread_id, run_id);
    }
    std::vector<TapeEntry> entries = co_await entries_of(thread_id, messages);
    if (has_no_run && has_suspended_run(side_state)) {
        for (TapeEntry& entry : entries)
            if (entry.kind == entry_kind::message)
                entry.meta = after_open_calls(std::move(entry.meta));
    }
    co_await put_media_aside(entries);
    if (options.extra()) {
        StoredExtra extra = co_await read_extra(store, thread_id);
        if (auto change = entry_of_change(std::move(extra), *options.extra()))
            entries.push_back(std::move(*change));
    }
    std::function<void(const JsonObject&)> guard;
    if (!options.claim_owner().empty()) {
        guard = [thread_id, run = options.claim_run_id(), owner = options.claim_owner()](
                    const JsonObject& now) { detail::check_claim(now, thread_id, run, owner); };
    }
    TapeAppend how = TapeAppend().guard(std::move(guard));
    TapeAppend with_position = options.expected_position()
                                   ? std::move(how).expected_position(*options.expected_position())
                                   : std::move(how);
    const bool nothing = entries.empty();
    std::int64_t position = 0;
    std::exception_ptr failure;
    try {
        if (!options.settled_questions().empty()) co_await settle(thread_id, options);
        const TapePosition end =
            co_await store->append(thread_id, std::move(entries), std::move(with_position));
        position = end.messages;
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) {
        forget_batch(thread_id);
        if (has_claim && is_stale(failure)) {
            const bool complete = co_await is_closed_run(thread_id, options.claim_run_id());
            if (complete) cubepi::detail::throw_run_completed(thread_id, options.claim_run_id());
        }
        std::rethrow_exception(failure);
    }
    if (nothing || position < 0) {
        const TapePosition end = co_await store->position(thread_id);
        position = end.messages;
    }
    if (!messages.empty()) note_position(thread_id, position);
    co_return position;
}

Task<MessageList> TapeCheckpointer::State::find_message(std::string thread_id,
                                                        std::string message_id) {
    const auto self = shared_from_this();
    MessageList found;
    std::optional<TapeEntry> entry =
        co_await store->find_message_entry(std::move(thread_id), message_id);
    if (!entry) co_return found;
    std::vector<TapeEntry> one;
    one.push_back(std::move(*entry));
    co_await restore_media(one);
    for (Message& message : detail::messages_in(one.front())) {
        if (message.id() == message_id) found.push_back(std::move(message));
    }
    co_return found;
}

Task<std::vector<ThreadInfo>> TapeCheckpointer::State::list_threads() {
    const auto self = shared_from_this();
    std::vector<ThreadInfo> list;
    const std::vector<std::string> names = co_await store->all_tapes();
    for (const std::string& name : names) {
        if (is_sidecar_name(name)) continue;
        ThreadInfo info;
        info.thread_id = name;
        const TapePosition end = co_await store->position(name);
        info.message_count = end.messages;
        TapeQuery newest = TapeQuery().newest_first().limit(1);
        const std::vector<TapeEntry> last = co_await store->fetch(name, std::move(newest));
        if (!last.empty()) {
            if (const auto time = detail::parse_date(last.front().date))
                info.updated_at = static_cast<double>(*time) / 1e6;
        }
        list.push_back(std::move(info));
    }
    std::sort(list.begin(), list.end(), [](const ThreadInfo& a, const ThreadInfo& b) {
        const double first = a.updated_at.value_or(0);
        const double second = b.updated_at.value_or(0);
        return first != second ? first > second : a.thread_id < b.thread_id;
    });
    co_return list;
}

Task<std::int64_t> TapeCheckpointer::State::change(std::string thread_id,
                                                   ThreadRemoval /*removal*/) {
    const auto self = shared_from_this();
    const std::vector<std::string> names = co_await store->all_tapes();
    if (std::find(names.begin(), names.end(), thread_id) == names.end())
        cubepi::detail::throw_thread_not_found(thread_id);
    co_await remove_records(thread_id);
    co_await store->reset(thread_id);
    std::function<Json(JsonObject&)> clear = [](JsonObject& side_state) {
        side_state.clear();
        return Json();
    };
    co_await store->edit_state(thread_id, std::move(clear));
    forget_batch(thread_id);
    co_return 0;
}

}  // namespace bub
