#pragma once

#include <exception>
#include <memory>
#include <string>

#include <cubepi/agent/run/answer_reader.hpp>
#include <cubepi/agent/run/model_request.hpp>
#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/tool_list.hpp>

namespace cubepi::detail {

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
    const ToolList& tools() const noexcept { return tools_; }
    /// Returns the typed error of a failed or aborted answer.
    std::shared_ptr<const Error> failure() const noexcept { return failure_; }

private:
    Task<void> run_with_hooks();
    Task<void> stream_after(Notice notice, ModelRequest request);
    Task<void> stream(ModelRequest&& request);
    Task<void> stream_around(ModelRequest request);
    Task<MessageStream> call_around(ModelRequest request);
    Task<void> receive(MessageStream stream, bool is_own_request);

    Task<void> conclude(Message final_message);
    Task<void> conclude_aborted();
    Task<void> conclude_failed(const std::exception_ptr& failure);
    Task<void> conclude_error(const std::exception_ptr& cause, const std::string& text);
    void set_message(Message final_message);
    Task<void> announce_message();

    RunCore& core_;
    BoundModel model_;  ///< of this call; the agent's model may change meanwhile
    ToolList tools_;
    std::string message_id_;
    RequestBuilder builder_;
    AnswerReader reader_;
    Message message_;
    std::shared_ptr<const Error> failure_;
};

}  // namespace cubepi::detail
