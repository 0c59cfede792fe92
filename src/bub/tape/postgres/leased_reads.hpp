#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <bub/tape/postgres/tape_tables.hpp>
#include <bub/tape/turn_reads.hpp>
#include <cubepi/core/clock.hpp>

namespace bub::detail {

/// The values that the store of one turn (D227) has read of its tapes, so that each look-up of the turn is read once (D269):
///
/// - The newest entries by key, and the last anchor. While the lease lasts, only processes without a lease write the tape, and no turn
///   of theirs continues it while the turn holds the claim. An entry that they append is on the tape before those of the turn, whether
///   the turn has read it or not, as with every entry that follows the read of a context. That a message or a run is not on the tape is
///   remembered, too: the message belongs to the lease, and a run of the turn is completed by its claim, which the append checks.
/// - The row with the end and the side state, for at most `oldest_row`. TapeStore::position() returns the end: an append checks
///   expected_position against the row that it locks, and a fork compares the ends from before and after its claim. recent_state()
///   returns the side state, for a check of the claim in a fork that its merge repeats under the lock. The questions with which a turn
///   begins are those of its first look-up. All others read the state from the server: questions and answers are written by other
///   processes.
///
/// Each write of the store reads the row under the lock of the tape, or has the server check that it is known (D270), and replaces the
/// one here. If another process has changed the end of the tape since, the entries are forgotten. If the fate of a write is not known, or
/// turns on the tape may have been closed, all of the tape is forgotten. A read of entries that finds another end of the tape than the
/// row has does the same. Thread-safe.
class LeasedReads : public std::enable_shared_from_this<LeasedReads> {
public:
    LeasedReads(std::shared_ptr<cubepi::detail::SqlStore> store, std::shared_ptr<PgTapeTurns> turns,
                std::shared_ptr<TapeUse> use);

    void expect(std::vector<TapeLookup> lookups, std::vector<std::string> tapes);
    Task<std::optional<TapeEntry>> find(std::string tape, TapeLookup lookup);
    Task<std::optional<TapeEntry>> last_anchor(std::string tape);
    /// Returns the row as it was at most `oldest_row` ago.
    Task<TapeRow> recent_row(std::string tape);
    /// Reads the row from the server, except before the first write after the first look-up of the turn.
    Task<TapeRow> read_row(std::string tape);

    /// Returns the function for a read of entries that begins now, which compares the end of the tape with the row.
    std::function<void(std::int64_t last_id)> end_check(const std::string& tape);

    /// One write of the store, during which reads of the tape are not remembered. Forgets the tape unless set_stored() is called. Without
    /// `reads` it does nothing.
    class Write {
    public:
        Write(std::shared_ptr<LeasedReads> reads, std::string tape);
        ~Write();
        Write(const Write&) = delete;
        Write& operator=(const Write&) = delete;

        void set_stored(TapeRow row);

    private:
        const std::shared_ptr<LeasedReads> reads_;
        const std::string tape_;
        std::uint64_t moment_ = 0;
        cubepi::Clock::time_point begun_ = {};
        bool has_ended_ = false;
    };

private:
    using Time = cubepi::Clock::time_point;
    struct Known {
        std::uint64_t moment = 0;  ///< grows when a write begins or ends, and when turns are closed
        std::uint64_t closings = 0;  ///< TapeUse::closings()
        bool is_prepared = false;    ///< what is expected was read
        std::optional<TapeRow> row = {};
        Time row_time = {};
        bool is_first_row = false;  ///< it is that of the first look-up, before any write
        std::optional<std::optional<TapeEntry>> last_anchor = {};
        std::map<TapeLookup, std::optional<TapeEntry>> found = {};
    };
    /// A read in progress.
    struct Moment {
        std::uint64_t of_tape = 0;
        Time begun = {};
    };

    /// Reads what is expected of the tape, once, after the dead turns on it were closed.
    Task<> prepare(std::string tape);
    /// Reads the tapes, of the first one all that is expected. Returns those with turns, which may be dead; of these nothing is remembered.
    Task<std::vector<std::string>> read_expected(std::vector<std::string> tapes,
                                                 std::vector<TapeLookup> lookups);
    Moment begin_read(const std::string& tape);
    /// Returns what is remembered of the tape: nothing if turns on it may have been closed since.
    Known& known_of(const std::string& tape);
    /// Returns null if a write has begun or ended since.
    Known* known_since(const std::string& tape, const Moment& moment);
    void note_row(Known& known, TapeRow row, Time time);
    void note_found(Known& known, TapeLookup lookup, std::optional<TapeEntry> entry);
    std::optional<TapeRow> known_row(const std::string& tape, bool must_be_first = false);
    static void forget(Known& known);

    const std::shared_ptr<cubepi::detail::SqlStore> store_;
    const std::shared_ptr<PgTapeTurns> turns_;
    const std::shared_ptr<TapeUse> use_;
    std::mutex mutex_;
    std::vector<TapeLookup> lookups_;
    std::set<std::string> tapes_;
    std::map<std::string, Known> known_;
};

/// Selects the newest entry for each look-up, and the last anchor after them if `with_anchor`. Each is a row, with a line or without.
cubepi::detail::SqlQuery select_newest(const std::string& tape,
                                       const std::vector<TapeLookup>& lookups,
                                       bool with_anchor = false);
/// Returns the entry of a row of select_newest(), or of another line that may be absent.
std::optional<TapeEntry> read_entry(const SqlResult& result, int row);

}  // namespace bub::detail
