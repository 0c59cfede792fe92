#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/version.hpp>

// The words of the Model Context Protocol (https://modelcontextprotocol.io/specification) that client and server share.
//
// The protocol has two eras. Since 2026-07-28 it is stateless: each request states its version and the capabilities of its client
// in `_meta`, and `server/discover` describes a server. Before, `initialize` opened a session with one version.

namespace cubepi {

/// The newest revision, which has no sessions.
inline constexpr std::string_view mcp_stateless_version = "2026-07-28";
/// The newest revision with sessions.
inline constexpr std::string_view mcp_session_version = "2025-11-25";

/// Returns true for a revision without sessions that this library speaks.
bool is_stateless_mcp_version(std::string_view version) noexcept;
/// Returns true for a revision with sessions that this library speaks: 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05.
bool is_session_mcp_version(std::string_view version) noexcept;

/// The error codes of JSON-RPC and of the protocol.
namespace mcp_error {
inline constexpr int parse = -32700;
inline constexpr int invalid_request = -32600;
inline constexpr int method_not_found = -32601;
inline constexpr int invalid_params = -32602;
inline constexpr int internal = -32603;
inline constexpr int resource_not_found = -32002;  ///< of the era with sessions
inline constexpr int header_mismatch = -32020;
inline constexpr int missing_client_capability = -32021;
inline constexpr int unsupported_version = -32022;
}  // namespace mcp_error

/// The reserved keys of `_meta`.
namespace mcp_meta {
inline constexpr std::string_view version = "io.modelcontextprotocol/protocolVersion";
inline constexpr std::string_view client_info = "io.modelcontextprotocol/clientInfo";
inline constexpr std::string_view client_capabilities =
    "io.modelcontextprotocol/clientCapabilities";
inline constexpr std::string_view server_info = "io.modelcontextprotocol/serverInfo";
inline constexpr std::string_view subscription_id = "io.modelcontextprotocol/subscriptionId";
inline constexpr std::string_view log_level = "io.modelcontextprotocol/logLevel";
inline constexpr std::string_view progress_token = "progressToken";
inline constexpr std::string_view traceparent = "traceparent";  ///< W3C Trace Context
}  // namespace mcp_meta

/// The extension of 2026-07-28 for calls whose client follows them by an id.
inline constexpr std::string_view mcp_tasks_extension = "io.modelcontextprotocol/tasks";

/// An error response of the other side.
class McpError : public Error {
public:
    /// `message` is the text of this exception; `data` is that of the response.
    McpError(int rpc_code, const std::string& message, Json data = {});
    int rpc_code() const noexcept { return rpc_code_; }
    const Json& data() const noexcept { return data_; }

private:
    int rpc_code_;
    Json data_;
};

/// The name and version of a client or a server, as it reports them itself.
struct McpImplementation {
    std::string name = "cubepi";
    std::string version = std::string(cubepi::version());
    std::string title = {};  ///< for display; empty: none

    McpImplementation() = default;
    McpImplementation(std::string its_name, std::string its_version)
        : name(std::move(its_name)), version(std::move(its_version)) {}
};

JsonObject to_json(const McpImplementation& implementation);
/// Reads what another program reports: control characters are removed, long texts are cut.
McpImplementation mcp_implementation_from_json(const JsonObject& json);

/// The limits for what a server may send. All of them protect against servers that are broken or hostile.
struct McpLimits {
    /// One message. A longer one ends the connection, because the rest of the stream cannot be attributed.
    std::size_t max_message_bytes = std::size_t{16} << 20U;
    /// All bytes since the last response. More end the connection.
    std::size_t max_unrequested_bytes = std::size_t{64} << 20U;
    /// Lines that are not JSON-RPC messages, in a row. More end the connection; servers that log to standard output by mistake
    /// stay below.
    std::size_t max_garbage_lines = 1000;
    std::size_t max_batch = 1000;   ///< messages; a larger batch is not a message
    std::size_t max_tools = 512;    ///< further ones are left out
    std::size_t max_offers = 1000;  ///< prompts, resources, or templates
    /// A tool with a longer input schema is left out; a longer output schema, or longer annotations, are dropped.
    std::size_t max_schema_bytes = 64 * 1024;
    std::size_t max_description_bytes = 16 * 1024;  ///< a longer one is cut
    std::size_t max_result_bytes =
        4 * 1024 * 1024;         ///< all content of a call; the rest is left out
    std::size_t max_rounds = 8;  ///< of one call that asks for input
    std::size_t max_suspended_calls =
        32;  ///< that wait on the connection (McpClientOptions::suspended_call_time)

    McpLimits() {}
};

/// The default of the number of MCP tools that an agent has in each request (offer_mcp_tools()).
inline constexpr std::size_t default_max_listed_mcp_tools = 40;

namespace detail {

/// Returns text of another program for display: valid UTF-8, without control characters, at most `max_bytes` long.
std::string shown_mcp_text(std::string_view text, std::size_t max_bytes = 200);

}  // namespace detail

}  // namespace cubepi
