#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include <bub/tape/tape_store.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/worker_pool.hpp>

namespace bub {

/// When the bytes of a tape are forced to the disk. A killed process loses nothing either way.
enum class TapeSync : std::uint8_t {
    append,  ///< with each append to a tape (a turn is one): what was stored survives a power cut
    never,   ///< when the system gets round to it
};

struct FileTapeOptions {
    std::filesystem::path directory = {};
    TapeSync sync = TapeSync::append;
    /// How long to wait for another process that is writing the same tape.
    std::chrono::milliseconds lock_timeout{10'000};
    std::shared_ptr<cubepi::Clock> clock = {};         ///< null: the machine's
    std::shared_ptr<cubepi::WorkerPool> workers = {};  ///< null: Runtime::standard()'s
};

/// A tape file in a listing.
struct TapeFileInfo {
    std::string name = {};
    std::uintmax_t bytes = 0;
    std::chrono::system_clock::time_point modified = {};
};

/// $HOME; where that says nothing, what the system knows of this user.
std::filesystem::path home_folder();
/// $BUB_HOME/tapes, else ~/.bub/tapes.
std::filesystem::path default_tape_directory();

/// Tapes in a directory, NAME.jsonl each, as Bub writes and reads them (docs/guides/bub/tape.md has the files beside
/// it). One writer at a time per tape, by a file lock that is held while a write lasts. All file access is on the worker
/// pool. Memory does not grow with a tape: reading begins where the index, or the end of the file, says.
class FileTapeStore final : public TapeStore,
                            public TapeStateStore,
                            public TurnMerges,
                            public TapeIndex,
                            public TapeMediaStore,
                            public TurnJournalStore {
public:
    /// Touches no file; directories are made with the first write.
    explicit FileTapeStore(FileTapeOptions options);
    explicit FileTapeStore(std::filesystem::path directory);
    ~FileTapeStore() override;
    FileTapeStore(const FileTapeStore&) = delete;
    FileTapeStore& operator=(const FileTapeStore&) = delete;

    const std::filesystem::path& directory() const noexcept;
    /// All tapes with exactly one "__" in their name, newest first.
    Task<std::vector<TapeFileInfo>> list_files();
    /// Copies the tape's lines to `target` (made or replaced). Throws `not_found` when there is no such tape.
    Task<void> copy_tape(std::string tape, std::filesystem::path target);
    /// Removes a tape with its sidecars and all that is kept beside it: an explicit wish of a person (D47). Media stay,
    /// since other tapes may use them. Throws `storage_locked` while a turn is in progress on it, and while another process
    /// has it open (open_tape).
    Task<void> remove_tape(std::string tape);
    /// Marks the tape as open in this process until the last copy of the result is gone. Several processes may have a tape
    /// open; none of them loses it to remove_tape() of another one. The tape need not exist.
    Task<std::shared_ptr<const void>> open_tape(std::string tape);

    /// For what several tapes must agree on: waits until nobody else, here or in another process, has what was given for
    /// this name (a file name), as long as for the lock of a tape. It is given back when the last copy is gone.
    Task<std::shared_ptr<const void>> hold(std::string name);

    Task<std::vector<std::string>> list_tapes() override;
    Task<std::vector<std::string>> all_tapes() override;
    Task<std::vector<TapeEntry>> fetch(std::string tape, TapeQuery query) override;
    Task<void> visit(std::string tape, TapeQuery query,
                     std::function<bool(const TapeEntry&)> visit) override;
    Task<TapePosition> append(std::string tape, std::vector<TapeEntry> entries,
                              TapeAppend options) override;
    Task<TapePosition> merge_turn(
        std::string tape, std::shared_ptr<std::vector<SidecarPart>> parts,
        std::function<std::vector<TapeEntry>(const std::vector<SidecarPart>&)> entries,
        TapeAppend options) override;
    Task<TapePosition> position(std::string tape) override;
    Task<void> reset(std::string tape) override;
    Task<TapeInfo> info(std::string tape) override;
    Task<std::vector<TapeEntry>> anchors(std::string tape, std::size_t limit) override;
    Task<Json> edit_state(std::string tape, std::function<Json(JsonObject& state)> edit) override;
    void edit_state_later(const std::string& tape,
                          std::function<void(JsonObject& state)> edit) override;
    Task<JsonObject> read_state(std::string tape) override;
    Task<std::optional<TapeEntry>> find_message_entry(std::string tape,
                                                      std::string message_id) override;
    Task<std::optional<TapeEntry>> find_event(std::string tape, std::string name) override;
    Task<std::optional<TapeEntry>> find_run(std::string tape, std::string run_id) override;
    Task<std::string> put_media(std::string bytes) override;
    Task<std::optional<std::string>> get_media(std::string sha256) override;
    std::shared_ptr<TurnJournal> open_journal(const std::string& tape,
                                              const std::string& turn_id) override;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace bub
