#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/tracing/tracer.hpp>

// Recorded content, and the report of losses. Content is messages in the form of OpenTelemetry's GenAI conventions, as JSON
// texts, because an attribute has no structure.

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

/// Returns `{role, parts}` of a message.
JsonObject content_of(const Message& message);
JsonArray content_of(const MessageList& messages);
JsonArray system_instructions(std::string_view text);
JsonArray tool_definitions(const ToolDefinitions& tools);

/// Decides what of a run's content is recorded. Thread-safe as far as the `redact` function is.
class ContentFilter {
public:
    /// `losses` counts values for which `redact` throws; may be null.
    ContentFilter(bool enabled, Redact redact, std::shared_ptr<LossReport> losses)
        : enabled_(enabled), redact_(std::move(redact)), losses_(std::move(losses)) {}

    bool enabled() const noexcept { return enabled_; }
    const Redact& redact() const noexcept { return redact_; }
    /// Returns the value after redaction; empty if it is not recorded.
    std::optional<Json> value(std::string_view key, Json value) const;
    /// Sets an attribute with the value as JSON, or as it is if redaction made a string of it.
    void add(Attributes& attributes, AttributeKey key, Json value) const;
    /// Returns an error text, at most 256 bytes of it; `instead` if content is not recorded.
    std::string error_text(std::string_view text, std::string_view instead) const;

private:
    bool enabled_;
    Redact redact_;
    std::shared_ptr<LossReport> losses_;
};

}  // namespace cubepi::detail
