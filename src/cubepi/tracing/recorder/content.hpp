#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/tracing/recorder/loss_report.hpp>
#include <cubepi/tracing/tracer.hpp>

// Recorded content: messages in the form of OpenTelemetry's GenAI conventions, as JSON texts, because an attribute has no
// structure.

namespace cubepi::detail {

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
