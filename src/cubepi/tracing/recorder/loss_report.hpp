#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <cubepi/core/notice.hpp>

namespace cubepi::detail {

/// The kinds of losses of a recorder.
enum class Loss : std::uint8_t {
    redacted_value,  ///< the `redact` function threw an exception
    held_span,       ///< of a run that failed, beyond the limits of SpanHold
    stream_line,     ///< of a stream file
    event,           ///< an exception inside a recorder
};

/// Counts what recorders lose. Reports each kind once, when it first happens, and the totals at the end. Thread-safe.
class LossReport {
public:
    /// `report` may be empty; its exceptions are discarded.
    explicit LossReport(std::function<void(const Notice&)> report) : report_(std::move(report)) {}

    /// `why` completes the text of the notice; contains no content.
    void add(Loss kind, std::string_view why, std::uint64_t count = 1) noexcept;
    std::uint64_t count(Loss kind) const noexcept { return counts_[index_of(kind)]; }
    /// Reports the totals if anything was lost. Further calls have no effect.
    void end() noexcept;

private:
    static constexpr std::size_t kinds = 4;
    static std::size_t index_of(Loss kind) noexcept { return static_cast<std::size_t>(kind); }
    void send(std::string code, std::string text, JsonObject details) const;

    const std::function<void(const Notice&)> report_;
    std::array<std::atomic<std::uint64_t>, kinds> counts_ = {};
    std::atomic<bool> ended_ = false;
};

}  // namespace cubepi::detail
