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
#include <bub/warning_handler.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/worker_pool.hpp>

namespace bub {

namespace detail {
struct DeliveryStep;
}

/// When records are forced to the disk. A killed process loses nothing either way.
enum class DeliverySync : std::uint8_t {
    promises,  ///< before a call returns that promises something: receive, begin, intend, resend
    never,     ///< when the system gets round to it
};

struct FileDeliveryLogOptions {
    /// Its own folder. Empty: $BUB_HOME/deliveries, else ~/.bub/deliveries.
    std::filesystem::path folder = {};
    DeliverySync sync = DeliverySync::promises;
    std::shared_ptr<cubepi::Clock> clock = {};  ///< null: the machine's
    /// Messages that are not dealt with, in and out together. When there are so many, held ones above all, more are refused.
    std::size_t max_open = 10'000;
    /// Inbound ids that are remembered of each channel after their messages were dealt with.
    std::size_t remembered = 1'000;
    /// A file that is longer is written anew without what is dealt with, once that is the greater part of it.
    std::size_t compact_bytes = 1 << 20;
    /// Told of what could not be read. Never of message bodies (B13). Called on the caller's executor; may be absent.
    WarningHandler on_warning = {};
};

/// The delivery log in a file of JSON lines, `deliveries.jsonl`, which only grows until it is written anew. What a crash cut
/// off in the middle of a line had been promised to nobody, and is taken back. One process at a time: a second one gets
/// Error(storage_locked) at its first call. Used on one executor; all file access is on a thread of its own.
///
/// A call whose record cannot be written throws, and leaves nothing behind: Error(storage_full) when the disk is full.
/// Error(limit) when too much is open.
class FileDeliveryLog final : public DeliveryLog, public PlansAnswers {
public:
    explicit FileDeliveryLog(FileDeliveryLogOptions options = {});
    ~FileDeliveryLog() override;

    Task<std::optional<std::string>> receive(Envelope message) override;
    Task<> begin(std::vector<std::string> ids) override;
    Task<> put_back(std::vector<std::string> ids) override;
    Task<> finish(std::vector<std::string> ids) override;
    Task<std::vector<StoredInbound>> unfinished() override;
    Task<std::string> intend(Envelope message, std::vector<std::string> answers) override;
    Task<> plan(std::vector<std::optional<Envelope>> parts,
                std::vector<std::string> answers) override;
    Task<std::string> intend_part(Envelope message, std::vector<std::string> answers,
                                  std::size_t number, std::size_t count) override;
    Task<> resend(std::string id) override;
    Task<> sent(std::string id) override;
    Task<> failed(std::string id, std::string reason) override;
    Task<std::vector<Delivery>> unsettled() override;

private:
    struct State;
    Task<> take(std::shared_ptr<detail::DeliveryStep> step);
    /// Writes the record that `make` gives, which has the next id.
    Task<std::string> intend_as(
        std::function<JsonObject(const detail::DeliveryRecords& records)> make);

    std::shared_ptr<State> state_;
    cubepi::WorkerPool thread_;  // what runs on it may still use the state
};

}  // namespace bub
