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
/// A note of the call states how far it is: nothing, "called", or the round whose questions are being answered. A call that may be
/// executing at the server is never repeated.
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

    Task<std::optional<McpRound>> begin() override;
    Task<> ask(McpRound round) override;
    Task<> send() override;
    /// The next question is the consent to an answer of a model. Throws McpInputRefused if this round has had one: after its consent was
    /// used the round is not repeated.
    void begin_sampling();

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
    Task<> save(std::optional<McpRound> round);

    const std::shared_ptr<HitlChannel> channel_;
    const std::shared_ptr<CallNotes> notes_;
    const Identity identity_;
    const std::string key_;
    const bool is_repeated_;
    std::size_t round_ = 0;
    std::size_t asked_ = 0;  ///< questions of this round
    bool is_sampling_ = false;
};

/// Returns null if the channel of the call stores no notes.
std::shared_ptr<McpSuspendedCall> suspended_mcp_call(const ToolContext& context,
                                                     std::shared_ptr<HitlChannel> channel,
                                                     McpSuspendedCall::Identity identity);

}  // namespace detail

}  // namespace cubepi
