#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/http_transport.hpp>

namespace cubepi::detail {

/// The part of a request that a collector did not accept, although it answered with 200.
struct PartialSuccess {
    std::uint64_t rejected = 0;
    std::string message = {};
};

/// Reads an ExportTraceServiceResponse or ExportMetricsServiceResponse, in JSON if the content type says so. A body that is neither
/// counts as complete success: some collectors answer with an empty object or a word.
PartialSuccess read_partial_success(std::string_view body, std::string_view content_type);

/// Returns the description in the body of an error response: a google.rpc.Status, JSON with a "message", or plain text. Empty if
/// there is none.
std::string read_error_message(std::string_view body, std::string_view content_type);

/// Returns true if the body is an HTML page, as proxies and login pages return.
bool is_html(std::string_view body, std::string_view content_type);

/// Returns a text of a server as one short line of valid UTF-8 in which the values of the headers are replaced by "***".
std::string safe_server_text(std::string text, const std::vector<HttpHeader>& headers);

}  // namespace cubepi::detail
