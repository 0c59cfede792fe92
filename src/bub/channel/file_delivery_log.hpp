#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <bub/channel/delivery_log.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/checkpoint/store_report.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/offload.hpp>

namespace bub {

/// When records are synced to disk. A killed process loses nothing in either mode.
enum class DeliverySync : std::uint8_t {
    promises,  ///< before calls that promise durability return: receive, begin, intend, resend
    never,     ///< left to the operating system
};

struct FileDeliveryLogOptions {
    /// A directory for this log only. Empty: $BUB_HOME/deliveries, else ~/.bub/deliveries.
    std::filesystem::path directory = {};
    DeliverySync sync = DeliverySync::promises;
    std::shared_ptr<cubepi::Clock> clock = {};  ///< null: the system clock
    /// Limit of unfinished records, inbound and outbound together (mostly held ones); further messages are rejected, answers to those that
    /// were accepted are not.
    std::size_t max_open = 10'000;
    /// The number of inbound ids that are remembered per channel after their messages are finished.
    std::size_t remembered = 1'000;
    /// Once the file exceeds this size and more than half of it is finished records, it is rewritten without them.
    std::size_t compact_bytes = 1 << 20;
    /// Receives records that could not be read. Never receives message bodies (B13). Called on the caller's executor;
    /// may be empty.
    WarningHandler on_warning = {};
    /// Gets "delivery_log.damaged" and "delivery_log.compaction_failed". Absent: the log of Runtime::standard().
    std::optional<cubepi::Logger> log = {};
};

/// A delivery log in a file of JSON lines, `deliveries.jsonl`, which is append-only until it is rewritten. A partial
/// line left by a crash was never acknowledged and is truncated. One process at a time: a second one gets
/// Error(storage_locked) at its first call. Used on one executor; all file access is on a thread of its own.
///
/// A call whose record cannot be written throws and has no effect: Error(storage_full) if the disk is full.
class FileDeliveryLog : public RecordedDeliveryLog {
public:
    explicit FileDeliveryLog(FileDeliveryLogOptions options = {});
    ~FileDeliveryLog() override;

    /// Returns the messages whose ids are remembered although they are finished: channel, chat, sender and id of each.
    Task<std::vector<Envelope>> finished();

protected:
    Task<> perform(std::shared_ptr<detail::DeliveryStep> step) override;

private:
    struct State;
    void perform_later(std::shared_ptr<detail::DeliveryStep> step) override;
    std::string date() const override;

    std::shared_ptr<State> state_;
    cubepi::WorkerPool thread_;  // tasks on it may still use the state
};

/// Checks the delivery log in a directory (D209). Blocks. Reads only, without the lock of the log, so that a gateway can use it and be
/// started: a line that is being written looks like one that was cut off. Throws CheckpointerError if there is no log, or it cannot be
/// read.
cubepi::StoreReport check_delivery_log(const std::filesystem::path& directory);

}  // namespace bub
