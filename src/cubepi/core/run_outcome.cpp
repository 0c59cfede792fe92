#include <cubepi/core/run_outcome.hpp>

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

}  // namespace cubepi
