#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include <cubepi/agent/hitl_channel.hpp>

#include "../terminal/prompter.hpp"
#include "approval_dialog.hpp"
#include "ask_dialog.hpp"

namespace cubepi::app {

/// Shows the requests of a channel to the user, one after another, and answers them. Works with any channel; requests that
/// wait already are shown first. Used on one executor.
class QuestionHost {
public:
    /// `approval` receives the rules that the user adds.
    QuestionHost(std::shared_ptr<HitlChannel> channel, std::shared_ptr<Prompter> prompter,
                 Style style, std::shared_ptr<ToolApproval> approval,
                 ApprovalDialog::SaveRule save_rule);

    /// Answers requests until it is cancelled.
    Task<> run();

    /// Shows a request that no channel of this process has, and returns the answer; null if the input has ended. Not while
    /// run() asks.
    Task<Json> ask(HitlRequest request);

    /// Withdraws the question on the screen if its request does not wait any more (aborted, timed out, or answered
    /// elsewhere). Must be called after the events of the agent.
    void refresh();

private:
    bool is_pending(const std::string& question_id) const;
    Task<> serve(HitlRequest request);
    Task<> ask_and_answer(HitlRequest request);

    std::shared_ptr<HitlChannel> channel_;
    std::shared_ptr<Prompter> prompter_;
    std::shared_ptr<ToolApproval> approval_;
    ApprovalDialog approvals_;
    AskDialog questions_;
    std::string open_;  // the id of the question on the screen; empty: none
    std::stop_source withdrawal_;
};

}  // namespace cubepi::app
