#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <bub/tape/tape_context.hpp>
#include <bub/tape/tape_session.hpp>
#include <bub/tape/tape_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/stored_threads.hpp>
#include <cubepi/core/clock.hpp>

namespace bub {

struct TapeCheckpointerOptions {
    /// The time for which a claim is valid without being renewed (D50).
    std::chrono::seconds lease{60};
    std::shared_ptr<cubepi::Clock> clock = {};  ///< null: the system clock
    /// The context that load() returns. If it starts at the last anchor and the tape has none, it starts at the
    /// beginning.
    TapeContext context = {};
    /// Recorded in the side state of each tape on which a run is claimed. If `id` is empty, nothing is recorded.
    TapeSession session = {};
    /// The conversation is that of a subagent, whose caller asks its questions: they are stored with the tape, but not
    /// listed by list_requests().
    bool nested = false;
};

/// A checkpointer that stores the memory of a cubepi::Agent on a tape: the thread id is the name of the tape (B21).
/// load() returns the context from the last anchor on (from the beginning if there is none); append() stores entries
/// that Bub reads, each with the whole message in its meta. With a TurnTransaction, the run's messages reach the tape when the
/// turn is merged. Claims, pending requests, answers and the marks of started batches are side state of the tape, also
/// during a turn. AppendOptions::settle() removes requests and answers from the side state before the append: a process that
/// is killed between the two has neither the answer nor the result, and the question is asked again.
/// Calls may come from several executors at once, if the store allows that.
class TapeCheckpointer final : public cubepi::StoredThreads {
public:
    explicit TapeCheckpointer(std::shared_ptr<TapeStore> store,
                              TapeCheckpointerOptions options = {});
    ~TapeCheckpointer() override;
    TapeCheckpointer(const TapeCheckpointer&) = delete;
    TapeCheckpointer& operator=(const TapeCheckpointer&) = delete;

private:
    struct State;
};

/// Returns CheckpointData::extra of a tape; empty if nothing is stored.
Task<JsonObject> stored_extra(std::shared_ptr<TapeStore> store, std::string tape);
/// Returns what it was after a completed run, before the next message: Checkpointer::fork() copies that of now. Throws as fork() does.
Task<JsonObject> extra_after_run(std::shared_ptr<TapeStore> store, std::string tape,
                                 std::string run_id);

/// Copies a thread of another store to a tape that has no messages yet, in one step, and returns the number of messages
/// copied: 0 if the tape has messages already or the thread does not exist. The event `session.imported` {from,
/// thread_id, messages} on the tape records the copy.
Task<std::size_t> import_thread(std::shared_ptr<cubepi::Checkpointer> source, std::string thread_id,
                                std::shared_ptr<TapeStore> store, std::string tape,
                                std::string from);

}  // namespace bub
