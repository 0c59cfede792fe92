#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <bub/tape/file/descriptor.hpp>
#include <bub/tape/tape_store.hpp>
#include <cubepi/core/clock.hpp>

namespace bub::detail {

/// The journal of a turn in a file, which is locked while the process lives: another process that acquires the lock knows
/// that it has died.
class TurnJournalFile final : public TurnJournal {
public:
    /// `lock_timeout` limits the wait for a process that looks whether the journal is that of a dead one.
    TurnJournalFile(std::filesystem::path directory, std::filesystem::path path,
                    std::string turn_id, std::shared_ptr<cubepi::Clock> clock,
                    std::chrono::milliseconds lock_timeout);

    void write(std::string_view lines) override;
    void remove() noexcept override;

private:
    void open();
    void open_file();

    const std::filesystem::path directory_;
    const std::filesystem::path path_;
    const std::string turn_id_;
    const std::shared_ptr<cubepi::Clock> clock_;
    const std::chrono::milliseconds lock_timeout_;
    std::mutex mutex_;
    Descriptor file_;
    bool removed_ = false;
};

}  // namespace bub::detail
