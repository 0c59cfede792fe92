#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>
#include <cubepi/core/runtime.hpp>

namespace cubepi::detail {

/// The answers that a client has sent in earlier rounds of a request.
struct McpRounds {
    JsonObject answers = {};  ///< by the keys of the questions
    std::size_t rounds = 0;
};

/// Seals the state of a request over several rounds, which the client stores (`requestState`), and reads it again. The state is
/// authenticated (HMAC-SHA256), expires, and belongs to one request: a client can neither change it nor use it for another one.
class McpRequestStates {
public:
    /// An empty key: a random one, so that states are valid in this process only.
    McpRequestStates(std::string key, std::chrono::nanoseconds lifetime, std::size_t max_bytes,
                     std::shared_ptr<const Runtime> runtime);

    /// Throws Refusal if the state would be too large.
    std::string seal(const McpRounds& rounds, std::string_view request) const;
    /// Throws Refusal if the state is not one of this server, has expired, or belongs to another request.
    McpRounds open(std::string_view state, std::string_view request) const;

private:
    std::string key_;
    std::chrono::nanoseconds lifetime_;
    std::size_t max_bytes_;
    std::shared_ptr<const Runtime> runtime_;
};

/// Identifies a request over its rounds: its method, its target and its arguments, whatever the order of their members.
std::string mcp_request_digest(std::string_view method, std::string_view target,
                               const JsonObject& arguments);

/// Returns random bytes as hexadecimal text, for keys and ids of sessions.
std::string random_secret(std::size_t bytes);

}  // namespace cubepi::detail
