#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/task.hpp>

// The port through which modules above `net` make HTTP requests. The net module implements it; cubepi::testing has an
// in-memory implementation.

namespace cubepi {

struct HttpHeader {
    std::string name;
    std::string value;

    HttpHeader(std::string header_name, std::string header_value)
        : name(std::move(header_name)), value(std::move(header_value)) {}
    friend bool operator==(const HttpHeader&, const HttpHeader&) = default;
};

/// Returns true for a valid name of a method or a header field (a token of RFC 9110).
bool is_http_token(std::string_view text) noexcept;
/// Returns true for a value that cannot end its header field: no line break, no NUL.
bool is_http_field_value(std::string_view text) noexcept;

/// Header fields in order. Names are case-insensitive.
class HttpHeaders {
public:
    HttpHeaders() = default;

    void add(std::string name, std::string value) {
        fields_.emplace_back(std::move(name), std::move(value));
    }

    /// Replaces all fields with that name.
    void set(std::string name, std::string value);
    void remove(std::string_view name);

    /// Returns the value of the first field with that name; null if there is none. Valid until the next change.
    const std::string* find(std::string_view name) const noexcept;

    /// Returns the value as find() does, but an empty view if there is none.
    std::string_view get(std::string_view name) const noexcept;

    bool empty() const noexcept { return fields_.empty(); }
    std::size_t size() const noexcept { return fields_.size(); }
    auto begin() const noexcept { return fields_.begin(); }
    auto end() const noexcept { return fields_.end(); }

    friend bool operator==(const HttpHeaders&, const HttpHeaders&) = default;

private:
    std::vector<HttpHeader> fields_;
};

/// The timeouts of one exchange, enforced by the transport. Zero disables a timeout.
struct HttpTimeouts {
    std::chrono::nanoseconds connect = std::chrono::seconds(10);  ///< name, TCP, TLS, proxy
    std::chrono::nanoseconds first_byte =
        std::chrono::seconds(120);  ///< from the end of the request to the status line
    std::chrono::nanoseconds total = std::chrono::nanoseconds::zero();

    HttpTimeouts() {}
};

struct HttpRequest {
    std::string method = "GET";
    std::string url;
    HttpHeaders headers;
    std::string body;
    HttpTimeouts timeouts;
    bool follow_redirects = false;

    /// Connects to these addresses (IPv4 or IPv6 text) instead of resolving the URL's host. Host header and TLS name
    /// are still taken from the URL.
    std::vector<std::string> resolve_to;

    /// A longer body ends the exchange with ErrorCode::too_large. Zero: no limit.
    std::size_t max_response_bytes = 0;

    HttpRequest() {}
    HttpRequest(std::string method_name, std::string target)
        : method(std::move(method_name)), url(std::move(target)) {}

    HttpRequest&& with_header(std::string name, std::string value) && {
        headers.add(std::move(name), std::move(value));
        return std::move(*this);
    }
    HttpRequest&& with_body(std::string content, std::string content_type) && {
        body = std::move(content);
        headers.set("content-type", std::move(content_type));
        return std::move(*this);
    }
    HttpRequest&& with_redirects() && {
        follow_redirects = true;
        return std::move(*this);
    }
    HttpRequest&& with_max_response_bytes(std::size_t bytes) && {
        max_response_bytes = bytes;
        return std::move(*this);
    }
};

/// A response body that is read while it arrives. A slow reader slows the sender down. The destructor closes the
/// exchange immediately, even before the end of the body. Used on the executor on which send() was awaited.
class HttpBody {
public:
    virtual ~HttpBody() = default;

    /// Waits for bytes and appends them to `out`. Returns false at the end of the body (`out` is unchanged). `out` must
    /// outlive the await. Throws Error: disconnected, protocol, too_large; TimeoutError("total"). Cancellation
    /// (terminal) closes the exchange immediately.
    virtual Task<bool> read(std::string& out) = 0;

    /// Appends the bytes that have already arrived, without waiting. Returns false if there are none, which does not
    /// mean the end.
    virtual bool read_ready(std::string& out) = 0;

    /// Returns true if interrupt() works; interrupting is cheaper than making each read cancellable.
    virtual bool interruptible() const noexcept { return false; }
    /// Closes the exchange; a waiting read throws a cancellation. Called on the body's executor.
    virtual void interrupt() noexcept {}

    HttpBody(const HttpBody&) = delete;
    HttpBody& operator=(const HttpBody&) = delete;

protected:
    HttpBody() = default;
};

struct HttpResponse {
    int status = 0;
    HttpHeaders headers;
    std::string version;  ///< "1.1", "2"
    std::string url;      ///< the final URL, after redirects
    std::unique_ptr<HttpBody> body;

    HttpResponse() {}
};

/// An interface that performs HTTP exchanges. One object may serve several executors; each exchange is bound to the
/// executor on which it was started.
class HttpTransport {
public:
    virtual ~HttpTransport() = default;

    /// Sends the request and returns when the status and headers of the final response have arrived, whatever the
    /// status. Throws Error: invalid_argument (URL), dns, connect, tls, proxy, disconnected, protocol; TimeoutError
    /// ("connect", "first_byte", "total"). Cancellation (terminal) closes the exchange immediately in any state,
    /// including name resolution.
    virtual Task<HttpResponse> send(HttpRequest request) = 0;

    HttpTransport(const HttpTransport&) = delete;
    HttpTransport& operator=(const HttpTransport&) = delete;

protected:
    HttpTransport() = default;
};

}  // namespace cubepi
