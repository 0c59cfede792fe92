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

#include <bub/channel/detail/delivery_records.hpp>
#include <bub/channel/file_delivery_log.hpp>
#include <bub/tape/detail/descriptor.hpp>

namespace bub::detail {

/// One call of the log on its way to the file.
struct DeliveryStep {
    /// Looks at the records and gives the one to write; nothing: there is nothing to write. Its exception is this step's.
    std::function<std::optional<JsonObject>(DeliveryRecords& records)> make;
    bool must_last = false;  ///< is forced to the disk before the call returns

    // The journal's.
    bool over = false;
    std::exception_ptr failure = {};
};
using DeliveryStepPtr = std::shared_ptr<DeliveryStep>;

/// The file behind FileDeliveryLog. Steps take effect in the order of enqueue(); those that wait at the same time are
/// written, and forced to the disk, together.
class DeliveryJournal {
public:
    explicit DeliveryJournal(FileDeliveryLogOptions options);

    /// Any thread.
    void enqueue(DeliveryStepPtr step);
    /// Does what is queued, the step among it, or waits until somebody else has. Blocks. Throws the step's failure.
    void complete(const DeliveryStepPtr& step);
    /// The same without a step of one's own.
    void flush();
    /// What an operator should know, once.
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
    void sync_folder() const;
    void warn(std::string text);

    const FileDeliveryLogOptions options_;
    const std::filesystem::path path_;

    std::mutex queue_mutex_;
    std::vector<DeliveryStepPtr> queue_;
    std::vector<std::string> warnings_;

    std::mutex file_mutex_;  // guards what follows
    Descriptor lock_;
    Descriptor file_;
    std::optional<DeliveryRecords> records_;
    std::uint64_t size_ = 0;             // of what was promised
    std::uint64_t size_when_fresh_ = 0;  // after it was last written anew
    bool was_open_ = false;
    bool noted_damage_ = false;
};

}  // namespace bub::detail
