#include <cubepi/core/partial_message.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <cubepi/core/detail/message_log.hpp>

namespace cubepi {

AssistantMessage PartialMessage::get() const {
    if (final_) return *final_.assistant();
    return log_ ? log_->build(count_) : AssistantMessage{};
}

Message PartialMessage::message() const { return final_ ? final_ : Message(get()); }

std::string PartialMessage::text() const {
    if (final_) return final_.text();
    return log_ ? log_->text(count_) : std::string();
}

namespace detail {

MessageLog::~MessageLog() {
    for (Page* page = first_.next; page != nullptr;) delete std::exchange(page, page->next);
}

void MessageLog::add(Entry entry) {
    const std::size_t slot = count_ % entries_per_page;
    if (slot == 0 && count_ != 0) {
        auto* page = new Page;
        last_->next = page;
        last_ = page;
    }
    last_->entries[slot] = entry;
    ++count_;
}

std::string_view MessageLog::store(std::string_view text) {
    if (text.empty()) return {};
    if (bytes_.empty() || bytes_.back().size - bytes_.back().used < text.size()) {
        const std::size_t doubled =
            bytes_.empty() ? 256 : std::min<std::size_t>(bytes_.back().size * 2, 65536);
        const std::size_t size = std::max(doubled, text.size());
        Bytes fresh;
        fresh.data = std::make_unique_for_overwrite<char[]>(size);
        fresh.size = size;
        bytes_.push_back(std::move(fresh));
    }
    Bytes& room = bytes_.back();
    char* at = room.data.get() + room.used;
    std::memcpy(at, text.data(), text.size());
    room.used += text.size();
    return {at, text.size()};
}

void MessageLog::open(Kind kind, std::uint32_t block, AssistantContent start) {
    contents_.push_back(std::make_unique<const AssistantContent>(std::move(start)));
    Entry entry;
    entry.kind = kind;
    entry.block = block;
    entry.content = contents_.back().get();
    add(entry);
}

std::string_view MessageLog::delta(std::uint32_t block, std::string_view text) {
    Entry entry;
    entry.kind = Kind::delta;
    entry.block = block;
    entry.text = store(text);
    add(entry);
    return entry.text;
}

void MessageLog::replace(std::uint32_t block, AssistantContent content) {
    contents_.push_back(std::make_unique<const AssistantContent>(std::move(content)));
    Entry entry;
    entry.kind = Kind::replace;
    entry.block = block;
    entry.content = contents_.back().get();
    add(entry);
}

void MessageLog::end(std::uint32_t block) {
    Entry entry;
    entry.kind = Kind::end;
    entry.block = block;
    add(entry);
}

template <class F>
void MessageLog::each(std::uint32_t count, F&& f) const {
    const Page* page = &first_;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::size_t slot = i % entries_per_page;
        if (slot == 0 && i != 0) page = page->next;
        f(page->entries[slot]);
    }
}

AssistantMessage MessageLog::build(std::uint32_t count) const {
    AssistantMessage message = head_;
    std::vector<std::size_t> lengths;
    each(count, [&](const Entry& entry) {
        if (entry.block >= lengths.size()) lengths.resize(entry.block + 1);
        lengths[entry.block] += entry.text.size();
    });
    message.content.reserve(lengths.size());
    each(count, [&](const Entry& entry) {
        switch (entry.kind) {
            case Kind::text_start:
            case Kind::thinking_start:
            case Kind::toolcall_start: {
                AssistantContent& block = message.content.emplace_back(*entry.content);
                const std::size_t length = lengths[entry.block];
                if (auto* text = std::get_if<TextContent>(&block)) text->text.reserve(length);
                if (auto* deep = std::get_if<ThinkingContent>(&block))
                    deep->thinking.reserve(length);
                break;
            }
            case Kind::delta: {
                AssistantContent& block = message.content[entry.block];
                if (auto* text = std::get_if<TextContent>(&block)) text->text += entry.text;
                if (auto* deep = std::get_if<ThinkingContent>(&block)) deep->thinking += entry.text;
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
        if (entry.kind == Kind::delta && entry.block == block) joined += entry.text;
    });
    return joined;
}

}  // namespace detail

}  // namespace cubepi
