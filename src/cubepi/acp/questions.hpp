#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/acp/updates.hpp>
#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi {

/// Answers the questions of a channel by asking the user of an editor (`session/request_permission`): approvals of tool calls, yes or
/// no, and a choice of one of several options. The protocol has no form for other questions: they are cancelled, and the model gets the
/// reason. Used on the executor of the connection.
class AcpQuestions {
public:
    struct Options {
        /// Returns what an answer "always" to this approval allows, as the user reads it; nothing: there is no such answer. Null: never.
        std::function<std::optional<std::string>(const HitlRequest& request)> always = {};
        /// The user has given this answer. Called before the call is approved.
        std::function<void(const HitlRequest& request)> on_always = {};
        /// Returns false if an approval that was given must not count any more. Null: it counts.
        std::function<bool(const HitlRequest& request)> still_allowed = {};
        /// Returns the content blocks with which the call is shown, instead of those of its arguments. Null: those.
        std::function<JsonArray(const HitlRequest& request)> content = {};
        /// Returns the sentence of the question; empty: that of the request. Null: the same.
        std::function<std::string(const HitlRequest& request)> title = {};

        Options() {}
    };

    /// `updates`: those of the session, which have announced the calls.
    AcpQuestions(std::shared_ptr<AcpEditor> editor, std::string session,
                 std::shared_ptr<AcpUpdates> updates, Options options = {});
    AcpQuestions(const AcpQuestions&) = delete;
    AcpQuestions& operator=(const AcpQuestions&) = delete;

    /// Answers the questions of `channel`, several at once, until the channel is destroyed.
    Task<> serve(std::shared_ptr<HitlChannel> channel);
    /// Withdraws the questions that do not wait any more. Called after each event of the agent.
    void refresh();

private:
    struct Open;
    Task<> take_all(std::shared_ptr<HitlChannel> channel, TaskScope& scope);
    Task<> ask(std::shared_ptr<HitlChannel> channel, HitlRequest request);
    Task<Json> answer_to(const HitlRequest& request);
    Task<Json> approve(const HitlRequest& request);
    Task<Json> choose(const HitlRequest& request);
    Task<std::string> choice(std::string title, JsonObject call, JsonArray choices);
    JsonObject permission(std::string title, JsonObject call, const JsonArray& choices);

    const std::shared_ptr<AcpEditor> editor_;
    const std::string session_;
    const std::shared_ptr<AcpUpdates> updates_;
    const Options options_;
    std::vector<Open*> open_;
};

}  // namespace cubepi
