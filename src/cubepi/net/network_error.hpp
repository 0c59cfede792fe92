#pragma once

#include <cubepi/core/error.hpp>

#include <string>
#include <utility>

namespace cubepi {

/// A request failed below HTTP: `code()` is dns, connect, tls, proxy, disconnected, protocol or too_large.
/// The text names the host, never the path, a header or a key.
class NetworkError : public Error {
public:
    NetworkError(ErrorCode code, std::string host, bool transient, const std::string& message)
        : Error(code, message), host_(std::move(host)), transient_(transient) {}

    /// Who failed to answer: "host:port" of the server or of the proxy.
    const std::string& host() const noexcept { return host_; }

    /// True when the same request may well succeed a moment later (a refused or broken connection, a
    /// name server that does not answer); false for what stays (no such name, a bad certificate).
    bool transient() const noexcept { return transient_; }

private:
    std::string host_;
    bool transient_;
};

}  // namespace cubepi
