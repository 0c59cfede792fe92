#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <bub/channel/delivery/delivery_records.hpp>
#include <bub/channel/file_delivery_log.hpp>
#include <bub/tape/file/descriptor.hpp>

namespace bub::detail {

/// A call of the log that is queued for the file.
struct DeliveryStep {
    /// Inspects the records and returns the one to write; nothing if there is none. Its exception is this step's
    /// failure.
    std::function<std::optional<JsonObject>(DeliveryRecords& records)> make;
    bool must_last = false;  ///< must be synced before the call returns

    // Set by the journal.
    bool over = false;
    std::exception_ptr failure = {};
};
using DeliveryStepPtr = std::shared_ptr<DeliveryStep>;

/// The file of a FileDeliveryLog. Steps take effect in the order of enqueue(); steps that are queued at the same time
/// are written and synced together.
class DeliveryJournal {
public:
    explicit DeliveryJournal(FileDeliveryLogOptions options);

    /// Thread-safe.
    void enqueue(DeliveryStepPtr step);
    /// Executes the queued steps including `step`, or waits until another thread has. Blocks. Throws the step's
    /// failure.
    void complete(const DeliveryStepPtr& step);
    /// Like complete(), without a step.
    void flush();
    /// Returns and clears the warnings for the operator.
    std::vector<std::string> take_warnings();

private:
    std::vector<DeliveryStepPtr> take_queue();
    void write(const std::vector<DeliveryStepPtr>& steps);
    void take_back();
    void open();
    void lock();
    void load(std::string_view text);
    void append(std::string_view lines, bool must_last);
    void compact_when_due();
    void compact();
    void sync_directory() const;
    /// Logs the event, and adds the text to the warnings.
    void warn(std::string_view event, std::initializer_list<cubepi::LogField> fields,
              std::string text);

    const FileDeliveryLogOptions options_;
    const std::filesystem::path path_;

    std::mutex queue_mutex_;
    std::vector<DeliveryStepPtr> queue_;
    std::vector<std::string> warnings_;

    std::mutex file_mutex_;  // guards the following members
    Descriptor lock_;
    Descriptor file_;
    std::optional<DeliveryRecords> records_;
    std::uint64_t size_ = 0;             // of acknowledged data
    std::uint64_t size_when_fresh_ = 0;  // after the last rewrite
    bool was_open_ = false;
    bool noted_damage_ = false;
};

}  // namespace bub::detail
