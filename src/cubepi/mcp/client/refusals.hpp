#pragma once

#include <exception>
#include <optional>

#include <cubepi/mcp/authorizer.hpp>

// Conclusions from the refusal of a request for the next one.

namespace cubepi::detail {

/// Returns what a server has refused a request for, if another token may help.
std::optional<McpChallenge> challenge_in(const std::exception_ptr& failure);
/// Returns true if the refusal of a version offers the one without sessions.
bool offers_stateless(const std::exception_ptr& failure);
/// Returns true if a server that has refused `server/discover` may be of the era with sessions.
bool may_have_sessions(const std::exception_ptr& failure);
/// Returns true if a server would refuse the same request again.
bool is_lasting_refusal(const std::exception_ptr& failure);

}  // namespace cubepi::detail
