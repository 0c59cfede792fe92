#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <cubepi/net/sse_decoder.hpp>
#include <cubepi/provider/observers.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

/// One call of a model over HTTP: sends the request, reads the answer, retries (D15), enforces the idle timeout (D16),
/// ends at an abort (D7). Nothing is sent before the first event is pulled.
class HttpStreamSource final : public StreamSource {
public:
    /// `observers`: null when nobody watches.
    HttpStreamSource(ModelRequest request, std::shared_ptr<const WireProtocol> protocol,
                     std::shared_ptr<ObserverRegistry> observers);
    ~HttpStreamSource() override;

    std::optional<StreamEvent> ready() override;
    Task<StreamEvent> next() override;
    bool honors_stop_token() const noexcept override { return true; }

private:
    enum class Phase : std::uint8_t { idle, waiting, streaming, ending, over };
    /// What a body turns out to be.
    enum class Form : std::uint8_t { unknown, events, whole };

    /// A failed attempt.
    struct Failure {
        std::exception_ptr exception = {};
        std::optional<EndpointFailure> endpoint = {};
        RetryHints hints = {};
    };

    /// The way from a stop, on any thread, to the source on its executor. `source` is used there only.
    struct StopLink {
        StopLink(Executor where, HttpStreamSource* whose)
            : executor(std::move(where)), source(whose) {}
        Executor executor;
        HttpStreamSource* source;
    };

    bool stopped() const noexcept;
    void renew_stop();
    Task<> guarded_step();
    Task<> step();
    Task<> prepare();
    Task<> attempt();
    Task<> refused(HttpResponse response);
    Task<std::string> read_error_body(std::unique_ptr<HttpBody> body);
    Task<> read_more();
    Task<> read_interruptibly();
    void interrupt() noexcept;
    std::string& buffer();
    bool read_available();
    void recognise_body();
    void at_end_of_body();
    void decode_whole_body();
    Task<> linger();
    void finish_answer();
    void arm_gap();
    void count_silence();
    TimeoutError idle_timeout_error() const;
    bool decode_buffered();
    void decode(std::string_view event, std::string_view data);
    void fail(std::exception_ptr exception);
    void settle_failure();
    bool build_differently(const Failure& failure);
    RetryDecision decide(const Failure& failure, const ErrorInfo& info) const;
    bool has_time_for(std::chrono::nanoseconds delay) const;
    void retry(const RetryDecision& decision, const ErrorInfo& info);
    void give_up(const Failure& failure, ErrorInfo info);
    void end_aborted();
    void close();
    ErrorInfo classify(const Failure& failure) const;

    ModelRequest request_;
    std::shared_ptr<const WireProtocol> protocol_;
    std::shared_ptr<ObserverRegistry> observers_;
    std::shared_ptr<const Runtime> runtime_;
    MessageAssembler assembler_;
    std::unique_ptr<WireDecoder> decoder_;
    EventQueue queue_;
    std::string body_text_;
    SseDecoder sse_;
    std::string whole_body_;
    std::unique_ptr<HttpBody> body_;
    std::optional<Failure> failure_;

    std::stop_source stop_;
    std::optional<std::stop_callback<std::function<void()>>> link_;
    std::shared_ptr<StopLink> stop_link_;
    std::optional<std::stop_callback<std::function<void()>>> on_stop_;  ///< while a body streams
    std::unique_ptr<ClockTimer> gap_timer_;
    std::chrono::nanoseconds silence_{0};  ///< since the last event with content
    /// From when on time is to be added to `silence_`; absent while the consumer is busy with an event.
    std::optional<Clock::time_point> silent_since_;
    std::chrono::nanoseconds delay_{0};
    std::optional<Clock::time_point> deadline_;  ///< of the whole call, where it has one
    std::size_t bytes_since_yield_ = 0;
    int retries_done_ = 0;
    Phase phase_ = Phase::idle;
    Form form_ = Form::unknown;
    bool prepared_ = false;
    bool reading_ = false;
    bool gap_armed_ = false;
    bool gap_fired_ = false;
    bool cancelled_ = false;
};

/// One call, with `observers` (never null) between it and the consumer where there are any.
MessageStream http_stream(ModelRequest request, std::shared_ptr<const WireProtocol> protocol,
                          const std::shared_ptr<ObserverRegistry>& observers);

/// "0.5 s"
std::string seconds_text(std::chrono::nanoseconds time);

}  // namespace cubepi::detail
