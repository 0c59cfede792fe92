#pragma once

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/net/name_resolver.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace cubepi {

/// How a client reaches the network. What is left empty has a default that fits.
struct HttpClientOptions {
    std::shared_ptr<Clock> clock;  ///< keeps the clocks of HttpRequest; default: the machine's
    std::shared_ptr<WorkerPool>
        resolvers;      ///< where names are resolved; default: Runtime::standard()'s
    Resolver resolver;  ///< default: resolve_with_system

    /// A PEM file with certificate authorities to trust besides the system's. Default: what the environment
    /// variable SSL_CERT_FILE names, if anything.
    std::string ca_file;

    /// Reads an environment variable (the proxies, SSL_CERT_FILE). Default: the process's own environment.
    std::function<std::optional<std::string>(const std::string& name)> env;

    std::size_t max_header_bytes = 256 * 1024;  ///< all response headers together
    std::size_t read_ahead_bytes =
        256 * 1024;  ///< unread body bytes at which the sender is made to wait
};

/// HTTP/1.1 and HTTP/2 over libcurl, on the event loop of whoever sends. Connections (and what the
/// system said about names) are kept and shared by all clients of an execution context, so a client
/// costs next to nothing; requests to one HTTP/2 server share a connection. TLS peers are verified.
/// Proxies come from the environment, as libcurl has them. A slow reader slows the sender down.
///
/// Costs nothing until the first request. Any thread may call send(); the exchange then belongs to the executor
/// it was awaited on. The client may be destroyed while its exchanges go on.
///
/// With a proxy, only the proxy's name is resolved here. An exchange with `resolve_to` uses a connection of its
/// own, through a proxy as a tunnel to exactly that address; it cannot follow redirects.
class HttpClient final : public HttpTransport {
public:
    explicit HttpClient(HttpClientOptions options = HttpClientOptions());
    ~HttpClient() override;

    Task<HttpResponse> send(HttpRequest request) override;

private:
    struct State;
    std::shared_ptr<const State> state_;

    friend struct HttpExchange;
};

/// The transport of a runtime: its own, or else a client on the runtime's clock and resolver threads.
std::shared_ptr<HttpTransport> transport_of(const Runtime& runtime);

}  // namespace cubepi
