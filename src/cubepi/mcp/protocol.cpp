#include <cubepi/mcp/protocol.hpp>

#include <algorithm>
#include <array>
#include <new>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/utf8.hpp>

namespace cubepi {

namespace {

constexpr std::array<std::string_view, 4> session_versions = {mcp_session_version, "2025-06-18",
                                                              "2025-03-26", "2024-11-05"};

ErrorCode code_of(int rpc_code) noexcept {
    switch (rpc_code) {
        case mcp_error::method_not_found:
        case mcp_error::missing_client_capability:
        case mcp_error::unsupported_version: return ErrorCode::unsupported;
        case mcp_error::invalid_params: return ErrorCode::bad_request;
        case mcp_error::resource_not_found: return ErrorCode::not_found;
        case mcp_error::parse:
        case mcp_error::invalid_request:
        case mcp_error::header_mismatch: return ErrorCode::protocol;
        default: return ErrorCode::unknown;
    }
}

}  // namespace

bool is_stateless_mcp_version(std::string_view version) noexcept {
    return version == mcp_stateless_version;
}

bool is_session_mcp_version(std::string_view version) noexcept {
    return std::ranges::find(session_versions, version) != session_versions.end();
}

McpError::McpError(int rpc_code, const std::string& message, Json data)
    : Error(code_of(rpc_code), message), rpc_code_(rpc_code), data_(std::move(data)) {}

JsonObject to_json(const McpImplementation& implementation) {
    JsonObject json;
    json["name"] = implementation.name;
    json["version"] = implementation.version;
    if (!implementation.title.empty()) json["title"] = implementation.title;
    return json;
}

McpImplementation mcp_implementation_from_json(const JsonObject& json) {
    McpImplementation implementation(
        detail::shown_mcp_text(detail::string_member(json, "name")),
        detail::shown_mcp_text(detail::string_member(json, "version")));
    implementation.title = detail::shown_mcp_text(detail::string_member(json, "title"));
    return implementation;
}

namespace detail {

std::string shown_mcp_text(std::string_view text, std::size_t max_bytes) {
    std::string shown = replace_broken_utf8(text.substr(0, max_bytes + 4));
    // Control characters of ASCII, and those of Latin-1 (C2 80 to C2 9F in UTF-8).
    std::string out;
    out.reserve(shown.size());
    for (std::size_t i = 0; i < shown.size(); ++i) {
        const auto byte = static_cast<unsigned char>(shown[i]);
        const bool has_next = i + 1 < shown.size();
        if (byte == 0xC2 && has_next && static_cast<unsigned char>(shown[i + 1]) < 0xA0) {
            ++i;
            out += ' ';
        } else {
            out += byte < 0x20 || byte == 0x7F ? ' ' : shown[i];
        }
    }
    if (text.size() <= max_bytes) return out;
    out.resize(std::min(out.size(), max_bytes));
    out.resize(complete_utf8_prefix(out));
    return out + "...";
}

}  // namespace detail

}  // namespace cubepi
