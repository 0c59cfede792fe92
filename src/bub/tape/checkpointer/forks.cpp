#include <algorithm>
#include <set>
#include <utility>

#include <bub/tape/checkpointer/checkpointer_state.hpp>
#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/fork/turn_journal.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_context.hpp>
#include <cubepi/checkpoint/support/store_errors.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>

// Threads that continue on a new tape: from a completed run of another tape, or as a copy of a thread of another store.

namespace bub {

using namespace cubepi;

namespace {

struct RunEnd {
    std::string run_id = {};
    bool complete = false;
};

std::optional<RunEnd> run_end_of(const TapeEntry& entry) {
    if (entry.kind != entry_kind::event || entry_name(entry) != detail::run_event)
        return std::nullopt;
    const JsonObject* data = cubepi::detail::object_member(entry.payload, "data");
    if (!data) return std::nullopt;
    RunEnd end;
    end.run_id = cubepi::detail::text_member(*data, "run_id");
    end.complete = cubepi::detail::string_member(*data, "status") == "complete";
    return end;
}

/// Returns true for events that belong only to the tape on which they are, and not to a continuation elsewhere.
bool stays_behind(std::string_view event) {
    return event == detail::turn_event || event == detail::refused_event ||
           event == detail::extra_event || event == detail::extra_changes_event ||
           event == detail::fork_event;
}

/// The entries of a context as of the end of a run, collected from the newest to the oldest.
class ContextCut {
public:
    explicit ContextCut(std::int64_t last_id) : last_id_(last_id) {}

    /// Returns false when the context is complete.
    bool take(const TapeEntry& entry) {
        if (entry.id > last_id_) {
            if (!detail::messages_in(entry).empty()) next_message_ = entry.id;
            return true;
        }
        const std::optional<RunEnd> end = run_end_of(entry);
        if (end && end->complete) completed_.insert(end->run_id);
        const bool dropped = entry.kind == entry_kind::event &&
                             (stays_behind(entry_name(entry)) || (end && !end->complete));
        if (!dropped) entries_.push_back(entry);
        first_id_ = entry.id;
        return entry.kind != entry_kind::anchor;
    }

    /// Returns the entries, oldest first, without the messages of runs that had not completed.
    std::vector<TapeEntry> entries() {
        std::erase_if(entries_, [this](const TapeEntry& entry) {
            const std::vector<Message> stored = detail::messages_in(entry);
            return std::any_of(stored.begin(), stored.end(), [this](const Message& message) {
                const std::string run_id = message.run_id().str();
                return !run_id.empty() && !completed_.contains(run_id);
            });
        });
        std::reverse(entries_.begin(), entries_.end());
        return std::exchange(entries_, {});
    }
    /// Returns the id of the oldest entry in the context.
    std::int64_t first_id() const noexcept { return first_id_; }
    /// Returns the id of the first message behind the context; absent: there is none.
    std::optional<std::int64_t> next_message() const noexcept { return next_message_; }

private:
    std::int64_t last_id_;
    std::int64_t first_id_ = 0;
    std::optional<std::int64_t> next_message_;
    std::set<std::string> completed_;
    std::vector<TapeEntry> entries_;
};

/// The events before a context that are still needed by name or run: all completed runs, and the newest event of each
/// other name.
class EarlierEvents {
public:
    explicit EarlierEvents(std::int64_t before_id) : before_id_(before_id) {}

    bool take(const TapeEntry& entry) {
        if (entry.id >= before_id_) return true;
        const std::string name(entry_name(entry));
        if (const std::optional<RunEnd> end = run_end_of(entry)) {
            if (end->complete) entries_.push_back(entry);
        } else if (!stays_behind(name) && name != detail::result_event && name != "handoff" &&
                   seen_.insert(name).second) {
            entries_.push_back(entry);
        }
        return true;
    }
    std::vector<TapeEntry> entries() {
        std::reverse(entries_.begin(), entries_.end());
        return std::exchange(entries_, {});
    }

private:
    std::int64_t before_id_;
    std::set<std::string> seen_;
    std::vector<TapeEntry> entries_;
};

/// The extra before a message, collected from the newest event to the oldest.
class EarlierExtra {
public:
    explicit EarlierExtra(std::optional<std::int64_t> before_id) : before_id_(before_id) {}

