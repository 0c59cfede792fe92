#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/message.hpp>
#include <cubepi/core/stream_event.hpp>

namespace cubepi::detail {

/// The growing answer of a model, as an append-only log of block operations over append-only text. A snapshot is a
/// prefix of the log. Entries and bytes never move and are never rewritten, so another thread can read a snapshot
/// without a lock while the owner continues to append.
class MessageLog final : public LogBase {
public:
    enum class Kind : std::uint8_t {
        text_start,
        thinking_start,
        toolcall_start,
        delta,
        replace,
        end,
        played_start,
    };

    /// `head` has no content.
    static LogRef make(AssistantMessage head);

    /// Opens block number `block`, which must be the number of blocks so far. `start` is its initial state.
    void open(Kind kind, std::uint32_t block, AssistantContent start);
    /// Adds to a text or thinking block, or to the raw arguments of a tool call. Returns the stored text, which is
    /// valid as long as the log.
    std::string_view delta(std::uint32_t block, std::string_view text);
    /// Replaces a block by its final form (a tool call with its arguments, thinking with its signature).
    void replace(std::uint32_t block, AssistantContent content);
    /// Marks the end of a block without changing it.
    void end(std::uint32_t block);

    // A log may replay a finished message: its blocks are reported piece by piece, and nothing is copied.
    /// Stores the message whose blocks are replayed.
    void play(Message message) { played_ = std::move(message); }
    /// Opens a block of the replayed message without its text or arguments.
    void open_played(std::uint32_t block, const AssistantContent& content);
    /// Adds a piece of the replayed block's text.
    void delta_played(std::uint32_t block, std::string_view text);
    /// Sets the block to its state in the replayed message; opens it if necessary.
    void replace_played(std::uint32_t block, const AssistantContent& content);

    PartialMessage snapshot() const noexcept {
        retain();
        return PartialMessage(this, count_);
    }
    AssistantMessage build(std::uint32_t count) const;
    /// Returns the snapshot as a message; without blocks it is the same object each time.
    Message message(std::uint32_t count) const;
    std::string text(std::uint32_t count) const;
    std::uint32_t count() const noexcept { return count_; }
    /// Returns the position of the newest entry.
    LogPosition last_position() const noexcept;
    /// Returns the current state of a block that was opened at `start`. Reads only the entries since then.
    AssistantContent block(std::uint32_t block, LogPosition start) const;
    /// Returns the raw argument text of a tool call that was opened at `start`: all its deltas, joined.
    std::string raw(std::uint32_t block, LogPosition start) const;
    /// Returns raw() of each block that is `wanted`, and nothing for the others, in one pass over the log.
    std::vector<std::string> raws(const std::vector<bool>& wanted) const;
    /// Returns the content of the start or the replacement at `position`; null: an empty block.
    const AssistantContent* content_at(LogPosition position) const noexcept;

private:
    struct Entry {
        union {
            const char* text;
            const AssistantContent* content;  // of a start or a replacement; null: an empty block
        };
        std::uint32_t size;  // of the text
        std::uint32_t block : 28;
        std::uint32_t kind_ : 4;
        Kind kind() const noexcept { return static_cast<Kind>(kind_); }
        std::string_view piece() const noexcept {
            return kind() == Kind::delta ? std::string_view(text, size) : std::string_view();
        }
    };
    static constexpr std::uint32_t entries_of_first = 24;
    static constexpr std::uint32_t entries_per_page = 128;
    struct Page {
        std::array<Entry, entries_per_page> entries;
        Page* next = nullptr;
    };
    /// A buffer for text, which follows the object.
    struct Bytes {
        Bytes* next;
        std::size_t size;
        std::size_t used;
        char* data() noexcept { return reinterpret_cast<char*>(this + 1); }
    };
    struct Retained {
        AssistantContent content;
        std::unique_ptr<const Retained> next;
    };

    friend class LogBase;
    explicit MessageLog(AssistantMessage head) : head_(std::move(head)) {}
    ~MessageLog();

    Entry& add(Kind kind, std::uint32_t block);
    void add_delta(std::uint32_t block, std::string_view stored);
    void add_content(Kind kind, std::uint32_t block, const AssistantContent* content);
    const AssistantContent* keep(AssistantContent content);
    std::string_view store(std::string_view text);
    template <class F>
    void each(std::uint32_t count, F&& f) const;
    template <class F>
    void each_since(LogPosition start, F&& f) const;
    static void apply_delta(AssistantContent& block, std::string_view piece);

    const Message head_;
    Message played_;
    Page* pages_ = nullptr;
    Page* last_ = nullptr;
    std::uint32_t count_ = 0;
    Bytes* bytes_ = nullptr;  // newest first
    std::unique_ptr<const Retained> retained_;
    // Uninitialized until used.
    std::array<Entry, entries_of_first> first_;
    std::array<char, 232> inline_bytes_;
    std::uint32_t inline_used_ = 0;
};

}  // namespace cubepi::detail
