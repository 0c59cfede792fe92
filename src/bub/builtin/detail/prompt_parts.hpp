#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <bub/envelope.hpp>
#include <bub/prompt.hpp>
#include <cubepi/core/message.hpp>

namespace bub::detail {

/// The prompt of a message that is no command: its content, with the context string and the date before it where there
/// is a context, and its media as content parts.
Task<Prompt> prompt_of(std::shared_ptr<Envelope> message,
                       std::chrono::system_clock::time_point now);

/// The prompt as the user's message; images of data URLs become images.
cubepi::Message user_message_of(const Prompt& prompt);

}  // namespace bub::detail
