#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/net/retry.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

/// A failed attempt of a call: an exception, an error reported by the endpoint, or both.
struct CallFailure {
    std::exception_ptr exception = {};
    std::optional<EndpointFailure> endpoint = {};
    RetryHints hints = {};

    CallFailure() = default;
    explicit CallFailure(std::exception_ptr thrown);

    /// The attempt reached a limit of the caller, such as the maximum size of an answer.
    bool limit_reached() const;
};

/// The attempts of one call (D15): decides about retries and enforces the deadline of the whole call.
class CallAttempts {
public:
    CallAttempts(std::shared_ptr<const WireProtocol> protocol,
                 std::shared_ptr<const Runtime> runtime)
        : protocol_(std::move(protocol)), runtime_(std::move(runtime)) {}

    /// Returns the timeouts of the next attempt. The first call starts the deadline.
    HttpTimeouts next_timeouts();
    /// Decides whether to retry, for an attempt without content.
    RetryDecision decide(const CallFailure& failure, const ErrorInfo& info) const;
    /// Counts a retry. Returns the notice about it.
    Notice start_retry(const RetryDecision& decision, const ErrorInfo& info);
    /// Describes the final failure, with the number of retries.
    std::string describe(const CallFailure& failure) const;

private:
    RetryDecision decide_by_policy(const CallFailure& failure, const ErrorInfo& info) const;

    std::shared_ptr<const WireProtocol> protocol_;
    std::shared_ptr<const Runtime> runtime_;
    std::optional<Clock::time_point> deadline_;  ///< absent: no limit
    int retries_done_ = 0;
};

}  // namespace cubepi::detail
