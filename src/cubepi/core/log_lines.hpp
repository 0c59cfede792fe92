#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <string>

#include <cubepi/core/log.hpp>

namespace cubepi {

class Clock;

enum class LogFormat : std::uint8_t {
    text,  ///< 2026-11-24T01:02:03.456Z warning store.busy store=sqlite waited_ms=5000
    json,  ///< {"time":"2026-11-24T01:02:03.456Z","level":"warning","event":"store.busy","store":"sqlite","waited_ms":5000}
    journal,  ///< <4>store.busy store=sqlite waited_ms=5000, for systemd, which adds the time (sd-daemon(3))
};

/// Returns the record as one line of printable ASCII with a line feed at its end. Control characters are escaped, other bytes are
/// written as "?", and values longer than 256 bytes are cut, so that no value can forge a line or control a terminal.
std::string log_line(const LogRecord& record, LogFormat format,
                     std::chrono::system_clock::time_point time);

/// Writes each record as a line to a stream, with one write of the stream.
class StreamLogSink final : public LogSink {
public:
    /// `out` must outlive the sink. `clock` dates the lines; null: the system clock.
    explicit StreamLogSink(std::ostream& out, LogFormat format = LogFormat::text,
                           std::shared_ptr<Clock> clock = nullptr);
    void write(const LogRecord& record) override;

private:
    std::ostream& out_;
    const LogFormat format_;
    const std::shared_ptr<Clock> clock_;
    std::mutex mutex_;
};

}  // namespace cubepi
