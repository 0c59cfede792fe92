#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/workspace/file_checkpoints.hpp>

namespace cubepi::detail {

/// The content and the mode of a file at one moment.
struct FileVersion {
    bool exists = false;
    std::string sha256 = {};  ///< empty: not read
    std::uint64_t bytes = 0;
    std::optional<unsigned> mode = {};

    bool same_content(const FileVersion& other) const {
        return exists == other.exists &&
               (!exists || (bytes == other.bytes && !sha256.empty() && sha256 == other.sha256));
    }
};

/// A change of a file, recorded before it is made.
struct ChangeRecord {
    enum class Kind : std::uint8_t { change, undo, redo };

    std::uint64_t number = 0;
    Kind kind = Kind::change;
    std::string prompt = {};
    std::string root = {};  ///< of the workspace
    std::string path = {};  ///< Workspace::write_target()
    FileVersion before = {};
    FileVersion after = {};
    bool copied = false;                     ///< there is a copy of `before`
    std::vector<std::uint64_t> covers = {};  ///< of an undo or a redo: the changes
    std::string batch = {};                  ///< the same for all files of one undo or redo
    std::optional<bool> applied = {};        ///< absent: the process was killed before it knew
};

/// The files of FileCheckpoints on disk: `journal`, a record per line, and `objects`, copies of contents by their SHA-256.
///
/// A record is durable, with its copy, before add() returns. A line that a killed process has not completed is removed by
/// the next one. Other processes use the same files; each operation holds their lock.
class CheckpointJournal {
public:
    explicit CheckpointJournal(FileCheckpointOptions options);

    /// Holds the files against other threads and processes, and reads what others have written. `create`: makes the directory
    /// if it is missing, otherwise there are no records. Throws Error: storage_locked, permission_denied, io.
    class Hold {
    public:
        Hold(CheckpointJournal& journal, bool create);
        ~Hold();
        Hold(const Hold&) = delete;
        Hold& operator=(const Hold&) = delete;

    private:
        CheckpointJournal& journal_;
        const std::lock_guard<std::mutex> alone_;
    };

    // While a Hold exists.

    std::vector<ChangeRecord>& records() noexcept { return records_; }
    /// Returns the number of changes that were dropped because of the limits.
    std::uint64_t dropped() const noexcept { return dropped_; }

    /// Reads the bytes of a file piece by piece: returns 0 at the end.
    using Source = std::function<std::size_t(char* buffer, std::size_t size)>;
    /// Stores a copy of `bytes` bytes, and drops the oldest changes if it does not fit. Returns the SHA-256.
    /// Throws Error: too_large, storage_full, io.
    std::string store(const Source& source, std::uint64_t bytes);
    /// Returns a copy. Throws Error(not_found) if it is missing or damaged.
    std::string load(const FileVersion& version);
    /// Sets the number of the record, and writes it. Throws Error: storage_full, io.
    void add(ChangeRecord& record);
    /// Records whether the change was made. A failure is ignored: the next reader compares the file.
    void record_outcome(std::uint64_t number, bool applied) noexcept;
    /// Copies everything to a new directory. Throws Error: io, and invalid_state if it has records.
    void copy_to(const std::filesystem::path& directory) const;

private:
    bool open(bool create);
    void acquire();
    void refresh();
    void take_line(std::string_view line);
    void append(const std::string& line, bool durable);
    void free_space(std::uint64_t bytes);
    void rewrite();
    std::string all_lines() const;
    enum class Unused : bool { complete, all };
    void remove_unused(Unused which);
    std::map<std::string, std::uint64_t> copies() const;

    const FileCheckpointOptions options_;
    std::mutex mutex_;
    UniqueFd directory_;
    UniqueFd objects_;
    UniqueFd lock_;
    UniqueFd journal_;
    std::uint64_t read_to_ = 0;  // the end of the last complete line
    std::uint64_t last_ = 0;
    std::uint64_t dropped_ = 0;
    bool swept_ = false;
    std::vector<ChangeRecord> records_;
};

}  // namespace cubepi::detail
