#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include <cubepi/core/message.hpp>

namespace cubepi {

/// A list of messages. Copying it costs the same for one message as for a million: copies share storage, and
/// the newest of them appends in place. Any other change makes storage of its own first.
/// Copies may be used from different threads; one object is used by one thread at a time.
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
    // By way of the default constructor, so that what was taken is let go of when a message is refused.
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
    /// Keeps the first `count` messages; does nothing when there are fewer.
    void truncate(std::size_t count);

    /// The last `count` messages, or all.
    MessageList last(std::size_t count) const;
    /// This list with `message` in front.
    MessageList with_front(Message message) const;
    /// One message of a list that is not needed any more, without a copy where nobody else has the list.
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
