#pragma once

#include <cstddef>
#include <memory>
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

private:
    struct Reply;
    Task<Reply> attempt(std::string body);
    ExportResult accepted(const Reply& reply, std::size_t items) const;
    std::string error_of(const Reply& reply) const;

    const OtlpOptions options_;
    const std::string server_;  // for errors: without credentials and path
    const std::shared_ptr<const Runtime> runtime_;
    const std::shared_ptr<HttpTransport> transport_;
};

}  // namespace cubepi::detail
