#include <utility>

#include <bub/tape/checkpointer/checkpointer_state.hpp>
#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/fork/fork_entries.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/core/error.hpp>

namespace bub {

using namespace cubepi;

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
