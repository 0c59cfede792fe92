#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <cubepi/provider/observers.hpp>
#include <cubepi/provider/wire/call_attempts.hpp>
#include <cubepi/provider/wire/endpoint.hpp>
#include <cubepi/provider/wire/idle_timer.hpp>
#include <cubepi/provider/wire/response_reader.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

/// One call of a model over HTTP. Nothing is sent before the first event is requested. Its parts:
///
/// - build_request_body (request_body.hpp) builds the request once for all attempts;
/// - CallAttempts decides about retries (D15), read_error_response reads responses with an error status;
/// - ResponseReader decodes the body of a successful response;
/// - IdleTimer enforces the idle timeout (D16).
///
/// The source sequences them, and ends the call at an abort (D7).
class HttpStreamSource final : public StreamSource {
public:
    /// `observed` is null if there are no observers; otherwise the request is that of the observation.
    HttpStreamSource(ModelRequest request, std::shared_ptr<const WireProtocol> protocol,
                     std::shared_ptr<ObservedCall> observed);
    ~HttpStreamSource() override;

    std::optional<StreamEvent> ready() override;
    Task<StreamEvent> next() override;
    bool honors_stop_token() const noexcept override { return true; }

private:
    enum class Phase : std::uint8_t {
        idle,       ///< an attempt is to be sent
        waiting,    ///< for the delay before a retry
        streaming,  ///< the body of a response is read
        ending,     ///< the message is complete, the body is not
        over        ///< the terminal event is in the queue or was taken
    };

    /// Connects a stop, on any thread, to the source on its executor. `source` is used only there.
    struct StopLink {
        StopLink(Executor where, HttpStreamSource* whose)
            : executor(std::move(where)), source(whose) {}
        Executor executor;
        HttpStreamSource* source;
    };

    Task<> guarded_step();
    Task<> step();
    Task<> prepare();
    Task<> attempt();
    Task<> sign(const RequestSigner& signer, HttpRequest& http);
    std::string without_secrets(std::string text) const;
    Task<> read_interruptibly();
    Task<> read_more();
    Task<> drain();
    bool decode_received();
    void finish_answer();

    bool stopped() const noexcept;
    void renew_stop();
    void interrupt() noexcept;
    void idle_limit_reached();
    void end_aborted();
    void close();

    void settle_failure();
    bool build_differently(const CallFailure& failure);
    ErrorInfo classify(const CallFailure& failure) const;
    void retry(const RetryDecision& decision, const ErrorInfo& info);
    void give_up(const CallFailure& failure, ErrorInfo info);

    ModelRequest own_request_;
    std::shared_ptr<const WireProtocol> protocol_;
    std::shared_ptr<ObservedCall> observed_;
    const ModelRequest& request_;
    std::shared_ptr<const Runtime> runtime_;
    MessageAssembler assembler_;
    EventQueue queue_;
    ResponseReader reader_;
    IdleTimer idle_timer_;
    CallAttempts attempts_;
    std::optional<std::string> request_body_;
    std::optional<CallFailure> failure_;
    ExtraHeaders signed_keys_;  ///< headers of the last attempt that hold keys, if it was signed
    std::chrono::nanoseconds delay_{0};  ///< before the next attempt

    std::stop_source stop_;  ///< of the current attempt: the caller's stop or the idle timeout
    std::optional<std::stop_callback<std::function<void()>>> link_;
    std::shared_ptr<StopLink> stop_link_;
    std::optional<std::stop_callback<std::function<void()>>> on_stop_;  ///< while a body streams
    Phase phase_ = Phase::idle;
    bool reading_ = false;
    bool idle_timeout_ = false;
    bool cancelled_ = false;
};

/// Starts a call. `observers` (never null) are placed between the source and the consumer if there are any.
MessageStream http_stream(ModelRequest request, std::shared_ptr<const WireProtocol> protocol,
                          const std::shared_ptr<ObserverRegistry>& observers);

}  // namespace cubepi::detail
