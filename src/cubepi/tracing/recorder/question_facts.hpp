#pragma once

#include <optional>
#include <string_view>

#include <cubepi/core/agent_event.hpp>

// Questions to the user, as traces and metrics name them.

namespace cubepi::detail {

/// Returns "approve", "confirm" or "ask".
std::string_view question_kind(const HitlRequest& request);

/// Returns the outcome of a question of that kind: "approved", "denied", "edited", "answered" or "cancelled".
std::string_view answer_outcome(std::string_view kind, const HitlAnswerEvent& event);

/// A question that ended without an answer. Refers to the notice.
struct QuestionEnd {
    std::string_view question_id;
    std::string_view outcome;  ///< "timed_out", "aborted" or "detached"
};

/// Returns the question that a notice is about; empty for any other notice.
std::optional<QuestionEnd> question_end(const Notice& notice);

}  // namespace cubepi::detail
