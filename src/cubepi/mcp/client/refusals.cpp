#include <cubepi/mcp/client/refusals.hpp>

#include <algorithm>
#include <string_view>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/mcp/transport.hpp>

namespace cubepi::detail {

namespace {

/// Returns the versions that a server offers in its refusal of another one; null if `failure` is not such a refusal.
const JsonArray* offered_versions(const McpError& error) {
    if (error.rpc_code() != mcp_error::unsupported_version) return nullptr;
    const JsonObject* data = error.data().if_object();
    return data ? array_member(*data, "supported") : nullptr;
}

}  // namespace

std::optional<McpChallenge> challenge_in(const std::exception_ptr& failure) {
    if (!failure) return std::nullopt;
    try {
        std::rethrow_exception(failure);
    } catch (const McpUnauthorized& error) {
        return error.challenge();
    } catch (...) {
        return std::nullopt;
    }
}

bool offers_stateless(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const McpError& error) {
        const JsonArray* versions = offered_versions(error);
        return versions && std::ranges::any_of(*versions, [](const Json& version) {
                   return version.is_string() && is_stateless_mcp_version(version.get_string());
               });
    } catch (...) {
        return false;
    }
}

bool may_have_sessions(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const McpError& error) {
        const JsonArray* versions = offered_versions(error);
        return !versions || std::ranges::any_of(*versions, [](const Json& version) {
            return version.is_string() && is_session_mcp_version(version.get_string());
        });
    } catch (const McpRefused& error) {
        return error.status() >= 400 && error.status() < 500 && error.status() != 407;
    } catch (const TimeoutError& error) {
        return (error.timeout)() == "server/discover";
    } catch (...) {
        return false;
    }
}

bool is_lasting_refusal(const std::exception_ptr& failure) {
    if (!failure) return false;
    try {
        std::rethrow_exception(failure);
    } catch (const McpError&) {
        return true;
    } catch (const McpRefused& error) {
        return error.status() >= 400 && error.status() < 500 && error.status() != 408 &&
               error.status() != 429;
    } catch (...) {
        return false;
    }
}

}  // namespace cubepi::detail
