#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/tool_list.hpp>

namespace cubepi::detail {

/// One call of the model: builds the request through the hooks, converts the streamed answer to events, and always ends
/// with a message: failures and aborts are messages too (D9, D7).
class ModelTurn {
public:
    explicit ModelTurn(RunCore& core) : core_(core) {}

    /// Throws exceptions of hooks and listeners; provider failures are not thrown.
    Task<void> run();
    /// Returns the answer, with id and run id; message_start was delivered, message_end was not.
    Message take_message() noexcept { return std::move(message_); }
    /// Returns the tools that the request advertised (D43).
    const ToolList& tools() const noexcept { return tools_; }
    /// Returns the typed error of a failed or aborted answer.
    std::shared_ptr<const Error> failure() const noexcept { return failure_; }

private:
    bool is_plain();
    Task<void> run_hooked();
    ModelRequest request(MessageList messages, SharedString system_prompt) const;
    Task<std::optional<ModelRequest>> hooked_request();
    Task<MessageList> hooked_messages();
    Task<void> make_legal(MessageList& messages);
    std::optional<Notice> prefix_break(const ModelRequest& request) const;
    Task<void> stream(ModelRequest&& request);
    Task<void> stream_after(Notice notice, ModelRequest request);
    std::optional<MessageStream> open(ModelRequest&& request, std::exception_ptr& failure) const;
    Task<void> pump(MessageStream stream);
    MaybeTask<> pass_on(StreamEvent&& event);
    Task<std::optional<StreamEvent>> wait_event(MessageStream& stream);
    Task<void> conclude(Message final_message);
    void set_message(Message final_message);
    /// message_start, unless the stream has begun the message.
    Task<void> announce_message();
    Task<void> conclude_aborted();
    Task<void> conclude_failed(const std::exception_ptr& failure);
    Task<void> conclude_error(const std::exception_ptr& cause, const std::string& text);
    PayloadHook payload_hook() const;
    ResponseHook response_hook() const;
    /// The end of a turn that an exception or an abort ended.
    Task<void> conclude_without(std::exception_ptr failure);
    void note_blocks(const StreamEvent& event);
    AssistantMessage so_far() const;

    RunCore& core_;
    BoundModel model_;  ///< of this call; the agent's model may change meanwhile
    ToolList tools_;
    std::string message_id_;
    std::vector<std::int32_t> open_calls_;
    Message message_;
    std::shared_ptr<const Error> failure_;
    std::shared_ptr<std::exception_ptr> hook_failure_;  // last failure of on_payload or on_response
    bool started_ = false;
    bool own_request_ = true;  ///< the provider received this run's stop token, unchanged by hooks
};

/// The text of an aborted answer, and of the error of an aborted run.
inline constexpr std::string_view aborted_text = "Request was aborted";

/// Returns the message that closes a run which failed outside the model's answer.
Message failure_message(const RunCore& core, const std::string& text, bool aborted);

}  // namespace cubepi::detail
