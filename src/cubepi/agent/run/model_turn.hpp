#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/run/spend_reservation.hpp>
#include <cubepi/agent/tool.hpp>

namespace cubepi::detail {

/// Builds the request of one model call from the history, through the hooks of the agent.
class RequestBuilder {
public:
    /// `core` must outlive the builder.
    RequestBuilder(RunCore& core, BoundModel model, std::string message_id);

    /// Returns true if no hook changes the history or the call.
    bool is_plain() const;
    /// Returns the request of a call that is plain.
    ModelRequest build();
    /// Returns the request after the hooks, which may add tools to the run. Throws HookFailed.
    Task<ModelRequest> build_with_hooks();
    /// Returns the tools that the request advertises (D43).
    const ToolList& tools() const noexcept { return tools_; }
    /// Returns a notice if the request does not begin with the previous one (D56).
    std::optional<Notice> prefix_break(const ModelRequest& request) const;
    /// Returns the last exception of on_payload or on_response, which the provider reports without its type; or null.
    std::exception_ptr hook_failure() const { return hook_failure_ ? *hook_failure_ : nullptr; }

private:
    ModelRequest request(MessageList messages, SharedString system_prompt);
    void add_prompt_settings(StreamOptions& options) const;
    Task<MessageList> transformed_messages();
    Task<MessageList> repaired(MessageList messages);
    PayloadHook payload_hook() const;
    ResponseHook response_hook() const;

    RunCore& core_;
    BoundModel model_;
    ToolList tools_;
    std::string message_id_;
    std::shared_ptr<std::exception_ptr> hook_failure_;  // null: the agent has neither hook
};

/// Reads the stream of a model's answer to its end and delivers its events to the listeners.
class AnswerReader {
public:
    explicit AnswerReader(RunCore& core) : core_(core) {}

    /// Returns the final message; empty if an abort ended the stream without one. `is_own_request`: the provider received
    /// this run's stop token, unchanged by hooks. Throws ListenerFailed, and the exceptions of the stream.
    Task<std::optional<Message>> read(MessageStream stream, bool is_own_request);
    /// Returns true if message_start was delivered.
    bool has_started() const noexcept { return started_; }
    /// Returns true if content, or text, was delivered.
    bool has_content() const noexcept { return has_content_; }
    bool has_text() const noexcept { return has_text_; }
    /// Returns the streamed content, without calls whose arguments were incomplete (D34).
    AssistantMessage so_far() const;

private:
    Task<std::optional<StreamEvent>> wait_event(MessageStream& stream, bool is_own_request);
    MaybeTask<> pass_on(StreamEvent&& event);
    void note_blocks(const StreamEvent& event);

    RunCore& core_;
    std::vector<std::int32_t> open_calls_;  // indexes of the calls whose arguments are incomplete
    bool started_ = false;
    bool has_content_ = false;
    bool has_text_ = false;
};

/// One call of the model: sends the request that RequestBuilder makes, reads the answer with AnswerReader, and always
/// ends with a message: failures and aborts are messages too (D9, D7).
class ModelTurn {
public:
    explicit ModelTurn(RunCore& core);

    /// Throws exceptions of hooks and listeners; provider failures are not thrown.
    Task<void> run();
    /// Returns the answer, with id and run id; message_start was delivered, message_end was not.
    Message take_message() noexcept { return std::move(message_); }
    /// Returns the tools that the request advertised (D43).
    const ToolList& tools() const noexcept { return builder_.tools(); }
    /// Returns the typed error of a failed or aborted answer.
    std::shared_ptr<const Error> failure() const noexcept { return failure_; }
    /// Returns true if a temporary failure has cut the answer off, and the limits of the run allow to make the call again (D15).
    bool may_repeat() const;
    /// Returns the delay before the call is made again for the `number`-th time, from 1.
    std::chrono::milliseconds repeat_delay(std::size_t number) const;
    Notice repeat_notice(std::size_t number, std::chrono::milliseconds delay) const;
    /// Ends the failed answer as an aborted one.
    void abort();

private:
    Task<void> run_with_hooks();
    Task<void> stream_after(Notice notice, ModelRequest request);
    Task<void> stream(ModelRequest&& request);
    Task<void> stream_around(ModelRequest request);
    Task<MessageStream> call_around(ModelRequest request);
    Task<void> receive(MessageStream stream, bool is_own_request);

    Task<void> conclude(Message final_message);
    Task<void> conclude_uncalled();
    Task<void> conclude_aborted();
    Task<void> conclude_failed(const std::exception_ptr& failure);
    Task<void> conclude_limited(LimitReachedError reached);
    Task<void> conclude_error(const std::exception_ptr& cause, const std::string& text);
    void set_message(Message final_message);
    Task<void> announce_message();

    RunCore& core_;
    BoundModel model_;  ///< of this call; the agent's model may change meanwhile
    std::string message_id_;
    RequestBuilder builder_;
    AnswerReader reader_;
    SpendReservation reservation_;
    bool refused_ = false;  ///< by a limit or an abort: the call is not made
    Message message_;
    std::shared_ptr<const Error> failure_;
};

}  // namespace cubepi::detail
