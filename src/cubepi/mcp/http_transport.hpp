#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/authorizer.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/mcp/transport.hpp>

namespace cubepi {

/// A server at a URL (the transport "streamable HTTP").
struct McpHttpOptions {
    std::string server = {};   ///< its name in errors and in the log
    std::string url = {};      ///< http or https, with the path of the endpoint
    HttpHeaders headers = {};  ///< sent with each request: a token. Never sent to another origin
    /// Returns further headers of a request, such as keys that expire; they replace those of `headers` with the same names, and are sent
    /// to the origin of the URL only. Awaited before each request, for several at once. `is_refused`: the server has answered status
    /// 401 to those of before; the request, which was not executed, is sent once again. Throws Error: the request fails. Empty: none.
    std::function<Task<HttpHeaders>(bool is_refused)> fresh_headers = {};
    /// The source of tokens, unless `headers` has an Authorization. Null: none.
    std::shared_ptr<McpAuthorizer> authorizer = {};
    std::chrono::nanoseconds connect_timeout = std::chrono::seconds(10);
    /// The delay before a stream that has ended early is continued, unless the server states one.
    std::chrono::nanoseconds retry_delay = std::chrono::seconds(1);
    std::chrono::nanoseconds max_retry_delay = std::chrono::seconds(30);
    int max_retries = 3;  ///< in a row, without an event in between
    McpLimits limits = {};
};

/// Returns a connection to a server over HTTP, by the transport of the runtime, whose connections it shares. Redirects are
/// followed within the origin of the URL only. Throws Error(invalid_argument) for a URL or headers that are invalid.
std::unique_ptr<McpTransport> mcp_http_transport(McpHttpOptions options,
                                                 std::shared_ptr<const Runtime> runtime);

}  // namespace cubepi
