#pragma once

#include <string>

namespace cubepi {

/// Details that an endpoint states about an answer and the message does not contain. Empty: unknown.
struct ResponseDetails {
    /// The model that answered, for example with its date, where the request names an alias.
    std::string model = {};
    /// Why the answer ended, as the endpoint calls it.
    std::string finish_reason = {};
    /// Of OpenAI's endpoints: "chat_completions" or "responses".
    std::string api_type = {};
    std::string service_tier = {};        ///< of OpenAI's endpoints
    std::string system_fingerprint = {};  ///< of Chat Completions
};

}  // namespace cubepi
