#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/http_transport.hpp>

namespace cubepi::testing {

/// A scripted response of a MemoryTransport: a status, headers, and a body that arrives in scripted steps.
///
///     MemoryResponse(200).with_event("{\"a\":1}").with_delay(30s).with_event("[DONE]")
///
/// The script is executed in order; the body ends with its last step.
class MemoryResponse {
public:
    explicit MemoryResponse(int status = 200, std::string body = {});

    /// Returns a response for which send() throws the error.
    template <class E>
    static MemoryResponse failing(E error) {
        return failing(std::make_exception_ptr(std::move(error)));
    }
    static MemoryResponse failing(std::exception_ptr failure);

    /// Returns a response that never arrives.
    static MemoryResponse never();

    MemoryResponse&& with_header(std::string name, std::string value) &&;

    /// Adds bytes that arrive together: one read() returns one piece.
    MemoryResponse&& with_piece(std::string bytes) &&;
    /// Adds the piece "data: <data>
    ///
    /// ".
    MemoryResponse&& with_event(const std::string& data) &&;
    /// Splits the scripted body so far into pieces of `bytes` bytes.
    MemoryResponse&& in_pieces_of(std::size_t bytes) &&;

    /// Adds a pause; requires a transport with a clock.
    MemoryResponse&& with_delay(std::chrono::nanoseconds delay) &&;
    /// Ends the data without ending the body.
    MemoryResponse&& with_stall() &&;
    /// Makes the body fail with the error.
    template <class E>
    MemoryResponse&& with_failure(E error) && {
        return std::move(*this).with_failure(std::make_exception_ptr(std::move(error)));
    }
    MemoryResponse&& with_failure(std::exception_ptr failure) &&;
    /// Adds a call that is made on the reader's executor when a reader has reached this step: to abort, to inspect, to
    /// count.
    MemoryResponse&& with_call(std::function<void()> call) &&;

private:
    friend class MemoryTransport;
    friend class MemoryBody;

    struct Step {
        enum class Kind { piece, delay, stall, failure, call };
        Kind kind;
        std::string bytes;
        std::chrono::nanoseconds delay{0};
        std::exception_ptr failure;
        std::function<void()> call;

        explicit Step(Kind what) : kind(what) {}
    };

    Step& add(Step::Kind kind);

    int status_;
    HttpHeaders headers_;
    std::vector<Step> steps_;
    std::exception_ptr failure_;
    bool never_ = false;
};

/// An HttpTransport without a network, for tests of HTTP clients. Records the requests. send() is thread-safe; the
/// handler runs inside it, one call at a time.
class MemoryTransport final : public HttpTransport {
public:
    using Handler = std::function<MemoryResponse(const HttpRequest& request)>;

    /// With a clock, the first_byte and total timeouts of the requests are enforced on it (and with_delay works).
    explicit MemoryTransport(Handler handler, std::shared_ptr<Clock> clock = nullptr);

    /// Returns these responses in order, and throws Error(invalid_state) after the last.
    explicit MemoryTransport(std::vector<MemoryResponse> answers,
                             std::shared_ptr<Clock> clock = nullptr);

    Task<HttpResponse> send(HttpRequest request) override;

    /// Returns all requests so far, in order.
    std::vector<HttpRequest> requests() const;

    /// Returns the number of exchanges that have begun and whose body is not destroyed: zero if nothing leaked.
    std::size_t open_exchanges() const;

private:
    struct Shared;
    std::shared_ptr<Shared> shared_;
};

}  // namespace cubepi::testing
