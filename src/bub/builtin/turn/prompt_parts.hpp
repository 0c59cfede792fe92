#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <bub/envelope.hpp>
#include <bub/prompt.hpp>
#include <cubepi/core/message.hpp>

namespace bub::detail {

/// Returns the prompt of a message that is not a command: its content, preceded by the context string and the date if
/// there is a context, and its media as content parts.
Task<Prompt> prompt_of(std::shared_ptr<Envelope> message,
                       std::chrono::system_clock::time_point now);

/// Converts the prompt to a user message; data URLs of images become images.
cubepi::Message user_message_of(const Prompt& prompt);

}  // namespace bub::detail
