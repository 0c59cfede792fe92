#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <cubepi/core/runtime.hpp>

namespace bub {

/// The outcome of a turn.
enum class TurnStatus : std::uint8_t {
    ok,
    error,
    cancelled,
    interrupted,
    suspended,  ///< its run waits for the user (B23)
};
std::string_view to_string(TurnStatus status) noexcept;

struct TurnTransactionOptions {
    /// If not empty, the fork is the turn with this id. It is journaled in the store, if the store supports that, and
    /// its merge ends with the event `turn` {turn, status} as commit marker (B9).
    std::string turn_id = {};
    /// The maximum delay until displayed text is written to the journal. That of the store if it is longer
    /// (TurnJournalStore::text_interval()).
    std::chrono::milliseconds flush_interval{500};
    std::shared_ptr<const cubepi::Runtime> runtime = {};  ///< null: Runtime::standard()
    /// Added to the meta of all entries of the fork, for example the ids of a trace.
    JsonObject meta = {};
};

/// The part of a fork that a checkpointer uses: appended entries reach the tape later, all together. Until then no other process may continue
/// from the tape, so a claim acquired for it is held that long (D50).
class TurnClaims {
public:
    virtual ~TurnClaims() = default;
    /// Makes the turn's merge fail if another owner has superseded this claim. Returns false if the tape is not part of
    /// the turn.
    virtual bool hold_claim(const std::string& tape, TapeClaim claim) = 0;
    /// Edits the state like edit_state, but the edit becomes visible outside when the turn ends, merged or not; inside
    /// the turn it is visible immediately. Returns false, without effect, if the tape is not part of the turn.
    virtual bool edit_state_at_end(const std::string& tape,
                                   std::function<void(JsonObject& state)> edit) = 0;
};

/// A tape store in which one tape has a continuation that is invisible outside until it is merged.
/// Inside the fork the tape is followed by the fork's entries. The fork locks nothing: meanwhile the tape can be
/// appended to, read and forked again. Other tapes of the store are passed through. Used on one executor.
///
/// A turn that is neither merged nor discarded remains in its journal, and the next start closes it as interrupted. A
/// claim acquired inside the fork is held until the fork ends (D50); if the fork is destroyed instead, as at the end of a cancelled turn
/// whose time is over, a claim that was released does not block this process.
class TurnTransaction final : public TapeStore, public TapeMediaStore, public TurnClaims {
public:
    TurnTransaction(std::shared_ptr<TapeStore> parent, std::string tape,
                    TurnTransactionOptions options = {});
    ~TurnTransaction() override;
    TurnTransaction(const TurnTransaction&) = delete;
    TurnTransaction& operator=(const TurnTransaction&) = delete;

    const std::string& tape() const noexcept;
    /// Returns the entries of the fork for its tape.
    const std::vector<TapeEntry>& entries() const noexcept;

    /// Closes the turns on the tape that nothing continues. Throws if that fails, also if the disk is full, when others may read the
    /// tape without them: a turn that begins so does not know them, and repeats the one of its message. Call it first.
    Task<void> open();
    /// Records displayed text of the answer that is not yet part of an entry. The next assistant entry supersedes and
    /// clears it. Buffered; written to the journal after the delay of the options. Has no effect without a journal.
    /// Call it on the executor of the fork.
    void add_text(std::string_view delta);
    /// Writes the text buffered by add_text() immediately.
    Task<void> flush();
    /// Adds entries that follow all others when the fork is merged and are invisible before: entries of a nested turn
    /// must not come between the turn's calls and their results. Journaled immediately.
    Task<void> append_behind(std::vector<TapeEntry> entries);
    /// Ends the fork and appends all its entries to the tape. If it throws, nothing is appended, and the turn stays in
    /// its journal for the next turn, which closes it as interrupted; its claims are released. Text recorded by add_text()
    /// that is not part of an entry becomes an assistant message unless the status is `ok`. A turn without entries
    /// leaves no trace. If another process has superseded a claim of the turn, the turn is fenced with StaleAppendError:
    /// it is not part of the conversation, and its entries are preserved on the tape in the event `turn.refused`,
    /// excluded from every context.
    Task<void> merge(TurnStatus status = TurnStatus::ok);
    /// Ends the fork and discards its entries.
    Task<void> discard();

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
    /// Side state and media are the parent's; the functions for media throw `unsupported` if the parent has none.
    Task<Json> edit_state(std::string tape, std::function<Json(JsonObject& state)> edit) override;
    Task<JsonObject> read_state(std::string tape) override;
    Task<cubepi::QuestionPage> list_requests(cubepi::QuestionQuery query) override;
    std::string state_file(const std::string& tape) const override;
    bool hold_claim(const std::string& tape, TapeClaim claim) override;
    bool edit_state_at_end(const std::string& tape,
                           std::function<void(JsonObject& state)> edit) override;
    Task<std::optional<TapeEntry>> find(std::string tape, TapeKey key, std::string value) override;
    Task<std::string> put_media(std::string bytes) override;
    Task<std::optional<std::string>> get_media(std::string sha256) override;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace bub
