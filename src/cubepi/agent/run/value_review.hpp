#pragma once

#include <cubepi/agent/run/answer_task.hpp>
#include <cubepi/agent/run/run_end.hpp>
#include <cubepi/agent/run/turn_hooks.hpp>

// The steps of the loop for a run that is to answer with a value (D80).

namespace cubepi::detail {

/// Reads the value of an answer without tool calls. Returns true if it is valid; otherwise the answer continues with a
/// correction for the model, or the run ends with the error.
bool review_value(AnswerTask& task, RunEnd& end, ResponseReview& answer);
/// Returns true if the calls of an answer, which have been executed, contained the value. Sets the error of the run if the
/// model may not try again.
bool review_called_value(AnswerTask& task, RunEnd& end, const AssistantMessage& answer);
/// Makes a run that ends without error and value a failure.
void require_value(const AnswerTask& task, RunEnd& end);

}  // namespace cubepi::detail
