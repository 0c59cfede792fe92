#pragma once

#include <string>
#include <vector>

#include <bub/envelope.hpp>
#include <cubepi/net/http_server.hpp>

namespace bub::detail {

/// The contents of a request to `/v1/messages`.
struct HttpMessage {
    std::string session = {};
    std::string key = {};  ///< identifies the message when the client repeats the request
    std::string user = {};
    Envelope envelope = {};
};

/// Reads a request. Throws Error(parse) with the reason if it is not one. A session or key that is absent is a new one.
HttpMessage read_message(const cubepi::HttpServerRequest& request,
                         const std::vector<std::string>& operators);

}  // namespace bub::detail
