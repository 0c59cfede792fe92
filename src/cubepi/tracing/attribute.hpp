#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
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

/// The value of an attribute: a text, a boolean, a number, or a list of texts. Small and cheap to destroy: a traced run writes
/// about fifty. Like the key, a string literal is not copied and has no reference count.
class AttributeValue {
public:
    enum class Kind : std::uint8_t { text, boolean, integer, number, list };

    /// The empty text.
    AttributeValue() noexcept : plain_{.literal = ""} {}
    template <std::size_t size>
    consteval AttributeValue(const char (&literal)[size]) noexcept
        : plain_{.literal = literal}, size_(static_cast<std::uint32_t>(size - 1)) {}
    /// Returns the value of a text that exists as long as the program.
    static AttributeValue of_literal(std::string_view text) noexcept {
        AttributeValue value;
        value.plain_.literal = text.data();
        value.size_ = static_cast<std::uint32_t>(text.size());
        return value;
    }
    template <std::convertible_to<SharedString> Text>
        requires(!std::is_array_v<std::remove_reference_t<Text>>)
    AttributeValue(Text&& text) : shared_(std::forward<Text>(text)), tag_(Tag::shared) {}
    template <std::same_as<bool> Bool>
    AttributeValue(Bool value) noexcept : plain_{.boolean = value}, tag_(Tag::boolean) {}
    /// Unsigned 64-bit numbers have no form of their own: convert them.
    template <std::integral Integer>
        requires(!std::same_as<Integer, bool> && (std::is_signed_v<Integer> || sizeof(Integer) < 8))
    AttributeValue(Integer value) noexcept : plain_{.integer = value}, tag_(Tag::integer) {}
    template <std::floating_point Number>
    AttributeValue(Number value) noexcept : plain_{.number = value}, tag_(Tag::number) {}
    AttributeValue(TextList list) noexcept : list_(std::move(list)), tag_(Tag::list) {}
    AttributeValue(std::vector<SharedString> list) : AttributeValue(TextList(std::move(list))) {}

    AttributeValue(const AttributeValue& other) noexcept : plain_() { copy_from(other); }
    AttributeValue(AttributeValue&& other) noexcept : plain_() { move_from(other); }
    AttributeValue& operator=(const AttributeValue& other) noexcept {
        return *this = AttributeValue(other);
    }
    AttributeValue& operator=(AttributeValue&& other) noexcept {
        if (this != &other) {
            if (tag_ >= Tag::shared) destroy();
            move_from(other);
        }
        return *this;
    }
    ~AttributeValue() {
        if (tag_ >= Tag::shared) destroy();
    }

    Kind kind() const noexcept;
    // Return the value if it is of that kind.
    std::optional<std::string_view> if_text() const noexcept {
        if (tag_ == Tag::literal) return std::string_view(plain_.literal, size_);
        if (tag_ == Tag::shared) return std::string_view(shared_);
        return std::nullopt;
    }
    const bool* if_boolean() const noexcept {
        return tag_ == Tag::boolean ? &plain_.boolean : nullptr;
    }
    const std::int64_t* if_integer() const noexcept {
        return tag_ == Tag::integer ? &plain_.integer : nullptr;
    }
    const double* if_number() const noexcept {
        return tag_ == Tag::number ? &plain_.number : nullptr;
    }
    const TextList* if_list() const noexcept { return tag_ == Tag::list ? &list_ : nullptr; }

    /// Estimates the memory of what the value refers to, in bytes.
    std::size_t memory() const noexcept { return tag_ < Tag::shared ? 0 : memory_of_texts(); }
    friend bool operator==(const AttributeValue& a, const AttributeValue& b) noexcept;

private:
    // Those that have to be destroyed are the last ones.
    enum class Tag : std::uint8_t { literal, boolean, integer, number, shared, list };

    union Plain {
        const char* literal;
        bool boolean;
        std::int64_t integer;
        double number;
    };

    void copy_from(const AttributeValue& other) noexcept {
        copy_plain(other);
        if (tag_ == Tag::shared) {
            std::construct_at(&shared_, other.shared_);
        } else if (tag_ == Tag::list) {
            std::construct_at(&list_, other.list_);
        }
    }
    /// Leaves an empty text or list behind if it had one.
    void move_from(AttributeValue& other) noexcept {
        copy_plain(other);
        if (tag_ == Tag::shared) {
            std::construct_at(&shared_, std::move(other.shared_));
        } else if (tag_ == Tag::list) {
            std::construct_at(&list_, std::move(other.list_));
        }
    }
    void copy_plain(const AttributeValue& other) noexcept {
        tag_ = other.tag_;
        size_ = other.size_;
        if (tag_ < Tag::shared) plain_ = other.plain_;
    }
    void destroy() noexcept {
        if (tag_ == Tag::shared) {
            std::destroy_at(&shared_);
        } else {
            std::destroy_at(&list_);
        }
    }
    std::size_t memory_of_texts() const noexcept;

    union {
        Plain plain_;
        SharedString shared_;
        TextList list_;
    };
    std::uint32_t size_ = 0;  // of the literal
    Tag tag_ = Tag::literal;
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
