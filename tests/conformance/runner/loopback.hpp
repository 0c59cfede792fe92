#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace conformance {

struct HttpAnswer {
    int status = 200;
    std::map<std::string, std::string> headers;
    std::string body;
    /// The connection breaks after the body, whose content-length is 1,000 bytes larger.
    bool cut = false;
    std::size_t pause_after_bytes = 0;  ///< 0: no pause
    int pause_ms = 0;
    /// The body is sent in chunks of this many bytes; 0: in one piece with its length.
    std::size_t stride = 0;
};

struct HttpAsked {
    std::string method;
    std::string path;
    std::map<std::string, std::string> headers;  ///< names in lower case
    std::string body;
};

/// An HTTP server on a loopback port that sends its answers one by one, and then repeats the last one.
class Loopback {
public:
    explicit Loopback(std::vector<HttpAnswer> answers);
    ~Loopback();
    std::uint16_t port() const noexcept;
    /// The requests so far.
    std::vector<HttpAsked> asked() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace conformance
