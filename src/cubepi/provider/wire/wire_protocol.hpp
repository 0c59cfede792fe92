#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/ids.hpp>
#include <cubepi/net/retry.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/http_provider.hpp>
#include <cubepi/provider/message_assembler.hpp>
#include <cubepi/provider/provider.hpp>

// The endpoints of all providers, and the specific parts of a wire format: building requests and decoding answers. Neither does
// I/O; http_stream() transfers the bytes, waits, retries and aborts for all formats.

namespace cubepi::detail {

/// The `extra_headers` of a provider.
using ExtraHeaders = std::vector<std::pair<std::string, std::string>>;
/// Returns the headers of a request that hold keys, or all others.
ExtraHeaders headers_with_keys(const HttpRequest& request);
HttpHeaders headers_without_keys(const HttpRequest& request);
/// Removes the keys in the headers from `text`, also without their scheme ("Bearer").
std::string without_header_secrets(std::string text, const ExtraHeaders& headers);
/// The head of a response, for on_response.
ProviderResponse response_head(const HttpResponse& response);

/// The timeouts of a call (D16). Zero: off.
struct CallTimeouts {
    HttpTimeouts http{};
    std::chrono::nanoseconds idle = std::chrono::seconds(120);  ///< between events with content
};

/// Address, keys and headers of a vendor's endpoint, and the options that all providers have: retries, timeouts, a signer.
class Endpoint {
public:
    /// The part that differs between vendors.
    struct Vendor {
        std::string name =
            {};  ///< for error messages: "OpenAI" of OpenAIProvider and OpenAIOptions
        std::string key_variable = {};  ///< the environment variable with the key
        std::string own_host = {};      ///< requires a key; any other server may need none
        ExtraHeaders headers = {};      ///< of each request, with the key
        std::string ignored_path =
            {};  ///< at the end of a base URL, as those of other vendors have: "/v1"
    };

    /// Uses the members of an options struct. Throws Error(invalid_argument) if its `base_url` is not an http(s) URL.
    template <class Options>
    Endpoint(Vendor vendor, const Options& options)
        : Endpoint(std::move(vendor), options.base_url, options.extra_headers) {
        timeouts_.http.connect = options.connect_timeout;
        timeouts_.http.first_byte = options.first_byte_timeout;
        timeouts_.http.total = options.total_timeout;
        timeouts_.idle = options.idle_timeout;
        retry_ = options.retry;
        keys_.push_back(options.api_key);
        if constexpr (requires { options.auth_token; }) keys_.push_back(options.auth_token);
        if constexpr (requires { options.sign_request; }) signer_ = options.sign_request;
    }

    /// A streaming POST of JSON below the base URL, whose query (Azure's api-version) follows that of `path`. Throws
    /// ProviderError if a key for the vendor's own host is missing.
    HttpRequest post(std::string_view path) const;
    /// In lower case, without the port.
    const std::string& host() const noexcept { return host_; }
    /// The base URL without secrets.
    const std::string& shown_url() const noexcept { return shown_url_; }
    const CallTimeouts& timeouts() const noexcept { return timeouts_; }
    const RetryPolicy& retry() const noexcept { return retry_; }
    /// Completes each request; may be empty.
    const RequestSigner& signer() const noexcept { return signer_; }
    /// `text` without the endpoint's keys (D58).
    std::string without_secrets(std::string text) const;

private:
    Endpoint(Vendor vendor, std::string base_url, ExtraHeaders extra_headers);

