#include "question_host.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <bub/turn_error.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>

#include "../local_user.hpp"

namespace cubepi::app {

namespace {

bool is_stale(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        return error.code() == ErrorCode::stale_answer;
    } catch (...) {
        return false;
    }
}

}  // namespace

QuestionHost::QuestionHost(std::shared_ptr<HitlChannel> channel, std::shared_ptr<Prompter> prompter,
                           Style style, std::shared_ptr<ToolApproval> approval,
                           ApprovalDialog::SaveRule save_rule)
    : channel_(std::move(channel)),
      prompter_(std::move(prompter)),
      approval_(std::move(approval)),
      approvals_(*prompter_, style, *approval_, std::move(save_rule)),
      questions_(*prompter_, style) {}

Task<> QuestionHost::run() {
    HitlRequestStream requests = channel_->subscribe();
    std::vector<HitlRequest> waiting = channel_->pending();
    for (HitlRequest& request : waiting) co_await serve(std::move(request));
    for (;;) {
        std::optional<HitlRequest> request = co_await requests.next();
        if (!request) co_return;
        co_await serve(std::move(*request));
    }
}

void QuestionHost::refresh() {
    if (open_.empty() || withdrawal_.stop_requested() || is_pending(open_)) return;
    prompter_->withdraw();
    withdrawal_.request_stop();
}

bool QuestionHost::is_pending(const std::string& question_id) const {
    const std::vector<HitlRequest> waiting = channel_->pending();
    return std::any_of(waiting.begin(), waiting.end(), [&](const HitlRequest& request) {
        return request.question_id == question_id;
    });
}

Task<> QuestionHost::serve(HitlRequest request) {
    if (!is_pending(request.question_id)) co_return;
    open_ = request.question_id;
    withdrawal_ = std::stop_source();
    Task<> answering = ask_and_answer(std::move(request));
    Outcome<> outcome =
        co_await outcome_of(cancel_on(withdrawal_.get_token(), std::move(answering)));
    const std::string id = std::exchange(open_, {});
    if (outcome || withdrawal_.stop_requested()) co_return;
    if (outcome.cancelled()) outcome.rethrow();
    if (is_stale(outcome.failure()) || !is_pending(id)) co_return;
    co_await channel_->cancel(id, bub::describe(outcome.failure()));
}

Task<> QuestionHost::ask_and_answer(HitlRequest request) {
    const std::string id = request.question_id;
    const bool approves = std::holds_alternative<ApproveRequest>(request.payload);
    Json answer = co_await ask(std::move(request));
    if (answer.is_null() && approves)
        answer = to_json(ApproveAnswer::deny("Refused: the input has ended."));
    if (answer.is_null()) co_return co_await channel_->cancel(id, "the input has ended");
    AnswerOrigin origin;
    origin.channel = "terminal";
    origin.user = local_user();
    co_await channel_->answer(id, std::move(answer), std::move(origin));
}

Task<Json> QuestionHost::ask(HitlRequest request) {
    Json answer;
    if (auto* questions = std::get_if<AskRequest>(&request.payload)) {
        std::optional<JsonObject> answers = co_await questions_.ask(std::move(*questions));
        if (answers) answer = std::move(*answers);
    } else if (auto* question = std::get_if<ConfirmRequest>(&request.payload)) {
        const std::optional<bool> confirmed = co_await questions_.confirm(std::move(*question));
        if (confirmed) answer = *confirmed;
    } else {
        const std::optional<ApproveAnswer> decision = co_await approvals_.ask(std::move(request));
        if (decision) answer = to_json(*decision);
    }
    co_return answer;
}

}  // namespace cubepi::app
