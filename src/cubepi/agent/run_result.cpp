#include <cubepi/agent/run_result.hpp>

namespace cubepi {

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
