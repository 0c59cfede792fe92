#include <cubepi/mcp/http/origin.hpp>

#include <algorithm>

#include <cubepi/core/support/lower_case.hpp>

namespace cubepi::detail {

std::string mcp_url_origin(std::string_view url) {
    const std::size_t scheme_end = url.find("://");
    if (scheme_end == std::string_view::npos) return {};
    const std::string scheme = lower_case(url.substr(0, scheme_end));
    if (scheme != "http" && scheme != "https") return {};
    const std::string_view rest = url.substr(scheme_end + 3);
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
    // A backslash or a user name makes clients disagree about the host.
    if (authority.empty() || authority.find_first_of("@\\ \t\r\n") != std::string_view::npos)
        return {};
    return scheme + "://" + lower_case(authority);
}

std::optional<std::string> same_origin_url(std::string_view url, std::string_view location) {
    const std::string origin = mcp_url_origin(url);
    if (origin.empty() || location.find_first_of("\\ \t\r\n") != std::string_view::npos)
        return std::nullopt;
    if (location.starts_with('/') && !location.starts_with("//"))
        return origin + std::string(location);
    if (mcp_url_origin(location) == origin) return std::string(location);
    return std::nullopt;
}

}  // namespace cubepi::detail
