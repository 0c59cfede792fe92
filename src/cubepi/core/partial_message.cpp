#include <cubepi/core/partial_message.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include <cubepi/core/detail/message_log.hpp>

namespace cubepi {

AssistantMessage PartialMessage::get() const {
    if (final_) return *final_.assistant();
    return log_ ? log_->build(count_) : AssistantMessage{};
}

Message PartialMessage::message() && { return final_ ? std::move(final_) : Message(get()); }

Message PartialMessage::message() const& { return final_ ? final_ : Message(get()); }

std::string PartialMessage::text() const {
    if (final_) return final_.text();
    return log_ ? log_->text(count_) : std::string();
}

namespace detail {

MessageLog::~MessageLog() {
    for (Page* page = pages_; page != nullptr;) delete std::exchange(page, page->next);
    for (Bytes* room = bytes_; room != nullptr;) {
        ::operator delete(std::exchange(room, room->next));
    }
    // Not one inside the other: there may be many.
    while (kept_) kept_ = std::move(const_cast<Kept&>(*kept_).next);
}

MessageLog::Entry& MessageLog::add(Kind kind, std::uint32_t block) {
    Entry* entry = nullptr;
    if (count_ < entries_of_first) {
        entry = &first_[count_];
    } else {
        const std::uint32_t slot = (count_ - entries_of_first) % entries_per_page;
        if (slot == 0) {
            auto* page = new Page;
            (last_ ? last_->next : pages_) = page;
            last_ = page;
        }
        entry = &last_->entries[slot];
    }
    entry->kind_ = static_cast<std::uint32_t>(kind) & 0xFu;
    entry->block = block & 0xFFFFFFFu;
    ++count_;
    return *entry;
}

const AssistantContent* MessageLog::keep(AssistantContent content) {
    auto kept = std::make_unique<Kept>(Kept{std::move(content), nullptr});
    kept->next = std::move(kept_);
    kept_ = std::move(kept);
    return &kept_->content;
}

std::string_view MessageLog::store(std::string_view text) {
    if (text.empty()) return {};
    if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
        throw std::length_error("a piece of an answer is longer than 4 GiB");
    }
    if (!bytes_ || bytes_->size - bytes_->used < text.size()) {
        const std::size_t doubled = bytes_ ? std::min<std::size_t>(bytes_->size * 2, 65536) : 232;
        const std::size_t size = std::max(doubled, text.size());
        void* const memory = ::operator new(sizeof(Bytes) + size);
        bytes_ = ::new (memory) Bytes{bytes_, size, 0};
    }
    char* at = bytes_->data() + bytes_->used;
    std::memcpy(at, text.data(), text.size());
    bytes_->used += text.size();
    return {at, text.size()};
}

void MessageLog::open(Kind kind, std::uint32_t block, AssistantContent start) {
    // Nearly all blocks of text begin empty.
    const auto* text = std::get_if<TextContent>(&start);
    const auto* deep = std::get_if<ThinkingContent>(&start);
    const bool empty =
        (kind == Kind::text_start && text && text->text.empty() && text->extra.empty()) ||
        (kind == Kind::thinking_start && deep && deep->thinking.empty() && deep->extra.empty());
    const AssistantContent* content = empty ? nullptr : keep(std::move(start));
    add(kind, block).content = content;
}

std::string_view MessageLog::delta(std::uint32_t block, std::string_view text) {
    const std::string_view stored = store(text);
    Entry& entry = add(Kind::delta, block);
    entry.text = stored.data();
    entry.size = static_cast<std::uint32_t>(stored.size());
    return stored;
}

void MessageLog::replace(std::uint32_t block, AssistantContent content) {
    const AssistantContent* kept = keep(std::move(content));
    add(Kind::replace, block).content = kept;
}

void MessageLog::end(std::uint32_t block) { add(Kind::end, block); }

template <class F>
void MessageLog::each(std::uint32_t count, F&& f) const {
    const std::uint32_t in_first = std::min(count, entries_of_first);
    for (std::uint32_t i = 0; i < in_first; ++i) f(first_[i]);
    const Page* page = pages_;
    for (std::uint32_t left = count - in_first; left > 0; page = page->next) {
        const std::uint32_t here = std::min(left, entries_per_page);
        for (std::uint32_t i = 0; i < here; ++i) f(page->entries[i]);
        left -= here;
        if (left == 0) break;  // the next page may be about to be made
    }
}

AssistantMessage MessageLog::build(std::uint32_t count) const {
    AssistantMessage message = head_;
    std::vector<std::size_t> lengths;
    each(count, [&](const Entry& entry) {
        if (entry.block >= lengths.size()) lengths.resize(entry.block + 1);
        lengths[entry.block] += entry.piece().size();
    });
    if (lengths.empty()) return message;
    message.content.reserve(lengths.size());
    each(count, [&](const Entry& entry) {
        switch (entry.kind()) {
            case Kind::text_start:
            case Kind::thinking_start:
            case Kind::toolcall_start: {
                AssistantContent& block = entry.content
                                              ? message.content.emplace_back(*entry.content)
                                          : entry.kind() == Kind::thinking_start
                                              ? message.content.emplace_back(ThinkingContent())
                                              : message.content.emplace_back(TextContent());
                const std::size_t length = lengths[entry.block];
                if (auto* text = std::get_if<TextContent>(&block)) text->text.reserve(length);
                if (auto* deep = std::get_if<ThinkingContent>(&block))
                    deep->thinking.reserve(length);
                break;
            }
            case Kind::delta: {
                AssistantContent& block = message.content[entry.block];
                if (auto* text = std::get_if<TextContent>(&block)) text->text += entry.piece();
                if (auto* deep = std::get_if<ThinkingContent>(&block))
                    deep->thinking += entry.piece();
                break;
            }
            case Kind::replace: message.content[entry.block] = *entry.content; break;
            case Kind::end: break;
        }
    });
    return message;
}

std::string MessageLog::text(std::uint32_t count) const { return build(count).text(); }

std::string MessageLog::raw(std::uint32_t block) const {
    std::string joined;
    each(count_, [&](const Entry& entry) {
        if (entry.kind() == Kind::delta && entry.block == block) joined += entry.piece();
    });
    return joined;
}

}  // namespace detail

}  // namespace cubepi
