#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/tracing/tracer.hpp>

// Recorded content, and the report of losses. Content is messages in the form of OpenTelemetry's GenAI conventions, as JSON
// texts, because an attribute has no structure.

namespace cubepi::detail {

/// Replaces a text or an object that was redacted and has no other form.
inline constexpr std::string_view redacted_text = "[redacted]";

/// The values that the `redact` function changed or dropped in a run, its nested runs and the spans around them. The same value
/// occurs in other attributes, too: in the body of a request, in the prompt of a sub-agent, in an answer that quotes it (D102). Thread-safe.
class Redactions {
public:
    static constexpr std::size_t max_bytes = std::size_t{32} << 20U;
    /// A shorter text is replaced only where it is the whole string.
    static constexpr std::size_t min_part = 4;
    /// A shorter text is not replaced inside of longer words.
    static constexpr std::size_t min_inside = 8;

    /// Notes the difference. `after`: null if the value was dropped. `is_data`: all of it is a value, also under keys such as "type" and
    /// "name", which are structure in messages.
    void note(const Json& before, const Json* after, bool is_data);
    /// Replaces what was noted so far. Returns false if that is impossible because too much was noted.
    bool apply(Json& value) const;

private:
    struct LongestFirst {
        bool operator()(const std::string& a, const std::string& b) const noexcept {
            return a.size() != b.size() ? a.size() > b.size() : a < b;
        }
    };
    using Texts = std::map<std::string, std::string, LongestFirst>;
    using Objects = std::vector<std::pair<Json, Json>>;

    void note_text(std::string_view before, std::string_view after);
    void note_object(const Json& before, const Json* after);
    void note_parts(const Json& before, const Json* after, bool is_data);
    bool replace(Json& value, bool is_data, std::size_t depth) const;
    bool replace_in(boost::json::string& text, std::size_t depth) const;

    mutable std::mutex mutex_;  // of the following
    Texts texts_;
    Objects objects_;
    std::size_t bytes_ = 0;
};

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

JsonArray system_instructions(std::string_view text);
JsonArray tool_definitions(const ToolDefinitions& tools);

/// Decides what of a run's content is recorded. Each value has one key, under which `redact` decides about it, and is recorded everywhere
/// as `redact` returns it (D102): a message consists of values of several keys, and the body of a request of those of its messages. Thread-safe as far
/// as the `redact` function is.
class ContentFilter {
public:
    /// `losses` counts values for which `redact` throws; may be null.
    ContentFilter(bool enabled, Redact redact, std::shared_ptr<LossReport> losses)
        : enabled_(enabled), redact_(std::move(redact)), losses_(std::move(losses)) {}
    /// Returns the filter of a run or of a span of the program. `shared`: what was redacted in it and around it.
    ContentFilter with(std::shared_ptr<Redactions> shared) const;
    /// Returns the filter of a run that a tool call started: its answer becomes the result of the call.
    ContentFilter for_nested_run() const;

    bool enabled() const noexcept { return enabled_; }
    bool redacts() const noexcept { return redact_ != nullptr; }
    const std::shared_ptr<Redactions>& redactions() const noexcept { return redactions_; }

    /// Returns a value as `redact` returns it under its key; empty if it is not recorded. It then differs everywhere.
    std::optional<Json> value(std::string_view key, Json value) const;
    /// Returns `{role, parts}` of a message, of redacted values: mostly one object.
    JsonArray messages(const Message& message) const;
    JsonArray messages(const MessageList& list) const;
    /// Returns a text that becomes the result of a tool call, or a part of it.
    std::string result_text(std::string_view text) const;

    /// Returns something that consists of redacted values, as `redact` returns it as a whole and without what it hid elsewhere.
    std::optional<Json> whole(std::string_view key, Json value) const;
    /// Sets an attribute to a value that `redact` returned, without what it hid elsewhere: as JSON, or a string as it is. Empty
    /// or null: the attribute is not set.
    void set(Attributes& attributes, AttributeKey key, std::optional<Json> recorded) const;
    /// Sets an attribute to what whole() returns.
    void add_whole(Attributes& attributes, AttributeKey key, Json value) const;
    /// Returns an error text, at most 256 bytes of it; `instead` if content is not recorded.
    std::string error_text(std::string_view text, std::string_view instead) const;

private:
    std::optional<Json> call(std::string_view key, Json value) const;
    std::optional<Json> hidden(std::optional<Json> recorded) const;
    JsonObject redacted_call(const ToolCall& call) const;
    std::string redacted_result(Json result) const;
    void redact_answer(const AssistantMessage& answer, JsonArray& parts) const;

    bool enabled_;
    Redact redact_;
    std::shared_ptr<LossReport> losses_;
    std::shared_ptr<Redactions> redactions_ = {};  // null: nothing is redacted
    bool is_nested_ = false;
};

}  // namespace cubepi::detail
