#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/shared_string.hpp>

namespace cubepi {

/// The blocks of a message: a vector of two words, because every message in memory has one, and most have one block.
/// Copies have no spare capacity. Inside a Message the blocks are stored after the message, in the same allocation.
/// Moving from or swapping such a list first moves its blocks to an allocation of their own, so that they outlive the
/// message; like every noexcept move, this terminates the program if memory is exhausted.
template <class Block>
class ContentList {
public:
    using value_type = Block;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using reference = Block&;
    using const_reference = const Block&;
    using iterator = Block*;
    using const_iterator = const Block*;

    ContentList() noexcept = default;
    ContentList(std::initializer_list<Block> blocks) : ContentList(blocks.begin(), blocks.end()) {}
    ContentList(std::vector<Block> blocks) {
        reserve(blocks.size());
        for (Block& block : blocks) emplace_back(std::move(block));
    }
    template <std::forward_iterator It>
    ContentList(It first, It last) {
        reserve(static_cast<std::size_t>(std::distance(first, last)));
        for (; first != last; ++first) emplace_back(*first);
    }
    ContentList(const ContentList& other) : ContentList(other.begin(), other.end()) {}
    ContentList(ContentList&& other) noexcept {
        other.own_blocks();
        swap_memory(other);
    }
    ContentList& operator=(ContentList other) noexcept {
        swap(other);
        return *this;
    }
    ~ContentList() {
        if (blocks_) free();
    }

    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    std::size_t capacity() const noexcept { return capacity_; }
    Block* data() noexcept { return blocks_; }
    const Block* data() const noexcept { return blocks_; }
    iterator begin() noexcept { return blocks_; }
    iterator end() noexcept { return blocks_ + size_; }
    const_iterator begin() const noexcept { return blocks_; }
    const_iterator end() const noexcept { return blocks_ + size_; }
    Block& operator[](std::size_t index) noexcept {
        assert(index < size_);
        return blocks_[index];
    }
    const Block& operator[](std::size_t index) const noexcept {
        assert(index < size_);
        return blocks_[index];
    }
    /// Throws std::out_of_range.
    Block& at(std::size_t index) { return blocks_[checked(index)]; }
    const Block& at(std::size_t index) const { return blocks_[checked(index)]; }
    Block& front() noexcept { return (*this)[0]; }
    const Block& front() const noexcept { return (*this)[0]; }
    Block& back() noexcept { return (*this)[size_ - 1]; }
    const Block& back() const noexcept { return (*this)[size_ - 1]; }

    void reserve(std::size_t count) {
        if (count > capacity_) move_to(allocate(count), count);
    }
    void resize(std::size_t count) {
        reserve(count);
        while (size_ > count) pop_back();
        while (size_ < count) emplace_back();
    }
    void push_back(const Block& block) { emplace_back(block); }
    void push_back(Block&& block) { emplace_back(std::move(block)); }
    template <class... Args>
    Block& emplace_back(Args&&... args) {
        if (size_ < capacity_) {
            ::new (blocks_ + size_) Block(std::forward<Args>(args)...);
        } else {
            // Construct the new block first: its arguments may refer to an existing one.
            const std::size_t wanted = size_ == 0 ? 1 : 2 * std::size_t{size_};
            Block* const grown = allocate(wanted);
            try {
                ::new (grown + size_) Block(std::forward<Args>(args)...);
            } catch (...) {
                std::allocator<Block>().deallocate(grown, wanted);
                throw;
            }
            move_to(grown, wanted);
        }
        return blocks_[size_++];
    }
    iterator insert(const_iterator place, Block block) {
        const std::ptrdiff_t index = place - blocks_;
        emplace_back(std::move(block));
        std::rotate(begin() + index, end() - 1, end());
        return begin() + index;
    }
    void pop_back() noexcept {
        assert(size_ > 0);
        blocks_[--size_].~Block();
    }
    iterator erase(const_iterator place) { return erase(place, place + 1); }
    iterator erase(const_iterator first, const_iterator last) {
        Block* const from = blocks_ + (first - blocks_);
        Block* const left = std::move(blocks_ + (last - blocks_), end(), from);
        while (end() != left) pop_back();
        return from;
    }
    void clear() noexcept {
        while (size_ > 0) pop_back();
    }
    void swap(ContentList& other) noexcept {
        own_blocks();
        other.own_blocks();
        swap_memory(other);
    }

    friend bool operator==(const ContentList& a, const ContentList& b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }

private:
    friend class Message;
    /// Moves the blocks of `other` into `memory`, which that belongs to the message and outlives this list. This list
    /// must be empty. `other` keeps its own memory.
    void take_into(ContentList& other, void* memory) noexcept {
        if (other.empty()) return;
        blocks_ = static_cast<Block*>(memory);
        std::uninitialized_move(other.begin(), other.end(), blocks_);
        size_ = other.size_;
        other.clear();
    }

