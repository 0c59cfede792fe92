#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/net/name_resolver.hpp>
#include <cubepi/net/public_address.hpp>

namespace cubepi {

struct FetchOptions {
    /// The transport of the requests; null: the Runtime's.
    std::shared_ptr<HttpTransport> transport;
    /// Called on the Runtime's resolver threads. Empty: resolve_with_system.
    Resolver resolve;
    /// Allows loopback, private and other special addresses. Off by default, so that a model, or a page that it reads, cannot
    /// reach services that are only accessible to this machine and its network.
    bool allow_private_addresses = false;
    /// Decides by URL whether a redirect to another origin (scheme, host and port) may be followed; empty: no redirect may. A
    /// redirect from http to https of the same host, both on their default ports, is always followed. The model is told about
    /// a redirect that was not followed, and its next call needs approval like any other. Called on the tool's executor.
    std::function<bool(const std::string& url)> follow_to_other_host;
    std::size_t max_bytes = 2 * 1024 * 1024;  ///< of a body; the remainder is not read
    int max_redirects = 5;
    std::chrono::seconds timeout =
        std::chrono::seconds(60);  ///< of the whole call, including redirects

    FetchOptions() {}
};

/// Fetches a page by http or https. HTML is converted to readable text. Each redirect and each resolved address is checked,
/// and the connection uses the checked address. A redirect to another origin than the call's is followed only if the options
/// allow it. Risk: network.
AgentTool fetch_tool(FetchOptions options = FetchOptions());

}  // namespace cubepi

namespace cubepi::detail {

/// Returns scheme, host and port of an http or https URL in normal form: "https://example.org", "http://[::1]:8080". The
/// default port is omitted. Empty for any other text, and for a URL with a user name or password.
std::string url_origin(std::string_view url);

/// Returns why fetch_tool() with its default options refuses this URL in any case; empty if that depends on the address of its
/// host's name. Resolves no name and sends nothing.
std::string fetch_refusal(const std::string& url);

/// Returns the normal form of a rule's origin, which has no path, query or fragment. A host alone, as earlier versions saved
/// it, means https on port 443. Empty for any other text.
std::string rule_origin(std::string_view match);

/// Returns true if a rule that restricts fetches matches a URL. The rule is an origin, or a host ("example.org", "*.example.org") whatever
/// the scheme and the port. Hosts are compared in one spelling: without the dot at the end, and numbers as addresses. An origin with
/// https matches the URL with http that may redirect to it.
bool restricts_fetch(std::string_view rule, const std::string& url);

/// True if approval of the origin `asked` includes a redirect to `next`: the same origin, or its https variant if both use
/// their default port.
bool covers_redirect(std::string_view asked, std::string_view next);

}  // namespace cubepi::detail
