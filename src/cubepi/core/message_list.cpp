#include <cubepi/core/message_list.hpp>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/shared_string.hpp>

namespace cubepi {

namespace {

[[noreturn]] void refuse_empty_message() {
    throw Error(ErrorCode::invalid_argument,
                "a message list takes no empty Message(): make one of a UserMessage, an "
                "AssistantMessage or a ToolResultMessage, or by user_message(\"...\")");
}

}  // namespace

// Slots below `used` are never written again while shared, so readers of older copies need no lock. Only the list whose
// size equals `used` may append in place; of several such copies, the first that claims the slot.
struct MessageList::Storage {
    explicit Storage(std::uint32_t n) noexcept : capacity(n) {}

    /// Allocates one block of memory: this object, followed by the slots.
    static Storage* make(std::size_t n) {
        if (n > std::numeric_limits<std::uint32_t>::max()) throw std::bad_alloc();
        auto* made = ::new (::operator new(sizeof(Storage) + n * sizeof(Message)))
            Storage(static_cast<std::uint32_t>(n));
        std::uninitialized_default_construct_n(made->slots(), n);
        return made;
    }
    static void destroy(Storage* storage) noexcept {
        std::destroy_n(storage->slots(), storage->capacity);
        storage->~Storage();
        ::operator delete(storage);
    }
    Message* slots() noexcept { return reinterpret_cast<Message*>(this + 1); }

    detail::RefCount refs;
    const std::uint32_t capacity;
    std::atomic<std::size_t> used = 0;
};

void MessageList::retain() const noexcept { storage_->refs.retain(); }

void MessageList::release() noexcept {
    if (storage_->refs.release()) Storage::destroy(storage_);
}

MessageList::MessageList(std::initializer_list<Message> messages)
    : MessageList(messages.begin(), messages.end()) {}

MessageList::MessageList(const std::vector<Message>& messages)
    : MessageList(messages.begin(), messages.end()) {}

const Message& MessageList::operator[](std::size_t index) const noexcept {
    assert(index < size_);
    return storage_->slots()[index];
}

MessageList::const_iterator MessageList::begin() const noexcept {
    return storage_ ? storage_->slots() : nullptr;
}

void MessageList::push_back(Message message) {
    if (!message) refuse_empty_message();
    std::size_t end_of_list = size_;
    const bool in_place =
        storage_ && size_ < storage_->capacity &&
        storage_->used.compare_exchange_strong(end_of_list, size_ + 1, std::memory_order_relaxed);
    if (!in_place) {
        const std::size_t wanted = std::max<std::size_t>(4, size_ + size_ / 2 + 1);
        Storage* const grown = Storage::make(wanted);
        if (storage_ && storage_->refs.is_one()) {
            std::move(storage_->slots(), storage_->slots() + size_, grown->slots());
        } else {
            std::copy(begin(), end(), grown->slots());
        }
        grown->used = size_ + 1;
        if (storage_) release();
        storage_ = grown;
    }
    storage_->slots()[size_++] = std::move(message);
}

void MessageList::append(const MessageList& messages) {
    if (empty()) {
        *this = messages;
        return;
    }
    // It may be this list. NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
    const MessageList source = messages;
    for (const Message& message : source) push_back(message);
}

void MessageList::clear() noexcept {
    if (storage_) release();
    storage_ = nullptr;
    size_ = 0;
}

void MessageList::truncate(std::size_t count) {
    size_ = std::min(size_, count);
    if (size_ == 0) clear();
}

Message MessageList::take(std::size_t index) && {
    assert(index < size_);
    Message& slot = storage_->slots()[index];
    return storage_->refs.is_one() ? std::move(slot) : slot;
}

MessageList MessageList::last(std::size_t count) const {
    return count >= size_ ? *this : MessageList(end() - count, end());
}

MessageList MessageList::with_front(Message message) const {
    MessageList result;
    result.push_back(std::move(message));
    result.append(*this);
    return result;
}

bool operator==(const MessageList& a, const MessageList& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace cubepi
