#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/mcp/client.hpp>

namespace cubepi {

class CallNotes;
class ToolContext;

namespace detail {

/// A call whose run is suspended while the user is asked, and which another process continues (D176). It is the channel for the
/// questions of the call: they have the same ids in each process, so that stored answers are found.
///
/// A note of the call states how far it is: nothing, "called", the round whose questions are being answered, or the task of the server
/// that does the call. A call that may be executing at the server is never repeated.
class McpSuspendedCall final : public HitlChannel, public McpCallProgress {
public:
    /// The note of a call is used for this server, definition and arguments only.
    struct Identity {
        std::string server = {};
        std::string digest = {};  ///< McpTool::digest
        std::string arguments = {};
    };
    /// `notes` is of the run of `context`, and `channel` asks in its call.
    McpSuspendedCall(const ToolContext& context, std::shared_ptr<HitlChannel> channel,
                     std::shared_ptr<CallNotes> notes, Identity identity);
    /// Limits the answers of models for the call, in all processes together. Default: none.
    void limit_samplings(std::size_t most) noexcept { max_samplings_ = most; }

    Task<std::optional<McpRound>> begin() override;
    Task<> ask(McpRound round) override;
    Task<> answered(std::string key, JsonObject response) override;
    Task<> send() override;
    void refused() noexcept override { was_refused_ = true; }
    bool is_suspending() const noexcept override;
    bool was_refused() const noexcept { return was_refused_; }
    /// The next question is the consent to an answer of a model. After the consent was used the call is not repeated until the answer
    /// is stored.
    void begin_sampling() noexcept { is_sampling_ = true; }

    Task<Json> request(HitlPayload payload, HitlOptions options) override;
    std::vector<HitlRequest> pending() const override { return channel_->pending(); }
    HitlRequestStream subscribe() override { return channel_->subscribe(); }
    Task<> answer(std::string question_id, Json value, AnswerOrigin origin) override {
        return channel_->answer(std::move(question_id), std::move(value), std::move(origin));
    }
    Task<> cancel(std::string question_id, std::string reason) override {
        return channel_->cancel(std::move(question_id), std::move(reason));
    }
    bool is_durable() const noexcept override { return true; }

private:
    /// `null`: the call may be executing at the server, or a model may be answering.
    Task<> save(const McpRound* round);

    const std::shared_ptr<HitlChannel> channel_;
    const std::shared_ptr<CallNotes> notes_;
    const Identity identity_;
    const std::string key_;
    McpRound round_;
    std::size_t asked_ = 0;      ///< forms of this round
    std::size_t samplings_ = 0;  ///< consents that were used, in all processes
    std::size_t max_samplings_ = 0;
    bool is_sampling_ = false;
    bool was_refused_ = false;
};

/// Returns null if the channel of the call stores no notes.
std::shared_ptr<McpSuspendedCall> suspended_mcp_call(const ToolContext& context,
                                                     std::shared_ptr<HitlChannel> channel,
                                                     McpSuspendedCall::Identity identity);

}  // namespace detail

}  // namespace cubepi
