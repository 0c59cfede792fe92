#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/run_info.hpp>
#include <cubepi/core/usage.hpp>

namespace cubepi {

/// The result of prompt(), resume() and respond(); converts to true if the run completed. Problems caused by the model,
/// the network or the user are outcomes; misuse and storage failures throw.
struct RunResult {
    std::string run_id = {};
    std::string attempt_id =
        {};  ///< new for each prompt, resume and respond; a resumed run keeps its run id
    RunOutcome outcome = RunOutcome::completed;
    MessageList new_messages = {};
    Usage usage = {};  ///< of this attempt's model calls, summed
    /// The cost of these calls in USD; absent if the cost of any call is unknown.
    std::optional<double> cost = {};
    std::vector<HitlRequest> pending_requests = {};
    std::shared_ptr<const Error> failure = {};

    explicit operator bool() const noexcept { return outcome == RunOutcome::completed; }
    /// Returns the typed error of every outcome but completed (a ProviderError if the provider failed). Throws
    /// Error(invalid_state) if there is none.
    const Error& error() const;
    /// Returns the text of the last assistant message among the new ones; empty if there is none.
    std::string text() const;
};

/// Thrown where only a completed run can be returned. Its code and message are those of the result's error.
class RunFailedError : public Error {
public:
    /// `result` is that of a run that did not complete.
    explicit RunFailedError(RunResult result)
        : Error(result.error().code(), result.error().what()), result_(std::move(result)) {}
    const RunResult& result() const noexcept { return result_; }

private:
    RunResult result_;
};

}  // namespace cubepi
