#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <cubepi/core/notice.hpp>
#include <cubepi/tracing/span_sink.hpp>

namespace cubepi::detail {

/// The receiver of notices about exporters, shared by those of one sink. Thread-safe. Nothing arrives after close().
class NoticeReceiver {
public:
    explicit NoticeReceiver(std::function<void(const Notice&)> report)
        : report_(std::move(report)) {}
    /// Discards an exception of the receiver.
    void send(const Notice& notice) noexcept;
    void close() noexcept;

private:
    std::mutex mutex_;
    std::function<void(const Notice&)> report_;
};

/// Returns exporter.retry_reason(), or nothing if it throws.
template <class Exporter>
std::string retry_reason_of(const Exporter& exporter) noexcept {
    try {
        return exporter.retry_reason();
    } catch (...) {
        // The report lacks the reason.
        return {};
    }
}

/// Reports what becomes of the items of one exporter: once when they begin to be lost, once when the exporter has recovered, and
/// the totals at the end. Used by one thread at a time.
class ExportReporter {
public:
    /// `item` is "spans" or "data points".
    ExportReporter(std::string exporter, std::string_view item,
                   std::shared_ptr<NoticeReceiver> receiver)
        : exporter_(std::move(exporter)), item_(item), receiver_(std::move(receiver)) {}

    /// Reports after an export. `dropped` counts the items that found the queue full so far.
    void exported(const ExportResult& result, std::uint64_t dropped);
    /// `reason`: why the last export did not succeed; may be empty.
    void ended(const ExportCounts& counts, const std::string& reason);

private:
    void send(const char* code, std::string text, JsonObject details = {}) noexcept;

    const std::string exporter_;
    const std::string item_;
    const std::shared_ptr<NoticeReceiver> receiver_;
    bool failing_ = false;
    bool dropping_ = false;
    std::uint64_t dropped_ = 0;
    std::string warning_;
};

}  // namespace cubepi::detail
