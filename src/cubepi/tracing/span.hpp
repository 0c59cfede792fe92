#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/core/shared_string.hpp>
#include <cubepi/tracing/text_list.hpp>

// Spans in the data model of OpenTelemetry (https://opentelemetry.io/docs/specs/otel/trace/api/), as exporters receive them.

namespace cubepi {

/// The schema of the attribute names, on resources and scopes.
inline constexpr std::string_view semantic_conventions_url =
    "https://opentelemetry.io/schemas/1.41.0";

/// Identifies a trace: 16 bytes, not all zero.
struct TraceId {
    std::array<std::uint8_t, 16> bytes = {};

    bool valid() const noexcept { return bytes != decltype(bytes){}; }
    /// Returns 32 lower-case hexadecimal digits.
    std::string hex() const;
    /// Returns a random id. Thread-safe; safe after fork().
    static TraceId random();
    friend auto operator<=>(const TraceId&, const TraceId&) = default;
};

/// Identifies a span of a trace: 8 bytes, not all zero.
struct SpanId {
    std::array<std::uint8_t, 8> bytes = {};

    bool valid() const noexcept { return bytes != decltype(bytes){}; }
    /// Returns 16 lower-case hexadecimal digits.
    std::string hex() const;
    static SpanId random();
    friend auto operator<=>(const SpanId&, const SpanId&) = default;
};

/// The identity of a span, also across processes.
struct SpanContext {
    TraceId trace_id = {};
    SpanId span_id = {};
    bool sampled = true;

    bool valid() const noexcept { return trace_id.valid() && span_id.valid(); }
    /// Returns the header `traceparent` of W3C Trace Context, version 00.
    std::string traceparent() const;
    /// Parses a `traceparent` (https://www.w3.org/TR/trace-context/#traceparent-header). Empty if it is invalid.
    static std::optional<SpanContext> parse(std::string_view traceparent);
};

/// A value of an attribute: a string, boolean or number, or a list of strings. Small: a traced run writes about fifty.
using AttributeValue = std::variant<SharedString, bool, std::int64_t, double, TextList>;

/// The key of an attribute. A string literal is not copied: keys of all spans are the same, and a reference count that all
/// threads share would slow them down.
class AttributeKey {
public:
    AttributeKey() noexcept : literal_(""), size_(0) {}
    template <std::size_t size>
    consteval AttributeKey(const char (&literal)[size]) noexcept
        : literal_(literal), size_(static_cast<std::uint32_t>(size - 1)) {}
    AttributeKey(std::string text) : owned_(std::move(text)), size_(is_owned) {}
    AttributeKey(const AttributeKey& other) noexcept : literal_(nullptr), size_(other.size_) {
        if (size_ == is_owned) {
            std::construct_at(&owned_, other.owned_);
        } else {
            literal_ = other.literal_;
        }
    }
    AttributeKey(AttributeKey&& other) noexcept : literal_(nullptr), size_(other.size_) {
        if (size_ == is_owned) {
            std::construct_at(&owned_, std::move(other.owned_));
        } else {
            literal_ = other.literal_;
        }
    }
    AttributeKey& operator=(AttributeKey other) noexcept {
        std::destroy_at(this);
        return *std::construct_at(this, std::move(other));
    }
    ~AttributeKey() {
        if (size_ == is_owned) std::destroy_at(&owned_);
    }

    std::string_view text() const noexcept {
        return size_ == is_owned ? std::string_view(owned_) : std::string_view(literal_, size_);
    }
    operator std::string_view() const noexcept { return text(); }
    friend bool operator==(const AttributeKey& a, const AttributeKey& b) noexcept {
        return a.text() == b.text();
    }
    friend bool operator==(const AttributeKey& a, std::string_view b) noexcept {
        return a.text() == b;
    }

private:
    static constexpr std::uint32_t is_owned = 0xffffffffU;

    union {
        const char* literal_;
        SharedString owned_;
    };
    std::uint32_t size_;  // of the literal, or is_owned
};

struct Attribute {
    AttributeKey key = {};
    AttributeValue value = {};
};

/// Attributes in the order in which they were set; a key occurs once.
class Attributes {
public:
    /// Sets the value of `key`, replacing an earlier one.
    void set(AttributeKey key, AttributeValue value);
    /// Appends a key that is known not to be set yet.
    template <std::convertible_to<AttributeValue> Value>
    void add(AttributeKey key, Value&& value) {
        all_.emplace_back(std::move(key), std::forward<Value>(value));
    }
    const AttributeValue* find(std::string_view key) const noexcept;
    void reserve(std::size_t count) { all_.reserve(count); }
    /// Removes all attributes. Keeps the memory.
    void clear() noexcept { all_.clear(); }
    bool empty() const noexcept { return all_.empty(); }
    std::size_t size() const noexcept { return all_.size(); }
    auto begin() const noexcept { return all_.begin(); }
    auto end() const noexcept { return all_.end(); }

private:
    std::vector<Attribute> all_;
};

enum class SpanKind : std::uint8_t { internal, server, client, producer, consumer };
enum class SpanStatus : std::uint8_t { unset, ok, error };

/// Something that happened during a span, for example an exception.
struct SpanEvent {
    SharedString name = {};
    std::chrono::system_clock::time_point time = {};
    Attributes attributes = {};
};

/// A reference to a span that is not the parent, for example the suspended run that a run continues.
struct SpanLink {
    SpanContext context = {};
    Attributes attributes = {};
};

/// A span that has ended. Immutable, shared by all exporters.
struct SpanData {
    SharedString name = {};
    SpanContext context = {};
    SpanId parent = {};  ///< not valid: none
    SpanKind kind = SpanKind::internal;
    std::chrono::system_clock::time_point start = {};
    std::chrono::system_clock::time_point end = {};
    SpanStatus status = SpanStatus::unset;
    std::string status_description = {};
    Attributes attributes = {};
    std::vector<SpanEvent> events = {};
    std::vector<SpanLink> links = {};

    /// Makes the span empty. Keeps its memory.
    void clear() noexcept;
    /// Estimates the memory of the span in bytes, for the limits of queues.
    std::size_t memory() const noexcept;
};

/// The program that produced spans or metrics.
struct Resource {
    Attributes attributes = {};
    std::string schema_url = std::string(semantic_conventions_url);
};

}  // namespace cubepi
