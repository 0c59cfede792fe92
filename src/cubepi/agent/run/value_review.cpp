#include <cubepi/agent/run/value_review.hpp>

namespace cubepi::detail {

bool review_value(AnswerTask& task, RunEnd& end, ResponseReview& answer) {
    if (answer.decision != TurnDecision::natural) return false;
    switch (task.review(*answer.message.assistant())) {
        case AnswerTask::Verdict::accepted: return true;
        case AnswerTask::Verdict::retry:
            answer.inject_messages.push_back(task.correction());
            answer.decision = TurnDecision::loop_to_model;
            break;
        case AnswerTask::Verdict::failed:
            end.set_without_value(task.error());
            answer.decision = TurnDecision::stop;
            break;
    }
    return false;
}

bool review_called_value(AnswerTask& task, RunEnd& end, const AssistantMessage& answer) {
    const AnswerTask::Verdict verdict = task.review_calls(answer);
    if (verdict == AnswerTask::Verdict::failed) end.set_without_value(task.error());
    return verdict == AnswerTask::Verdict::accepted;
}

void require_value(const AnswerTask& task, RunEnd& end) {
    if (!task.accepted() && !end.error()) end.set_without_value(task.missing());
}

}  // namespace cubepi::detail
