#pragma once

#include <string>
#include <string_view>

namespace cubepi::detail {

/// Returns scheme, host and port of an http or https URL in normal form: "https://example.org", "http://[::1]:8080". The
/// default port is omitted. Empty for any other text, and for a URL with a user name or password.
std::string url_origin(std::string_view url);

/// Returns the normal form of a rule's origin, which has no path, query or fragment. A host alone, as earlier versions saved
/// it, means https on port 443. Empty for any other text.
std::string rule_origin(std::string_view match);

/// True if approval of the origin `asked` includes a redirect to `next`: the same origin, or its https variant if both use
/// their default port.
bool covers_redirect(std::string_view asked, std::string_view next);

}  // namespace cubepi::detail
