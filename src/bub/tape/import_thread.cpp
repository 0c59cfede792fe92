#include <utility>

#include <bub/tape/detail/checkpointer_state.hpp>
#include <bub/tape/detail/entry_facts.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>

namespace bub {

using namespace cubepi;

Task<std::size_t> import_thread(std::shared_ptr<Checkpointer> source, std::string thread_id,
                                std::shared_ptr<TapeStore> store, std::string tape,
                                std::string from) {
    const TapePosition end = co_await store->position(tape);
    if (end.messages > 0) co_return 0;
    std::optional<CheckpointData> data = co_await source->load(thread_id);
    if (!data || data->messages.empty()) co_return 0;
    const Tape target(store, tape);
    co_await target.bootstrap();
    TapeCheckpointer memory(store);
    AppendOptions options = AppendOptions().expected_position(0).extra(data->extra);
    co_await memory.append(tape, data->messages, std::move(options));
    JsonObject note;
    note["from"] = std::move(from);
    note["thread_id"] = std::move(thread_id);
    note["messages"] = data->messages.size();
    TapeEntry event = event_entry("session.imported", std::move(note), hidden_from_context());
    co_await target.append(std::move(event));
    co_return data->messages.size();
}

}  // namespace bub