    /// Moves blocks that are stored in a message's allocation to an allocation of this list.
    void own_blocks() noexcept {
        if (capacity_ > 0 || !blocks_) return;
        if (size_ > 0) {
            move_to(allocate(size_), size_);
        } else {
            blocks_ = nullptr;
        }
    }
    void swap_memory(ContentList& other) noexcept {
        std::swap(blocks_, other.blocks_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }
    static Block* allocate(std::size_t count) {
        if (count > std::numeric_limits<std::uint32_t>::max()) throw std::bad_alloc();
        return std::allocator<Block>().allocate(count);
    }
    /// Moves the blocks to a new allocation.
    void move_to(Block* memory, std::size_t capacity) noexcept {
        static_assert(std::is_nothrow_move_constructible_v<Block>);
        std::uninitialized_move(begin(), end(), memory);
        std::destroy(begin(), end());
        free_memory();
        blocks_ = memory;
        capacity_ = static_cast<std::uint32_t>(capacity);
    }
    void free() noexcept {
        std::destroy(begin(), end());
        free_memory();
    }
    /// A capacity of zero means that this list does not own the memory.
    void free_memory() noexcept {
        if (capacity_ > 0) std::allocator<Block>().deallocate(blocks_, capacity_);
    }
    std::size_t checked(std::size_t index) const {
        if (index >= size_) throw std::out_of_range("a message has no block of that number");
        return index;
    }

    Block* blocks_ = nullptr;
    std::uint32_t size_ = 0;
    std::uint32_t capacity_ = 0;
};

/// A JSON object that is nearly always empty, stored in one word. Has the value semantics of JsonObject.
class LazyObject {
public:
    LazyObject() noexcept = default;
    LazyObject(JsonObject object)
        : object_(object.empty() ? nullptr : std::make_unique<JsonObject>(std::move(object))) {}
    LazyObject(const LazyObject& other)
        : object_(other.empty() ? nullptr : std::make_unique<JsonObject>(*other.object_)) {}
    LazyObject(LazyObject&&) noexcept = default;
    LazyObject& operator=(LazyObject other) noexcept {
        object_ = std::move(other.object_);
        return *this;
    }
    ~LazyObject() = default;

    bool empty() const noexcept { return !object_ || object_->empty(); }
    /// Returns the value under `key`, or null if absent.
    const Json* find(std::string_view key) const noexcept {
        return object_ ? object_->if_contains(key) : nullptr;
    }
    /// Returns the value under `key`; inserts null if absent.
    Json& operator[](std::string_view key) { return edit()[key]; }
    /// Preserves the order of the other keys.
    void erase(std::string_view key) {
        if (object_) object_->stable_erase(key);
    }
    const JsonObject& get() const noexcept {
        static const JsonObject none;
        return object_ ? *object_ : none;
    }
    JsonObject& edit() {
        if (!object_) object_ = std::make_unique<JsonObject>();
        return *object_;
    }

    friend bool operator==(const LazyObject& a, const LazyObject& b) { return a.get() == b.get(); }

private:
    std::unique_ptr<JsonObject> object_;
};

/// An immutable value that is nearly always absent, in one word; copies share it. Distinct copies may be used from
/// different threads.
template <class T>
class SharedValue {
public:
    SharedValue() noexcept = default;
    SharedValue(std::nullptr_t) noexcept {}
    SharedValue(T value) : rep_(new Rep(std::move(value))) {}
    SharedValue(const std::shared_ptr<const T>& value) : rep_(value ? new Rep(*value) : nullptr) {}
    SharedValue(const SharedValue& other) noexcept : rep_(other.rep_) {
        if (rep_) rep_->refs.retain();
    }
    SharedValue(SharedValue&& other) noexcept : rep_(std::exchange(other.rep_, nullptr)) {}
    SharedValue& operator=(SharedValue other) noexcept {
        std::swap(rep_, other.rep_);
        return *this;
    }
    ~SharedValue() {
        if (rep_ && rep_->refs.release()) delete rep_;
    }

    explicit operator bool() const noexcept { return rep_ != nullptr; }
    const T* get() const noexcept { return rep_ ? &rep_->value : nullptr; }
    const T& operator*() const noexcept { return rep_->value; }
    const T* operator->() const noexcept { return &rep_->value; }

    /// Returns true if the values are equal or both absent.
    friend bool operator==(const SharedValue& a, const SharedValue& b) {
        return a.rep_ == b.rep_ || (a.rep_ && b.rep_ && a.rep_->value == b.rep_->value);
    }
    friend bool operator==(const SharedValue& a, std::nullptr_t) noexcept { return !a.rep_; }

private:
    struct Rep {
        explicit Rep(T v) : value(std::move(v)) {}
        detail::RefCount refs;
        T value;
    };
    Rep* rep_ = nullptr;
};

/// An optional Unix time in seconds, in one word. Used like std::optional<double>.
class UnixTime {
public:
    constexpr UnixTime() noexcept = default;
    constexpr UnixTime(std::nullopt_t) noexcept {}
    /// NaN means absent.
    constexpr UnixTime(double seconds) noexcept : seconds_(seconds) {}
    constexpr UnixTime(std::optional<double> seconds) noexcept
        : seconds_(seconds ? *seconds : none) {}

    constexpr bool has_value() const noexcept { return seconds_ == seconds_; }
    constexpr explicit operator bool() const noexcept { return has_value(); }
    constexpr double operator*() const noexcept { return seconds_; }
    constexpr double value_or(double other) const noexcept {
        return has_value() ? seconds_ : other;
    }
    constexpr void reset() noexcept { seconds_ = none; }
    constexpr operator std::optional<double>() const noexcept {
        return has_value() ? std::optional<double>(seconds_) : std::nullopt;
    }

    friend constexpr bool operator==(UnixTime a, UnixTime b) noexcept {
        return a.seconds_ == b.seconds_ || (!a.has_value() && !b.has_value());
    }

private:
    static constexpr double none = std::numeric_limits<double>::quiet_NaN();
    double seconds_ = none;
};

}  // namespace cubepi
