#pragma once

#include <memory>
#include <mutex>
#include <string>

#include <cubepi/core/log.hpp>

namespace cubepi::testing {

/// A log in memory, for tests. The text of a record is its line without a time: "<4>store.busy store=sqlite". Thread-safe.
class MemoryLog {
public:
    explicit MemoryLog(LogLevel lowest = LogLevel::debug) : logger_(sink_, lowest) {}

    const Logger& logger() const noexcept { return logger_; }
    /// Returns the lines so far.
    std::string text() const {
        const std::lock_guard lock(sink_->mutex);
        return sink_->text;
    }
    /// Returns true if one of the lines contains `part`.
    bool contains(std::string_view part) const { return text().find(part) != std::string::npos; }

private:
    struct Sink final : LogSink {
        void write(const LogRecord& record) override {
            const std::lock_guard lock(mutex);
            text += log_line(record, LogFormat::journal, {});
        }
        std::mutex mutex;
        std::string text;
    };
    const std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
    const Logger logger_;
};

}  // namespace cubepi::testing
