#pragma once

#include <string>
#include <string_view>

namespace cubepi::detail {

/// Scheme, host and port of an http or https URL, in one spelling: "https://example.org", "http://[::1]:8080". The port is
/// left out where it is the scheme's own. Empty for anything else, and for a URL with a user name or password.
std::string url_origin(std::string_view url);

/// The same for what a rule says: an origin, without path, query and fragment. A host alone, as earlier versions saved it,
/// stands for https on port 443. Empty when it is neither.
std::string rule_origin(std::string_view match);

/// True when consent to the origin `asked` covers a redirect to `next`: the same origin, or its https where both have
/// their scheme's own port.
bool covers_redirect(std::string_view asked, std::string_view next);

}  // namespace cubepi::detail