    Vendor vendor_;
    std::string base_url_;
    std::vector<std::string> keys_;
    ExtraHeaders extra_headers_;
    std::string host_;
    std::string shown_url_;
    CallTimeouts timeouts_;
    RetryPolicy retry_;
    RequestSigner signer_;
};

/// OpenAI and compatible servers, whose key is a bearer token. `name` as in Endpoint::Vendor.
Endpoint::Vendor openai_vendor(std::string name, const std::string& key);

/// Queue of events from a decoder to the consumer. Reuses its memory.
class EventQueue {
public:
    bool empty() const noexcept { return next_ == events_.size(); }
    std::size_t size() const noexcept { return events_.size() - next_; }
    void push(StreamEvent event) { events_.push_back(std::move(event)); }
    StreamEvent pop() {
        StreamEvent event = std::move(events_[next_++]);
        if (next_ == events_.size()) {
            events_.clear();
            next_ = 0;
        }
        return event;
    }

private:
    std::vector<StreamEvent> events_;
    std::size_t next_ = 0;
};

/// An error that the endpoint reported inside a stream.
class StreamFailure : public Error {
public:
    explicit StreamFailure(EndpointFailure failure)
        : Error(ErrorCode::provider, failure.message), failure_(std::move(failure)) {}
    const EndpointFailure& failure() const noexcept { return failure_; }

private:
    EndpointFailure failure_;
};

/// Reads one answer. Feeds the assembler, whose events go to the queue.
class WireDecoder {
public:
    WireDecoder(MessageAssembler& assembler, IdSource& ids) : assembler_(assembler), ids_(ids) {}
    virtual ~WireDecoder() = default;
    /// Decodes one server-sent event, or the whole body of a response that is not an event stream. Throws
    /// StreamFailure for an error in it, Error(protocol) for data that cannot be read.
    virtual void decode(std::string_view event, std::string_view data, EventQueue& out) = 0;
    /// True if the answer is complete: failures of the connection no longer matter.
    virtual bool complete() const noexcept = 0;
    /// True if the endpoint declared that nothing follows.
    virtual bool over() const noexcept = 0;
    /// Queues the terminal event. Throws Error(disconnected) if the answer is not complete.
    virtual void finish(EventQueue& out) = 0;

protected:
    /// Queues the `start` event, unless an earlier call or attempt did.
    void announce(EventQueue& out) {
        if (std::exchange(announced_, true)) return;
        const bool again = assembler_.started();
        StreamEvent start = assembler_.start();
        if (!again) out.push(std::move(start));
    }

    MessageAssembler& assembler_;
    IdSource& ids_;
    bool announced_ = false;
};

/// One endpoint in one wire format. Any thread may call any member of one that is shared by calls.
class WireProtocol {
public:
    struct Built {
        JsonObject body = {};
        std::vector<Notice> notices = {};
    };

    virtual ~WireProtocol() = default;
    /// Returns a protocol with the state of one call; null if calls have no state and share this one.
    virtual std::shared_ptr<const WireProtocol> of_one_call() const { return nullptr; }
    /// See Provider::takes_response_format.
    virtual bool takes_response_format(const Model& model) const = 0;
    /// Builds the request body before the caller's hooks run. Throws Error for an invalid request.
    virtual Built build(const ModelRequest& request) const = 0;
    /// Final changes of the body, after the hooks. Merges a member `extra_body`, which hooks may set as in CubePi.
    virtual void finish_body(JsonObject& body) const;
    /// Called if the endpoint rejected the request before any content. Returns the text of a notice if the next
    /// build() returns a different body to try, else an empty string. Must be empty after finitely many calls.
    virtual std::string build_differently(const EndpointFailure&) const { return {}; }
    virtual const Endpoint& endpoint() const noexcept = 0;
    /// Method, URL, headers of a call; the caller sets body and timeouts. Throws ProviderError if there is no key.
    virtual HttpRequest http_request(const ModelRequest& request) const = 0;
    virtual std::unique_ptr<WireDecoder> decoder(MessageAssembler& assembler,
                                                 IdSource& ids) const = 0;
    /// The unstreamed form of an answer, for observers.
    virtual JsonObject answer_body(const AssistantMessage& message) const = 0;
};

/// Starts a call. `observers` (never null) are placed between the source and the consumer if there are any.
MessageStream http_stream(ModelRequest request, std::shared_ptr<const WireProtocol> protocol,
                          const std::shared_ptr<ObserverRegistry>& observers);

}  // namespace cubepi::detail
