#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include <bub/tape/session_tape_store.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/offload.hpp>

namespace bub {

/// When the bytes of a tape are synced to disk. A killed process loses nothing in either mode.
enum class TapeSync : std::uint8_t {
    append,  ///< with each append to a tape (one per turn): stored data survives a power failure
    never,   ///< left to the operating system
};

struct FileTapeOptions {
    std::filesystem::path directory = {};
    TapeSync sync = TapeSync::append;
    /// Timeout for acquiring the lock while another process is writing the same tape.
    std::chrono::milliseconds lock_timeout{10'000};
    std::shared_ptr<cubepi::Clock> clock = {};         ///< null: the system clock
    std::shared_ptr<cubepi::WorkerPool> workers = {};  ///< null: Runtime::standard()'s
    /// Receives "store.busy" and what was recovered after a crash: "tape.torn_line", "tape.append_completed",
    /// "tape.turn_closed". Absent: the log of Runtime::standard().
    std::optional<cubepi::Logger> log = {};
};

/// Returns $HOME; if it is unset, the home directory in the system's user database.
std::filesystem::path home_directory();
/// Returns $BUB_HOME/tapes, else ~/.bub/tapes.
std::filesystem::path default_tape_directory();

/// A store of tapes in a directory, one file NAME.jsonl per tape, in Bub's format (docs/guides/bub/tape.md describes
/// the accompanying files). One writer at a time per tape, ensured by a file lock that is held during a write. All file
/// access is on the worker pool. Memory use does not grow with a tape: reading starts at the position given by the
/// index, or at the end of the file.
class FileTapeStore : public SessionTapeStore {
public:
    /// Does not access any file; directories are created by the first write.
    explicit FileTapeStore(FileTapeOptions options);
    explicit FileTapeStore(std::filesystem::path directory);
    ~FileTapeStore() override;
    FileTapeStore(const FileTapeStore&) = delete;
    FileTapeStore& operator=(const FileTapeStore&) = delete;

    const std::filesystem::path& directory() const noexcept;

    std::string location() const override;
    using SessionTapeStore::newest_tapes_after;
    Task<std::vector<ListedTape>> newest_tapes_after(std::optional<ListedTape> last,
                                                     std::size_t limit,
                                                     std::string prefix) override;
    Task<void> remove_tape(std::string tape) override;
    Task<std::shared_ptr<const void>> open_tape(std::string tape) override;
    Task<std::shared_ptr<const void>> hold(std::string name) override;
    Task<bool> has_open_turn(std::string tape) override;

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
    Task<Json> edit_state(std::string tape, std::function<Json(JsonObject& state)> edit) override;
    void edit_state_later(const std::string& tape,
                          std::function<void(JsonObject& state)> edit) override;
    Task<JsonObject> read_state(std::string tape) override;
    Task<cubepi::QuestionPage> list_requests(cubepi::QuestionQuery query) override;
    std::string state_file(const std::string& tape) const override;
    Task<std::optional<TapeEntry>> find(std::string tape, TapeKey key, std::string value) override;
    Task<std::string> put_media(std::string bytes) override;
    Task<std::optional<std::string>> get_media(std::string sha256) override;
    std::shared_ptr<TurnJournal> open_journal(const std::string& tape,
                                              const std::string& turn_id) override;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace bub
