#pragma once

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/net/name_resolver.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace cubepi {

/// The network configuration of a client. Empty members have suitable defaults.
struct HttpClientOptions {
    std::shared_ptr<Clock> clock;  ///< measures the timeouts of HttpRequest; default: system clock
    std::shared_ptr<WorkerPool>
        resolvers;      ///< threads for name resolution; default: Runtime::standard()'s
    Resolver resolver;  ///< default: resolve_with_system

    /// A PEM file with certificate authorities to trust in addition to the system's. Default: the file named by the
    /// environment variable SSL_CERT_FILE, if set.
    std::string ca_file;

    /// Returns an environment variable (the proxies, SSL_CERT_FILE). Default: the process's own environment.
    std::function<std::optional<std::string>(const std::string& name)> env;

    /// Receives "http.failed" and, at level debug, "http.answered", with server and proxy, never a path. Absent: the log of
    /// Runtime::standard().
    std::optional<Logger> log;

    std::size_t max_header_bytes = 256 * 1024;  ///< of all response headers together
    std::size_t read_ahead_bytes =
        256 * 1024;  ///< limit of buffered body bytes; beyond it the sender must wait
};

/// An HTTP/1.1 and HTTP/2 client based on libcurl that runs on the sender's event loop. Connections (and cached name
/// resolutions) are shared by all clients of an execution context, so a client is cheap; requests to one HTTP/2 server
/// share a connection. TLS peers are verified. Proxies are read from the environment, with libcurl's rules. A slow
/// reader slows the sender down.
///
/// Uses no resources until the first request. send() is thread-safe; the exchange is bound to the executor on which it
/// was awaited. The client may be destroyed during its exchanges.
///
/// With a proxy, only the proxy's name is resolved here. An exchange with `resolve_to` uses a connection of its own,
/// through a proxy as a tunnel to exactly that address; it cannot follow redirects.
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

/// Returns the transport of a runtime: its own, or else a client on the runtime's clock and resolver threads.
std::shared_ptr<HttpTransport> transport_of(const Runtime& runtime);

}  // namespace cubepi
