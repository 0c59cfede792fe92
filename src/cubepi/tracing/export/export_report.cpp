#include <cubepi/tracing/export/export_report.hpp>

#include <utility>

namespace cubepi::detail {

void NoticeReceiver::send(const Notice& notice) noexcept {
    const std::lock_guard lock(mutex_);
    if (!report_) return;
    try {
        report_(notice);
    } catch (...) {
        // Tracing must not fail because its operator could not be notified.
    }
}

void NoticeReceiver::close() noexcept {
    const std::lock_guard lock(mutex_);
    report_ = nullptr;
}

void ExportReporter::send(const char* code, std::string text, JsonObject details) noexcept {
    try {
        Notice notice;
        notice.code = code;
        notice.text = std::move(text);
        notice.details = std::move(details);
        notice.details["exporter"] = exporter_;
        receiver_->send(notice);
    } catch (...) {
        // No memory for a notice.
    }
}

void ExportReporter::exported(const ExportResult& result, std::uint64_t dropped) {
    const bool drops = dropped > std::exchange(dropped_, dropped);
    if (drops && !std::exchange(dropping_, true)) {
        send("export_dropping", "the exporter " + exporter_ +
                                    " is too slow: its queue is full and " + item_ +
                                    " are dropped");
    }
    if (result.rejected != 0) {
        if (std::exchange(failing_, true)) return;
        const std::string error =
            result.error.empty() ? std::to_string(result.rejected) + " " + item_ + " were rejected"
                                 : result.error;
        JsonObject details;
        details["error"] = error;
        send("export_failing",
             "the exporter " + exporter_ + " cannot deliver " + item_ + ": " + error,
             std::move(details));
        return;
    }
    if (!result.error.empty() && warning_ != result.error) {
        warning_ = result.error;
        send("export_warning", "the exporter " + exporter_ + ": " + warning_);
    }
    if (drops || (!failing_ && !dropping_)) return;
    failing_ = false;
    dropping_ = false;
    send("export_recovered", "the exporter " + exporter_ + " delivers " + item_ + " again");
}

void ExportReporter::ended(const ExportCounts& counts, const std::string& reason) {
    JsonObject details;
    details["exported"] = counts.exported;
    details["dropped"] = counts.dropped;
    details["failed"] = counts.failed;
    std::string text =
        "the exporter " + exporter_ + " delivered " + std::to_string(counts.exported) + " " + item_;
    if (counts.dropped != 0) text += ", " + std::to_string(counts.dropped) + " were dropped";
    if (counts.failed != 0) text += ", " + std::to_string(counts.failed) + " were not accepted";
    if (counts.failed != 0 && !reason.empty()) {
        text += ": " + reason;
        details["error"] = reason;
    }
    send("export_ended", std::move(text), std::move(details));
}

}  // namespace cubepi::detail
