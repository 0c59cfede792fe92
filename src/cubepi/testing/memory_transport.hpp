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

/// What a MemoryTransport answers: a status, headers, and a body that arrives as the script says.
///
///     MemoryResponse(200).with_event("{\"a\":1}").with_delay(30s).with_event("[DONE]")
///
/// The script is played in order; what it ends with is the end of the body.
class MemoryResponse {
public:
    explicit MemoryResponse(int status = 200, std::string body = {});

    /// send() throws this instead of answering.
    template <class E>
    static MemoryResponse failing(E error) {
        return failing(std::make_exception_ptr(std::move(error)));
    }
    static MemoryResponse failing(std::exception_ptr failure);

    /// The request is taken and never answered.
    static MemoryResponse never();

    MemoryResponse&& with_header(std::string name, std::string value) &&;

    /// Bytes that arrive together: one read() gives one piece.
    MemoryResponse&& with_piece(std::string bytes) &&;
    /// The piece "data: <data>\n\n".
    MemoryResponse&& with_event(const std::string& data) &&;
    /// Cuts what was scripted so far into pieces of `bytes` bytes.
    MemoryResponse&& in_pieces_of(std::size_t bytes) &&;

    /// Nothing arrives for so long; needs a transport with a clock.
    MemoryResponse&& with_delay(std::chrono::nanoseconds delay) &&;
    /// Nothing arrives any more.
    MemoryResponse&& with_stall() &&;
    /// The body breaks with this.
    template <class E>
    MemoryResponse&& with_failure(E error) && {
        return std::move(*this).with_failure(std::make_exception_ptr(std::move(error)));
    }
    MemoryResponse&& with_failure(std::exception_ptr failure) &&;
    /// Called when a reader has got this far, on the reader's executor: to abort, to look, to count.
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

/// An HttpTransport without a network, for tests of whatever speaks HTTP. Keeps what it was asked.
/// send() may be called from any thread; the handler runs inside it, one call at a time.
class MemoryTransport final : public HttpTransport {
public:
    using Handler = std::function<MemoryResponse(const HttpRequest& request)>;

    /// With a clock, the first_byte and total clocks of the requests are kept on it (and with_delay works).
    explicit MemoryTransport(Handler handler, std::shared_ptr<Clock> clock = nullptr);

    /// Gives these answers in order, and an Error(invalid_state) after the last.
    explicit MemoryTransport(std::vector<MemoryResponse> answers,
                             std::shared_ptr<Clock> clock = nullptr);

    Task<HttpResponse> send(HttpRequest request) override;

    /// All requests so far, in order.
    std::vector<HttpRequest> requests() const;

    /// Exchanges that have begun and whose body is not destroyed yet: zero when nothing was left behind.
    std::size_t open_exchanges() const;

private:
    struct Shared;
    std::shared_ptr<Shared> shared_;
};

}  // namespace cubepi::testing
