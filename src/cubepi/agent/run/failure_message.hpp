#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <cubepi/agent/run/run_core.hpp>

// Failures as messages, and failed messages as errors.

namespace cubepi::detail {

/// The text of an aborted answer, and of the error of an aborted run.
inline constexpr std::string_view aborted_text = "Request was aborted";

/// Returns true if the answer ended with an error or an abort.
bool has_failed(const AssistantMessage& answer);

/// Returns the message that closes a run which failed outside the model's answer.
Message failure_message(const RunCore& core, const std::string& text, bool aborted);

/// Returns the typed error of an answer that has failed.
std::shared_ptr<const Error> error_of(const AssistantMessage& answer);

}  // namespace cubepi::detail
