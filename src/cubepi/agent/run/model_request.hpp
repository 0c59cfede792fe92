#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>

#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/tool_list.hpp>

namespace cubepi::detail {

/// Builds the request of one model call from the history, through the hooks of the agent.
class RequestBuilder {
public:
    /// `core` must outlive the builder. `tools`: those that the request advertises.
    RequestBuilder(RunCore& core, BoundModel model, ToolList tools, std::string message_id);

    /// Returns true if no hook changes the history or the call.
    bool is_plain() const;
    /// Returns the request of a call that is plain.
    ModelRequest build() const;
    /// Returns the request after the hooks. Throws HookFailed.
    Task<ModelRequest> build_with_hooks();
    /// Returns a notice if the request does not begin with the previous one (D56).
    std::optional<Notice> prefix_break(const ModelRequest& request) const;
    /// Returns the last exception of on_payload or on_response, which the provider reports without its type; or null.
    std::exception_ptr hook_failure() const { return hook_failure_ ? *hook_failure_ : nullptr; }

private:
    ModelRequest request(MessageList messages, SharedString system_prompt) const;
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

}  // namespace cubepi::detail
