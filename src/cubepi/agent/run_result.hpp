#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/usage.hpp>

namespace cubepi {

/// How a run ended (D40).
enum class RunOutcome : std::uint8_t {
    completed,
    suspended,  ///< waits for a person; respond() goes on
    aborted,
    failed,   ///< the model, the network or a hook failed
    limited,  ///< a configured limit was reached
};
std::string_view to_string(RunOutcome outcome) noexcept;

/// What prompt(), resume() and respond() give: true when the run completed. What a model, a network or a person did
/// is an outcome here; misuse and storage failures throw.
struct RunResult {
    std::string run_id = {};
    std::string attempt_id =
        {};  ///< new for each prompt, resume and respond; a resumed run keeps its run id
    RunOutcome outcome = RunOutcome::completed;
    MessageList new_messages = {};
    Usage usage = {};  ///< of this attempt's model calls, added up
    /// USD that these calls cost; absent when that of one of them is not known.
    std::optional<double> cost = {};
    std::vector<HitlRequest> pending_requests = {};
    std::shared_ptr<const Error> failure = {};

    explicit operator bool() const noexcept { return outcome == RunOutcome::completed; }
    /// The typed error of every outcome but completed (a ProviderError where the provider failed). Throws
    /// Error(invalid_state) when there is none.
    const Error& error() const;
    /// The text of the last assistant message among the new ones; empty when there is none.
    std::string text() const;
};

}  // namespace cubepi
