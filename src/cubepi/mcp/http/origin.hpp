#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cubepi::detail {

/// Returns scheme and authority of a URL, in lower case: "https://host:8443". Empty for another scheme than http and https, without
/// a host, and with a user name.
std::string mcp_url_origin(std::string_view url);

/// Returns the URL to which a server redirects with `location`, if it has the same origin as `url`.
std::optional<std::string> same_origin_url(std::string_view url, std::string_view location);

}  // namespace cubepi::detail