    /// Returns false when it is complete.
    bool take(const TapeEntry& entry) {
        if (before_id_ && entry.id >= *before_id_) return true;
        const std::string_view name = entry_name(entry);
        if (name == detail::extra_event) complete_ = entry;
        if (name == detail::extra_changes_event && !changed_) changed_ = entry;
        return !complete_;
    }
    JsonObject value() const { return StoredExtra(complete_, changed_).value; }

private:
    std::optional<std::int64_t> before_id_;
    std::optional<TapeEntry> complete_;
    std::optional<TapeEntry> changed_;
};

Task<ContextCut> cut_context(std::shared_ptr<TapeStore> store, std::string tape,
                             std::string after_run_id) {
    const std::optional<TapeEntry> end = co_await store->find_run(tape, after_run_id);
    const std::optional<RunEnd> run = end ? run_end_of(*end) : std::nullopt;
    if (!run || !run->complete) {
        TapeQuery first = TapeQuery().limit(1);
        const std::vector<TapeEntry> there = co_await store->fetch(tape, std::move(first));
        if (there.empty()) cubepi::detail::throw_thread_not_found(tape);
        cubepi::detail::throw_run_not_completed(tape, after_run_id);
    }
    auto cut = std::make_shared<ContextCut>(end->id);
    TapeQuery all = TapeQuery().newest_first();
    std::function<bool(const TapeEntry&)> take = [cut](const TapeEntry& entry) {
        return cut->take(entry);
    };
    co_await store->visit(std::move(tape), std::move(all), std::move(take));
    co_return std::move(*cut);
}

TapeEntry fork_entry(const std::string& source, const std::string& after_run_id) {
    JsonObject data;
    data["from"] = source;
    data["after_run"] = after_run_id;
    return event_entry(detail::fork_event, std::move(data), hidden_from_context());
}

}  // namespace

Task<JsonObject> extra_after_run(std::shared_ptr<TapeStore> store, std::string tape,
                                 std::string run_id) {
    const ContextCut cut = co_await cut_context(store, tape, std::move(run_id));
    auto extra = std::make_shared<EarlierExtra>(cut.next_message());
    std::vector<std::string> events(1, std::string(entry_kind::event));
    TapeQuery query = TapeQuery().kinds(std::move(events)).newest_first();
    std::function<bool(const TapeEntry&)> take = [extra](const TapeEntry& entry) {
        return extra->take(entry);
    };
    co_await store->visit(std::move(tape), std::move(query), std::move(take));
    co_return extra->value();
}

Task<MessageList> TapeCheckpointer::State::snapshot(std::string thread_id,
                                                    std::string after_run_id) {
    const auto self = shared_from_this();
    ContextCut cut = co_await cut_context(store, std::move(thread_id), std::move(after_run_id));
    std::vector<TapeEntry> entries = cut.entries();
    co_await restore_media(entries);
    co_return agent_messages(entries);
}

Task<std::int64_t> TapeCheckpointer::State::change(std::string source_thread_id, ThreadFork fork) {
    const auto self = shared_from_this();
    ContextCut cut = co_await cut_context(store, source_thread_id, fork.after_run_id);
    TapeQuery first = TapeQuery().limit(1);
    const std::vector<TapeEntry> there =
        co_await store->fetch(fork.new_thread_id, std::move(first));
    if (!there.empty()) cubepi::detail::throw_thread_exists(fork.new_thread_id);

    auto earlier = std::make_shared<EarlierEvents>(cut.first_id());
    std::vector<std::string> events(1, std::string(entry_kind::event));
    TapeQuery query = TapeQuery().kinds(std::move(events)).newest_first();
    std::function<bool(const TapeEntry&)> take = [earlier](const TapeEntry& entry) {
        return earlier->take(entry);
    };
    co_await store->visit(source_thread_id, std::move(query), std::move(take));

    std::vector<TapeEntry> entries = earlier->entries();
    entries.insert(entries.begin(), fork_entry(source_thread_id, fork.after_run_id));
    for (TapeEntry& entry : cut.entries()) entries.push_back(std::move(entry));
    JsonObject extra = co_await stored_extra(store, std::move(source_thread_id));
    if (fork.metadata) extra["fork"] = std::move(*fork.metadata);
    if (!extra.empty()) {
        entries.push_back(
            event_entry(detail::extra_event, std::move(extra), hidden_from_context()));
    }
    TapeAppend only_first = TapeAppend().expected_position(0);
    bool exists = false;
    try {
        (void)co_await store->append(fork.new_thread_id, std::move(entries), std::move(only_first));
    } catch (const cubepi::StaleAppendError&) {
        exists = true;  // since it was read above
    }
    if (exists) cubepi::detail::throw_thread_exists(fork.new_thread_id);
    co_return 0;
}

namespace {

/// Collects the copy in a fork, so that the tape gets all of it in one step, or nothing. Throws StaleAppendError if the
/// tape has messages by then.
Task<void> copy_at_once(CheckpointData data, Tape target, JsonObject note) {
    const std::shared_ptr<TurnTransaction> fork = target.fork();
    co_await target.in(fork).bootstrap();
    TapeCheckpointer memory(fork);
    AppendOptions options = AppendOptions().expected_position(0).extra(std::move(data.extra));
    co_await memory.append(target.name(), std::move(data.messages), std::move(options));
    std::vector<TapeEntry> entries = detail::mergeable(fork->entries());
    entries.push_back(event_entry("session.imported", std::move(note), hidden_from_context()));
    co_await fork->discard();
    TapeAppend only_first = TapeAppend().expected_position(0);
    co_await target.store()->append(target.name(), std::move(entries), std::move(only_first));
}

}  // namespace

Task<std::size_t> import_thread(std::shared_ptr<Checkpointer> source, std::string thread_id,
                                std::shared_ptr<TapeStore> store, std::string tape,
                                std::string from) {
    const TapePosition end = co_await store->position(tape);
    if (end.messages > 0) co_return 0;
    std::optional<CheckpointData> data = co_await source->load(thread_id);
    if (!data || data->messages.empty()) co_return 0;
    const std::size_t count = data->messages.size();
    JsonObject note;
    note["from"] = std::move(from);
    note["thread_id"] = std::move(thread_id);
    note["messages"] = count;
    Tape target(std::move(store), std::move(tape));
    try {
        co_await copy_at_once(std::move(*data), std::move(target), std::move(note));
    } catch (const StaleAppendError&) {
        co_return 0;  // another process copied it meanwhile
    }
    co_return count;
}

}  // namespace bub
