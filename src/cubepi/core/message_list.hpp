#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include <cubepi/core/message.hpp>

namespace cubepi {

/// A list of messages with constant-time copies: copies share storage, and the newest of them appends in place. Any
/// other change first copies the storage. Copies may be used from different threads; one object is used by one thread
/// at a time.
class MessageList {
public:
    using value_type = Message;
    using const_iterator = const Message*;
    using iterator = const_iterator;

    MessageList() noexcept = default;
    MessageList(const MessageList& other) noexcept : storage_(other.storage_), size_(other.size_) {
        if (storage_) retain();
    }
    /// Leaves `other` empty.
    MessageList(MessageList&& other) noexcept
        : storage_(std::exchange(other.storage_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    MessageList& operator=(MessageList other) noexcept {
        std::swap(storage_, other.storage_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~MessageList() {
        if (storage_) release();
    }
    MessageList(std::initializer_list<Message> messages);
    MessageList(const std::vector<Message>& messages);
    // Delegates to the default constructor so that the destructor runs if `push_back()` throws.
    template <std::input_iterator It>
    MessageList(It first, It last) : MessageList() {
        for (; first != last; ++first) push_back(*first);
    }

    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    const Message& operator[](std::size_t index) const noexcept;
    const Message& front() const noexcept { return (*this)[0]; }
    const Message& back() const noexcept { return (*this)[size_ - 1]; }
    const_iterator begin() const noexcept;
    const_iterator end() const noexcept { return begin() + size_; }

    /// Throws Error(invalid_argument) for an empty Message(), which has no role.
    void push_back(Message message);
    void append(const MessageList& messages);
    void clear() noexcept;
    /// Keeps the first `count` messages; has no effect if there are fewer.
    void truncate(std::size_t count);

    /// Returns the last `count` messages, or all.
    MessageList last(std::size_t count) const;
    /// Returns this list with `message` prepended.
    MessageList with_front(Message message) const;
    /// Returns one message of an expiring list, without a copy if no other list shares the storage.
    Message take(std::size_t index) &&;
    std::vector<Message> to_vector() const { return std::vector<Message>(begin(), end()); }

    friend bool operator==(const MessageList& a, const MessageList& b);

private:
    struct Storage;
    void retain() const noexcept;
    void release() noexcept;

    Storage* storage_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace cubepi
