#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/core/compact_values.hpp>
#include <cubepi/core/shared_string.hpp>

// Attributes of spans, metrics and resources (https://opentelemetry.io/docs/specs/otel/common/#attribute).

namespace cubepi {

/// An immutable list of strings in one word; copies share it. Distinct copies may be used from different threads.
class TextList {
public:
    TextList() noexcept = default;
    TextList(std::vector<SharedString> texts) {
        if (!texts.empty()) texts_ = std::move(texts);
    }

    const SharedString* begin() const noexcept { return texts_ ? texts_->data() : nullptr; }
    const SharedString* end() const noexcept { return begin() + size(); }
    std::size_t size() const noexcept { return texts_ ? texts_->size() : 0; }
    bool empty() const noexcept { return !texts_; }

    friend bool operator==(const TextList& a, const TextList& b) = default;

private:
    SharedValue<std::vector<SharedString>> texts_;
};

/// The key of an attribute. A string literal is not copied: keys of all spans are the same, and a reference count that all
/// threads share would slow them down.
class AttributeKey {
public:
    AttributeKey() noexcept = default;
    template <std::size_t size>
    consteval AttributeKey(const char (&literal)[size]) noexcept
        : text_(std::string_view(literal, size - 1)) {}
    AttributeKey(std::string text) : text_(SharedString(std::move(text))) {}

    std::string_view text() const noexcept {
        const auto* literal = std::get_if<std::string_view>(&text_);
        return literal ? *literal : std::string_view(*std::get_if<SharedString>(&text_));
    }
    operator std::string_view() const noexcept { return text(); }
    friend bool operator==(const AttributeKey& a, const AttributeKey& b) noexcept {
        return a.text() == b.text();
    }
    friend bool operator==(const AttributeKey& a, std::string_view b) noexcept {
        return a.text() == b;
    }

private:
    std::variant<std::string_view, SharedString> text_;  // a literal, or a copy
};

/// The value of an attribute: a text, a boolean, a number, or a list of texts. Like the key, a string literal is not copied and has no
/// reference count.
class AttributeValue {
public:
    enum class Kind : std::uint8_t { text, boolean, integer, number, list };

    /// The empty text.
    AttributeValue() noexcept = default;
    template <std::size_t size>
    consteval AttributeValue(const char (&literal)[size]) noexcept
        : value_(std::string_view(literal, size - 1)) {}
    /// Returns the value of a text that exists as long as the program.
    static AttributeValue of_literal(std::string_view text) noexcept {
        AttributeValue value;
        value.value_ = text;
        return value;
    }
    template <std::convertible_to<SharedString> Text>
        requires(!std::is_array_v<std::remove_reference_t<Text>>)
    AttributeValue(Text&& text) : value_(SharedString(std::forward<Text>(text))) {}
    template <std::same_as<bool> Bool>
    AttributeValue(Bool value) noexcept : value_(value) {}
    /// Unsigned 64-bit numbers have no form of their own: convert them.
    template <std::integral Integer>
        requires(!std::same_as<Integer, bool> && (std::is_signed_v<Integer> || sizeof(Integer) < 8))
    AttributeValue(Integer value) noexcept : value_(static_cast<std::int64_t>(value)) {}
    template <std::floating_point Number>
    AttributeValue(Number value) noexcept : value_(static_cast<double>(value)) {}
    AttributeValue(TextList list) noexcept : value_(std::move(list)) {}
    AttributeValue(std::vector<SharedString> list) : AttributeValue(TextList(std::move(list))) {}

    Kind kind() const noexcept;
    // Return the value if it is of that kind.
    std::optional<std::string_view> if_text() const noexcept {
        if (const auto* literal = std::get_if<std::string_view>(&value_)) return *literal;
        if (const auto* text = std::get_if<SharedString>(&value_)) return std::string_view(*text);
        return std::nullopt;
    }
    const bool* if_boolean() const noexcept { return std::get_if<bool>(&value_); }
    const std::int64_t* if_integer() const noexcept { return std::get_if<std::int64_t>(&value_); }
    const double* if_number() const noexcept { return std::get_if<double>(&value_); }
    const TextList* if_list() const noexcept { return std::get_if<TextList>(&value_); }

    /// Estimates the memory of what the value refers to, in bytes.
    std::size_t memory() const noexcept;
    friend bool operator==(const AttributeValue& a, const AttributeValue& b) noexcept;

private:
    std::variant<std::string_view, bool, std::int64_t, double, SharedString, TextList> value_;
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
    void add(AttributeKey key, AttributeValue value) {
        all_.emplace_back(std::move(key), std::move(value));
    }
    const AttributeValue* find(std::string_view key) const noexcept;
    void reserve(std::size_t count) { all_.reserve(count); }
    /// Estimates the memory of all in bytes.
    std::size_t memory() const noexcept;
    bool empty() const noexcept { return all_.empty(); }
    std::size_t size() const noexcept { return all_.size(); }
    auto begin() const noexcept { return all_.begin(); }
    auto end() const noexcept { return all_.end(); }

private:
    std::vector<Attribute> all_;
};

}  // namespace cubepi
