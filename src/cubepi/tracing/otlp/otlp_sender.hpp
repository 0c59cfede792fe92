#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include <cubepi/tracing/otlp_exporter.hpp>

namespace cubepi::detail {

/// Sends OTLP requests to one URL, with retries.
class OtlpSender {
public:
    /// `path` belongs to the default URL: "/v1/traces".
    OtlpSender(OtlpOptions options, const char* path);

    /// Sends a request with `items` spans or data points.
    Task<ExportResult> send(std::string body, std::size_t items);

    const OtlpOptions& options() const noexcept { return options_; }
    /// Returns why the current request is repeated; empty if it is not. Thread-safe.
    std::string retry_reason() const;

private:
    struct Reply;
    Task<Reply> attempt(std::string body);
    ExportResult accepted(const Reply& reply, std::size_t items) const;
    std::string error_of(const Reply& reply) const;
    void set_retry_reason(std::string reason);

    const OtlpOptions options_;
    const std::string server_;  // for errors: without credentials and path
    const std::shared_ptr<const Runtime> runtime_;
    const std::shared_ptr<HttpTransport> transport_;
    mutable std::mutex mutex_;
    std::string retry_reason_;
};

}  // namespace cubepi::detail
