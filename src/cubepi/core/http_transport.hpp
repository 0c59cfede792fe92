#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/task.hpp>

// The port through which rooms above `net` make HTTP requests. The net room has the real one,
// cubepi::testing one that lives in memory.

namespace cubepi {

struct HttpHeader {
    std::string name;
    std::string value;

    HttpHeader(std::string header_name, std::string header_value)
        : name(std::move(header_name)), value(std::move(header_value)) {}
    friend bool operator==(const HttpHeader&, const HttpHeader&) = default;
};

/// Header fields in their order. Names compare without regard to case.
class HttpHeaders {
public:
    HttpHeaders() = default;

    void add(std::string name, std::string value) {
        fields_.emplace_back(std::move(name), std::move(value));
    }

    /// Replaces all fields of that name.
    void set(std::string name, std::string value);
    void remove(std::string_view name);

    /// The value of the first field of that name; null when there is none. Valid until the next
    /// change.
    const std::string* find(std::string_view name) const noexcept;

    /// The same, empty when there is none.
    std::string_view get(std::string_view name) const noexcept;

    bool empty() const noexcept { return fields_.empty(); }
    std::size_t size() const noexcept { return fields_.size(); }
    auto begin() const noexcept { return fields_.begin(); }
    auto end() const noexcept { return fields_.end(); }

    friend bool operator==(const HttpHeaders&, const HttpHeaders&) = default;

private:
    std::vector<HttpHeader> fields_;
};

/// The clocks of one exchange that the transport keeps. Zero: off.
struct HttpClocks {
    std::chrono::nanoseconds connect = std::chrono::seconds(10);  ///< name, TCP, TLS, proxy
    std::chrono::nanoseconds first_byte =
        std::chrono::seconds(120);  ///< from the request's end to the status line
    std::chrono::nanoseconds total = std::chrono::nanoseconds::zero();

    HttpClocks() {}
};

struct HttpRequest {
    std::string method = "GET";
    std::string url;
    HttpHeaders headers;
    std::string body;
    HttpClocks clocks;
    bool follow_redirects = false;

    /// Connect to these addresses (IPv4 or IPv6 text) instead of resolving the URL's host. Host
    /// header and TLS name stay the URL's.
    std::vector<std::string> resolve_to;

    /// More body than this ends the exchange with ErrorCode::too_large. Zero: no limit.
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
    HttpRequest&& with_clocks(HttpClocks values) && {
        clocks = values;
        return std::move(*this);
    }
    HttpRequest&& with_redirects() && {
        follow_redirects = true;
        return std::move(*this);
    }
    HttpRequest&& with_resolve_to(std::vector<std::string> addresses) && {
        resolve_to = std::move(addresses);
        return std::move(*this);
    }
    HttpRequest&& with_max_response_bytes(std::size_t bytes) && {
        max_response_bytes = bytes;
        return std::move(*this);
    }
};

/// A response body that is still arriving. Reading it slowly slows the sender down. The destructor
/// closes the exchange at once, also in the middle. Used on the executor on which send() was
/// awaited.
class HttpBody {
public:
    virtual ~HttpBody() = default;

    /// Waits for bytes and appends them to `out`. False at the end of the body (`out` unchanged).
    /// `out` outlives the await. Throws Error: disconnected, protocol, too_large;
    /// TimeoutError("total"). Cancellation (terminal): closes the exchange at once.
    virtual Task<bool> read(std::string& out) = 0;

    /// Appends what has already arrived, without waiting. False when there is nothing (which says
    /// nothing about the end).
    virtual bool read_ready(std::string& out) = 0;

    /// True: interrupt() works, which costs less than being able to cancel each read.
    virtual bool interruptible() const noexcept { return false; }
    /// Closes the exchange; a read that waits throws a cancellation. Called on the body's executor.
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
    std::string url;      ///< where it came from, after redirects
    std::unique_ptr<HttpBody> body;

    HttpResponse() {}
};

/// Makes exchanges. One object may serve several executors; each exchange belongs to the one it was
/// started on.
class HttpTransport {
public:
    virtual ~HttpTransport() = default;

    /// Sends the request and returns when the status and headers of the final response are there,
    /// whatever the status. Throws Error: invalid_argument (URL), dns, connect, tls, proxy,
    /// disconnected, protocol; TimeoutError ("connect", "first_byte", "total"). Cancellation
    /// (terminal): closes the exchange at once, wherever it is, name resolution included.
    virtual Task<HttpResponse> send(HttpRequest request) = 0;

    HttpTransport(const HttpTransport&) = delete;
    HttpTransport& operator=(const HttpTransport&) = delete;

protected:
    HttpTransport() = default;
};

}  // namespace cubepi
