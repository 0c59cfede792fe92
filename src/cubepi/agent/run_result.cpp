#include <cubepi/agent/run_result.hpp>

namespace cubepi {

std::string_view to_string(RunOutcome outcome) noexcept {
    switch (outcome) {
        case RunOutcome::completed: return "completed";
        case RunOutcome::suspended: return "suspended";
        case RunOutcome::aborted: return "aborted";
        case RunOutcome::failed: return "failed";
        case RunOutcome::limited: return "limited";
    }
    return "failed";
}

const Error& RunResult::error() const {
    if (!failure) throw Error(ErrorCode::invalid_state, "the run completed: it has no error");
    return *failure;
}

std::string RunResult::text() const {
    for (std::size_t i = new_messages.size(); i > 0; --i) {
        if (const AssistantMessage* message = new_messages[i - 1].assistant())
            return message->text();
    }
    return {};
}

}  // namespace cubepi
