#include <cubepi/core/stream_event.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/core/support/message_log.hpp>

namespace cubepi {

std::string_view to_string(StreamEventType type) noexcept {
    switch (type) {
        case StreamEventType::start: return "start";
        case StreamEventType::text_start: return "text_start";
        case StreamEventType::text_delta: return "text_delta";
        case StreamEventType::text_end: return "text_end";
        case StreamEventType::thinking_start: return "thinking_start";
        case StreamEventType::thinking_delta: return "thinking_delta";
        case StreamEventType::thinking_end: return "thinking_end";
        case StreamEventType::toolcall_start: return "toolcall_start";
        case StreamEventType::toolcall_delta: return "toolcall_delta";
        case StreamEventType::toolcall_end: return "toolcall_end";
        case StreamEventType::done: return "done";
        case StreamEventType::error: return "error";
        case StreamEventType::notice: return "notice";
    }
    return "start";
}

std::string StreamEvent::error_message() const {
    if (type != StreamEventType::error) return {};
    return partial.get().error_message.str();
}

AssistantMessage PartialMessage::get() const {
    if (is_final()) return final_ ? *final_.assistant() : AssistantMessage{};
    return log_ ? log().build(count_) : AssistantMessage{};
}

Message PartialMessage::message() && {
    if (is_final() && final_) return std::move(final_);
    return std::as_const(*this).message();
}

Message PartialMessage::message() const& {
    if (is_final() && final_) return final_;
    return !is_final() && log_ ? log().message(count_) : Message(AssistantMessage{});
}

std::string PartialMessage::text() const {
    if (is_final()) return final_ ? final_.text() : std::string();
    return log_ ? log().text(count_) : std::string();
}

const detail::MessageLog& PartialMessage::log() const noexcept {
    return static_cast<const detail::MessageLog&>(*log_);
}

namespace detail {

void LogBase::destroy(const LogBase* log) noexcept { delete static_cast<const MessageLog*>(log); }

void ReleaseLog::operator()(const MessageLog* log) const noexcept { log->release(); }

LogRef MessageLog::make(AssistantMessage head) { return LogRef(new MessageLog(std::move(head))); }

MessageLog::~MessageLog() {
    for (Page* page = pages_; page != nullptr;) delete std::exchange(page, page->next);
    for (Bytes* block = bytes_; block != nullptr;) {
        ::operator delete(std::exchange(block, block->next));
    }
    // Iterative, because there may be many.
    while (retained_) retained_ = std::move(const_cast<Retained&>(*retained_).next);
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
    auto retained = std::make_unique<Retained>(Retained{std::move(content), nullptr});
    retained->next = std::move(retained_);
    retained_ = std::move(retained);
    return &retained_->content;
}

std::string_view MessageLog::store(std::string_view text) {
    if (text.empty()) return {};
    if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
        throw std::length_error("a piece of an answer is longer than 4 GiB");
    }
    if (!bytes_ && inline_bytes_.size() - inline_used_ >= text.size()) {
        char* at = inline_bytes_.data() + inline_used_;
        std::memcpy(at, text.data(), text.size());
        inline_used_ += static_cast<std::uint32_t>(text.size());
        return {at, text.size()};
    }
    if (!bytes_ || bytes_->size - bytes_->used < text.size()) {
        const std::size_t doubled = bytes_ ? std::min<std::size_t>(bytes_->size * 2, 65536) : 488;
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
    // Nearly all text blocks start empty.
    const auto* text = std::get_if<TextContent>(&start);
    const auto* deep = std::get_if<ThinkingContent>(&start);
    const bool empty =
        (kind == Kind::text_start && text && text->text.empty() && text->extra.empty()) ||
        (kind == Kind::thinking_start && deep && deep->thinking.empty() && deep->extra.empty());
    add_content(kind, block, empty ? nullptr : keep(std::move(start)));
}

std::string_view MessageLog::delta(std::uint32_t block, std::string_view text) {
    const std::string_view stored = store(text);
    add_delta(block, stored);
    return stored;
}

void MessageLog::replace(std::uint32_t block, AssistantContent content) {
    add_content(Kind::replace, block, keep(std::move(content)));
}

void MessageLog::end(std::uint32_t block) { add_content(Kind::end, block, nullptr); }

void MessageLog::open_played(std::uint32_t block, const AssistantContent& content) {
    add_content(Kind::played_start, block, &content);
}

void MessageLog::delta_played(std::uint32_t block, std::string_view text) {
    add_delta(block, text);
}

void MessageLog::replace_played(std::uint32_t block, const AssistantContent& content) {
    add_content(Kind::replace, block, &content);
}

void MessageLog::add_delta(std::uint32_t block, std::string_view stored) {
    Entry& entry = add(Kind::delta, block);
    entry.text = stored.data();
    entry.size = static_cast<std::uint32_t>(stored.size());
}

void MessageLog::add_content(Kind kind, std::uint32_t block, const AssistantContent* content) {
    Entry& entry = add(kind, block);
    entry.content = content;
    entry.size = 0;
}

namespace {

/// A block at its first event: no text yet, no arguments.
struct Begun {
    AssistantContent operator()(const TextContent& block) const {
        return TextContent{.extra = block.extra};
    }
    AssistantContent operator()(const ThinkingContent& block) const {
        return ThinkingContent{.extra = block.extra};
    }
    AssistantContent operator()(const ToolCall& call) const {
        return ToolCall{.id = call.id, .name = call.name, .extra = call.extra};
    }
    AssistantContent operator()(const ImageContent& image) const { return image; }
};

/// Reserves memory for the text of a block that has just started.
void reserve(AssistantContent& block, std::size_t length) {
    if (auto* text = std::get_if<TextContent>(&block)) text->text.reserve(length);
    if (auto* deep = std::get_if<ThinkingContent>(&block)) deep->thinking.reserve(length);
}

}  // namespace

template <class F>
void MessageLog::each(std::uint32_t count, F&& f) const {
    const std::uint32_t in_first = std::min(count, entries_of_first);
    for (std::uint32_t i = 0; i < in_first; ++i) f(first_[i]);
    // The owner may be writing the pointer to the page after the last entry, so only pointers to pages with entries of
    // the snapshot are read.
    const Page* page = nullptr;
    for (std::uint32_t left = count - in_first; left > 0;) {
        page = page ? page->next : pages_;
        const std::uint32_t here = std::min(left, entries_per_page);
        for (std::uint32_t i = 0; i < here; ++i) f(page->entries[i]);
        left -= here;
    }
}

AssistantMessage MessageLog::build(std::uint32_t count) const {
    AssistantMessage message = *head_.assistant();
    std::vector<std::size_t> lengths;
    each(count, [&](const Entry& entry) {
        if (entry.block >= lengths.size()) lengths.resize(entry.block + 1);
        lengths[entry.block] += entry.piece().size();
    });
    if (lengths.empty()) return message;
    ContentList<AssistantContent>& content = message.content;
    content.reserve(lengths.size());
    each(count, [&](const Entry& entry) {
        switch (entry.kind()) {
            case Kind::text_start:
            case Kind::toolcall_start:
                if (entry.content) {
                    content.push_back(*entry.content);
                } else {
                    content.emplace_back(TextContent());
                }
                reserve(content.back(), lengths[entry.block]);
                break;
            case Kind::thinking_start:
                content.emplace_back(ThinkingContent());
                if (entry.content) content.back() = *entry.content;
                reserve(content.back(), lengths[entry.block]);
                break;
            case Kind::played_start:
                content.push_back(std::visit(Begun(), *entry.content));
                reserve(content.back(), lengths[entry.block]);
                break;
            case Kind::delta: apply_delta(content[entry.block], entry.piece()); break;
            case Kind::replace:
                if (entry.block == content.size()) {
                    content.push_back(*entry.content);
                } else {
                    content[entry.block] = *entry.content;
                }
                break;
            case Kind::end: break;
        }
    });
    return message;
}

Message MessageLog::message(std::uint32_t count) const {
    return count == 0 ? head_ : Message(build(count));
}

std::string MessageLog::text(std::uint32_t count) const { return build(count).text(); }

LogPosition MessageLog::last_position() const noexcept {
    LogPosition position;
    position.index = count_ - 1;
    if (position.index >= entries_of_first) position.page = last_;
    return position;
}

template <class F>
void MessageLog::each_since(LogPosition start, F&& f) const {
    const Page* page = static_cast<const Page*>(start.page);
    for (std::uint32_t i = start.index; i < count_; ++i) {
        if (i < entries_of_first) {
            f(first_[i]);
            continue;
        }
        const std::uint32_t slot = (i - entries_of_first) % entries_per_page;
        if (i != start.index && slot == 0) page = page ? page->next : pages_;
        f(page->entries[slot]);
    }
}

void MessageLog::apply_delta(AssistantContent& block, std::string_view piece) {
    if (auto* text = std::get_if<TextContent>(&block)) text->text += piece;
    if (auto* deep = std::get_if<ThinkingContent>(&block)) deep->thinking += piece;
}

AssistantContent MessageLog::block(std::uint32_t block, LogPosition start) const {
    AssistantContent content;
    each_since(start, [&](const Entry& entry) {
        if (entry.block != block) return;
        switch (entry.kind()) {
            case Kind::text_start:
            case Kind::toolcall_start:
                content = entry.content ? *entry.content : AssistantContent(TextContent());
                break;
            case Kind::thinking_start:
                content = entry.content ? *entry.content : AssistantContent(ThinkingContent());
                break;
            case Kind::played_start: content = std::visit(Begun(), *entry.content); break;
            case Kind::delta: apply_delta(content, entry.piece()); break;
            case Kind::replace: content = *entry.content; break;
            case Kind::end: break;
        }
    });
    return content;
}

std::vector<std::string> MessageLog::raws(const std::vector<bool>& wanted) const {
    std::vector<std::string> joined(wanted.size());
    each(count_, [&](const Entry& entry) {
        if (entry.kind() == Kind::delta && wanted[entry.block])
            joined[entry.block] += entry.piece();
    });
    return joined;
}

const AssistantContent* MessageLog::content_at(LogPosition position) const noexcept {
    if (position.index < entries_of_first) return first_[position.index].content;
    const std::uint32_t slot = (position.index - entries_of_first) % entries_per_page;
    return static_cast<const Page*>(position.page)->entries[slot].content;
}

std::string MessageLog::raw(std::uint32_t block, LogPosition start) const {
    std::string joined;
    each_since(start, [&](const Entry& entry) {
        if (entry.kind() == Kind::delta && entry.block == block) joined += entry.piece();
    });
    return joined;
}

}  // namespace detail

}  // namespace cubepi
