#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/stream_event.hpp>
#include <cubepi/provider/stream_options.hpp>

namespace cubepi {

/// Builds the answer of a model and its stream events, with snapshots, from decoded wire events. Every provider uses
/// one: wire formats differ, the grammar of StreamEvent does not. Each call returns the event to deliver. Blocks are
/// named by the index that their start returned in `content_index`. Not thread safe; the events are.
class MessageAssembler {
public:
    /// More calls than this in one answer are an error of the endpoint.
    static constexpr std::size_t max_tool_calls = 512;
    /// The same for blocks of any kind.
    static constexpr std::size_t max_blocks = 16384;

    /// `head` has the values that are known at the start: id, provider_id, model_id, timestamp. Any call below that
    /// adds content throws LimitReachedError if the answer needs more memory than `max_bytes`
    /// (StreamOptions::max_answer_bytes), and Error (too_large) for more than `max_blocks` blocks.
    explicit MessageAssembler(AssistantMessage head,
                              std::size_t max_bytes = default_max_answer_bytes);
    ~MessageAssembler();
    MessageAssembler(MessageAssembler&&) noexcept;
    MessageAssembler& operator=(MessageAssembler&&) noexcept;

    /// The snapshots of the answer have the current head.
    StreamEvent start();
    bool started() const noexcept { return started_; }
    /// True once a block was opened: from here on only the loop of an agent repeats a failed call (D15).
    bool has_content() const noexcept { return !blocks_.empty(); }

    StreamEvent text_start(LazyObject extra = {});
    StreamEvent text_delta(std::int32_t index, std::string_view text);
    /// Ends a text or thinking block; `extra` is merged into the block's (signatures, item ids; D13).
    StreamEvent text_end(std::int32_t index, LazyObject extra = {});
    /// Ends the block with its final content, which replaces that of its deltas.
    StreamEvent text_end(std::int32_t index, TextContent block);
    StreamEvent thinking_start(LazyObject extra = {});
    StreamEvent thinking_delta(std::int32_t index, std::string_view text);
    StreamEvent thinking_end(std::int32_t index, LazyObject extra = {});
    StreamEvent thinking_end(std::int32_t index, ThinkingContent block);
    /// Throws Error (too_large) for more than `max_tool_calls` calls in one answer. A name that no tool can have is stored
    /// and shown in a valid form (D73), here and in the functions below.
    StreamEvent toolcall_start(SharedString id, SharedString name, LazyObject extra = {});
    StreamEvent toolcall_delta(std::int32_t index, std::string_view json);
    /// Ends a call with its final content.
    StreamEvent toolcall_end(std::int32_t index, ToolCall call);
    /// The same, with arguments as text, which is parsed as below.
    StreamEvent toolcall_end(std::int32_t index, ToolCall call, std::string_view raw);
    /// Ends a call with the arguments of its deltas. Text that is incomplete or not a JSON object is stored as
    /// `raw_arguments`, with empty `arguments` (D4).
    StreamEvent toolcall_end(std::int32_t index);
    /// Sets the name of an open call that the endpoint sent late. Emits no event.
    void rename_call(std::int32_t index, SharedString name);
    /// Merges `members` into `extra[key]` of an open call. Emits no event.
    void extend_call(std::int32_t index, std::string_view key, const JsonObject& members);
    /// Adds a finished block for which there are no events (an image).
    void add_block(AssistantContent block);

    /// Counts memory that a decoder uses for the answer outside of its blocks, such as vendor details. Throws as
    /// above.
    void count_detail(std::size_t bytes);
    /// Throws Error (too_large) if `count`, of blocks or of similar parts that a decoder stores, exceeds
    /// `max_blocks`.
    static void check_block_count(std::size_t count);

    /// The raw argument text of a call so far, or the streamed text of another block.
    std::string raw_arguments(std::int32_t index) const;
    /// The message so far.
    AssistantMessage message() const;
    /// The head's fields may change until the end (response id, usage, model that answered).
    AssistantMessage& head() noexcept { return head_; }
    /// The details that the endpoint states about the answer, for observers.
    ResponseDetails& details() noexcept { return details_; }

    StreamEvent done(std::string_view stop_reason);
    /// Ends the answer as failed, with all that was streamed (D9). A call whose arguments were still streaming keeps
    /// the received text as `raw_arguments`. After a LimitReachedError only the first 64 KiB of the content remain,
    /// without open calls, so that the history can still be sent.
    StreamEvent error(std::string_view error_message, std::optional<ErrorInfo> info = {});
    /// The same for an exception; takes its ErrorInfo, or the code of an Error.
    StreamEvent error(const std::exception_ptr& exception);
    /// Ends an answer that reached its limit of memory, as error() does for a LimitReachedError.
    StreamEvent limited(std::string_view error_message);
    /// Ends the answer as aborted: "Request was aborted" (D7); calls still streaming are dropped (D34).
    StreamEvent aborted();
    /// Ends with a given message.
    static StreamEvent finish(StreamEventType type, AssistantMessage final_message);
    static StreamEvent notice(Notice notice);

private:
    enum class OpenCalls { keep, drop };
    struct Block {
        detail::LogPosition start = {};
        detail::LogPosition state = {};  ///< of its start, or of its replacement
        std::size_t counted = 0;         ///< bytes of its deltas, and of content that replaced them
        bool open_call = false;          ///< a call whose arguments are still streaming
    };

    detail::MessageLog& log();
    std::int32_t next_index() const noexcept { return static_cast<std::int32_t>(blocks_.size()); }
    /// Registers the block that was opened last.
    void add_block_start(bool is_call);
    AssistantContent block(std::int32_t index) const;
    /// A call that is still open, without its arguments.
    const ToolCall& open_call(std::int32_t index) const;
    /// Changes a call that is still open. The log retains every version for its snapshots, so each is counted in full.
    void change_open_call(std::int32_t index, ToolCall call);
    StreamEvent add_delta(StreamEventType type, std::int32_t index, std::string_view text);
    void count_block(const AssistantContent& block);
    /// Ends a block with its own final content, of which only the part that was not streamed is counted.
    void replace(std::int32_t index, AssistantContent content);
    void put(std::int32_t index, AssistantContent content);
    [[noreturn]] void throw_too_large() const;
    void check_values(std::string_view json) const;
    StreamEvent event(StreamEventType type, std::int32_t index, std::string_view delta = {});
    StreamEvent end_block(StreamEventType type, std::int32_t index, LazyObject extra);
    AssistantMessage final_message(OpenCalls open_calls) const;

    AssistantMessage head_;
    ResponseDetails details_;
    detail::LogRef log_;
    std::vector<Block> blocks_;
    std::size_t max_bytes_;
    std::size_t bytes_ = 0;
    std::size_t tool_calls_ = 0;
    std::size_t pieces_ = 0;  ///< deltas of all blocks
    /// raw_arguments() of all open calls while several are open: their pieces may be interleaved, and one pass reads them.
    mutable std::vector<std::string> raws_;
    mutable std::size_t raws_pieces_ = 0;  ///< pieces_ when raws_ was read
    bool started_ = false;
};

}  // namespace cubepi
