#include <bub/tape/file/turn_journal_file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <bub/tape/entry/json_text.hpp>
#include <cubepi/core/error.hpp>

namespace bub::detail {

TurnJournalFile::TurnJournalFile(std::filesystem::path directory, std::filesystem::path path,
                                 std::string turn_id, std::shared_ptr<cubepi::Clock> clock,
                                 std::chrono::milliseconds lock_timeout)
    : directory_(std::move(directory)),
      path_(std::move(path)),
      turn_id_(std::move(turn_id)),
      clock_(std::move(clock)),
      lock_timeout_(lock_timeout) {}

/// Another process may find the new file before it is locked: it locks it, sees that it belongs to no turn, and removes it
/// with the directory.
void TurnJournalFile::open_file() {
    for (int attempt = 0;; ++attempt) {
        make_private_directory(directory_);
        bool locked = false;
        try {
            locked = open_locked(file_, path_, O_RDWR | O_APPEND | O_CREAT, LockKind::exclusive,
                                 lock_timeout_);
        } catch (const cubepi::Error&) {
            if (attempt == 10) throw;
            continue;
        }
        if (locked) return;
        throw cubepi::CheckpointerLockTimeoutError(
            cubepi::ErrorCode::storage_locked,
            "turn '" + turn_id_ + "' is in progress in another process (" + path_.string() + ")");
    }
}

void TurnJournalFile::open() {
    open_file();
    JsonObject head;
    head["turn"] = turn_id_;
    head["pid"] = static_cast<std::int64_t>(::getpid());
    head["started"] = tape_date(clock_->wall());
    std::string text;
    append_json_text(text, head);
    text += '\n';
    try {
        file_.write(text);
    } catch (...) {
        // A journal without its head belongs to no turn: the next lines start it from scratch.
        ::unlink(path_.c_str());
        file_ = Descriptor();
        throw;
    }
}

void TurnJournalFile::write(std::string_view lines) {
    const std::lock_guard lock(mutex_);
    if (removed_) return;
    if (!file_) open();
    const std::uint64_t size = file_.size();
    try {
        file_.write(lines);
    } catch (...) {
        // The lines will be written again, and must not follow a partial copy of themselves.
        file_.truncate(size);
        throw;
    }
}

void TurnJournalFile::remove() noexcept {
    const std::lock_guard lock(mutex_);
    removed_ = true;
    if (file_) ::unlink(path_.c_str());
    ::rmdir(directory_.c_str());
    file_ = Descriptor();
}

}  // namespace bub::detail
