#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/mcp/client.hpp>

// Headers that repeat parts of a request, so that a proxy can route it without reading its body (revision 2026-07-28).

namespace cubepi::detail {

/// Returns `value` as the value of a header: as it is if it is printable ASCII without blanks at its ends, else as
/// `=?base64?...?=`.
std::string encode_mcp_header(std::string_view value);
/// Returns the value that a header encodes; empty for an invalid encoding.
std::optional<std::string> decode_mcp_header(std::string_view value);

/// Returns the properties with the annotation `x-mcp-header`. Throws Error(validation) that states the reason if one of them is
/// invalid: it is not reached by `properties` alone, is not a text, an integer or a boolean, its name is not a token, or another
/// one has the same name.
std::vector<McpHeaderParameter> header_parameters(const Json& input_schema);

/// Adds `Mcp-Param-...` for the arguments that are present.
void add_parameter_headers(HttpHeaders& headers, const std::vector<McpHeaderParameter>& parameters,
                           const JsonObject& arguments);

/// Returns why the headers of a request do not agree with its arguments; empty if they do.
std::string check_parameter_headers(const HttpHeaders& headers,
                                    const std::vector<McpHeaderParameter>& parameters,
                                    const JsonObject& arguments);

}  // namespace cubepi::detail
