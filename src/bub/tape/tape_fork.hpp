#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <cubepi/core/runtime.hpp>

namespace bub {

/// How a turn ended.
enum class TurnStatus : std::uint8_t { ok, error, cancelled, interrupted };
std::string_view to_string(TurnStatus status) noexcept;

struct TapeForkOptions {
    /// Not empty: the fork is the turn of this id. It is journaled beside the tape, where the store can do that, and
    /// its merge ends with the event `turn` {turn, status} as commit marker (B9).
    std::string turn_id = {};
    /// Text that was shown is in the journal at most this much later.
    std::chrono::milliseconds flush_interval{500};
    /// The tape's sidecars by name: they are in the fork too. Tape::fork adds those of the tape.
    std::vector<std::string> sidecars = {};
    std::shared_ptr<const cubepi::Runtime> runtime = {};  ///< null: Runtime::standard()
};

/// A tape store in which one tape, with its sidecars, has a continuation that nobody else sees until it is merged. Inside
/// one sees the tape followed by what the fork holds. It locks nothing: the tape can be appended to, read and forked again
/// meanwhile. Other tapes of the store are passed through. Used on one executor.
///
/// A turn that is neither merged nor discarded stays in its journal, and the next start closes it as interrupted. A claim
/// that was taken inside is kept until the end of the fork (D50).
class TapeFork final : public TapeStore,
                       public TapeStateStore,
                       public TapeIndex,
                       public TapeMediaStore,
                       public TurnClaims {
public:
    TapeFork(std::shared_ptr<TapeStore> parent, std::string tape, TapeForkOptions options = {});
    ~TapeFork() override;
    TapeFork(const TapeFork&) = delete;
    TapeFork& operator=(const TapeFork&) = delete;

    const std::string& tape() const noexcept;
    const std::string& turn_id() const noexcept;
    /// What the fork holds of the tape.
    const std::vector<TapeEntry>& entries() const noexcept;

    /// Text of the answer that was shown and is in no entry yet. The next assistant entry stands for it and clears it.
    /// Buffered; in the journal at the latest `flush_interval` later. Does nothing without a journal. Call it on the
    /// executor of the fork.
    void said(std::string_view delta);
    /// Writes what said() has buffered, now.
    Task<void> flush();
    /// Entries that come behind all others when the fork is merged, and are not seen before: what a child of the turn
    /// did must not come between the turn's calls and their results. In the journal at once.
    Task<void> append_behind(std::vector<TapeEntry> entries);
    /// Ends the fork: all it holds is on the tape, or (when it throws) nothing, and it waits in its journal for the next
    /// turn, which closes it as interrupted; its claims are given up. Text that was said and is in no
    /// entry becomes an assistant message unless the status is `ok`. A turn that holds nothing leaves nothing. Sidecars
    /// come first; where one cannot be written, the event `sidecar.merge` on the tape says so. When another process has
    /// taken over a claim of the turn, the turn is refused with StaleAppendError: it is not part of the conversation, and
    /// what it did is kept on the tape as the event `turn.refused`, out of every context.
    Task<void> merge(TurnStatus status = TurnStatus::ok);
    /// Ends the fork: nothing of it stays.
    Task<void> discard();

    Task<std::vector<std::string>> list_tapes() override;
    Task<std::vector<std::string>> all_tapes() override;
    Task<std::vector<TapeEntry>> fetch(std::string tape, TapeQuery query) override;
    Task<void> visit(std::string tape, TapeQuery query,
                     std::function<bool(const TapeEntry&)> visit) override;
    Task<TapePosition> append(std::string tape, std::vector<TapeEntry> entries,
                              TapeAppend options) override;
    Task<TapePosition> position(std::string tape) override;
    Task<void> reset(std::string tape) override;
    Task<TapeInfo> info(std::string tape) override;
    Task<std::vector<TapeEntry>> anchors(std::string tape, std::size_t limit) override;
    /// Side state and media are the parent's; they throw `unsupported` where it has none.
    Task<Json> edit_state(std::string tape, std::function<Json(JsonObject& state)> edit) override;
    Task<JsonObject> read_state(std::string tape) override;
    bool hold_claim(const std::string& tape, TapeClaim claim) override;
    bool edit_state_at_end(const std::string& tape,
                           std::function<void(JsonObject& state)> edit) override;
    Task<std::optional<TapeEntry>> find_message_entry(std::string tape,
                                                      std::string message_id) override;
    Task<std::optional<TapeEntry>> find_event(std::string tape, std::string name) override;
    Task<std::optional<TapeEntry>> find_run(std::string tape, std::string run_id) override;
    Task<std::string> put_media(std::string bytes) override;
    Task<std::optional<std::string>> get_media(std::string sha256) override;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace bub
