#pragma once

#include <cubepi/core/error.hpp>

#include <string>
#include <utility>

namespace cubepi {

/// A request failed below HTTP: `code()` is dns, connect, tls, proxy, disconnected, protocol or too_large. The text
/// names the host, but never the path, a header or a key.
class NetworkError : public Error {
public:
    NetworkError(ErrorCode code, std::string host, bool transient, const std::string& message)
        : Error(code, message), host_(std::move(host)), transient_(transient) {}

    /// Returns the peer that failed: "host:port" of the server or of the proxy.
    const std::string& host() const noexcept { return host_; }

    /// Returns true if a retry of the same request is likely to succeed (a refused or lost connection, a name server
    /// that does not respond); false for permanent failures (no such name, an invalid certificate).
    bool transient() const noexcept { return transient_; }

private:
    std::string host_;
    bool transient_;
};

}  // namespace cubepi
