#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/detail/descriptor.hpp>
#include <bub/tape/tape_store.hpp>
#include <cubepi/core/clock.hpp>

namespace bub::detail {

/// What a journal says of a turn.
struct JournaledTurn {
    struct Sidecar {
        bool reset = false;
        std::vector<TapeEntry> entries = {};
    };
    std::string id = {};
    bool reset = false;
    std::vector<TapeEntry> entries = {};
    std::vector<TapeEntry> behind = {};  ///< come after all others
    std::string said = {};               ///< was shown and is in no entry
    std::map<std::string, Sidecar> sidecars = {};
    std::vector<TapeClaim> claims = {};  ///< under which it goes on from `after` messages
    std::int64_t after = 0;

    bool empty() const {
        return entries.empty() && behind.empty() && said.empty() && !reset && sidecars.empty();
    }
};

/// A torn last line, and what cannot be read, is left out.
JournaledTurn read_journal(std::string_view text);
/// Whether the entry holds the text of an answer, which stands for what was said before it.
bool is_answer(const TapeEntry& entry);
/// Adds what was said, what comes behind, and the marker that the turn was interrupted.
void close_interrupted(JournaledTurn& turn);
/// What the turn did as one event, which stays out of the context and moves no position.
TapeEntry refused_turn(JournaledTurn turn, std::string_view status, std::string reason);
/// What was said and never became an entry, as an assistant message.
TapeEntry said_entry(std::string text, const std::string& turn_id, std::string_view status);
TapeEntry turn_marker(const std::string& turn_id, std::string_view status);

/// Lines of a journal that are not written yet, in their order. Any thread may call.
class JournalBuffer {
public:
    /// Where lines stand, as long as nothing was written since.
    struct Lines {
        std::size_t begin = 0;
        std::size_t end = 0;
        std::size_t changes = 0;
    };

    void add_said(std::string_view text);
    /// `sidecar`: whose entries they are; empty: the tape's.
    Lines add(const std::vector<TapeEntry>& entries, bool reset, const std::string& sidecar);
    /// Drops lines that could not be written. False: they were written after all, or are not where they stood.
    bool take_back(const Lines& lines);
    void add_behind(const std::vector<TapeEntry>& entries);
    /// The turn goes on from `after` messages under this claim.
    void add_claim(const TapeClaim& claim, std::int64_t after);
    bool empty() const;
    /// Writes all that is there. `open` makes the journal when there is none yet.
    void drain(const std::function<std::shared_ptr<TurnJournal>()>& open);
    /// Null before the first drain.
    std::shared_ptr<TurnJournal> journal() const;

private:
    void end_said();
    void add_lines(const std::vector<TapeEntry>& entries, bool reset, const std::string& sidecar);

    mutable std::mutex mutex_;
    std::string lines_;
    std::string said_;
    std::size_t changes_ = 0;  ///< how often what was in `lines_` went from its place
    std::shared_ptr<TurnJournal> journal_;
};

/// Locked while the process lives: who gets the lock knows that it does not.
class TurnJournalFile final : public TurnJournal {
public:
    TurnJournalFile(std::filesystem::path folder, std::filesystem::path path, std::string turn_id,
                    std::shared_ptr<cubepi::Clock> clock);

    void write(std::string_view lines) override;
    void remove() noexcept override;

private:
    void open();

    const std::filesystem::path folder_;
    const std::filesystem::path path_;
    const std::string turn_id_;
    const std::shared_ptr<cubepi::Clock> clock_;
    std::mutex mutex_;
    Descriptor file_;
    bool removed_ = false;
};

}  // namespace bub::detail
