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

namespace cubepi {

/// True for an IPv4 or IPv6 address (text) that anybody on the Internet may have: not loopback, link-local, private,
/// carrier-grade NAT, multicast, reserved, documentation, nor an IPv6 address that stands for such an IPv4 one (mapped,
/// NAT64, 6to4, Teredo). False for what is no address. After the IANA special-purpose address registries (RFC 6890).
bool is_public_address(std::string_view address);

struct FetchOptions {
    /// Who makes the exchanges; null: the Runtime's.
    std::shared_ptr<HttpTransport> transport;
    /// Called on the Runtime's resolver threads. Empty: resolve_with_system.
    Resolver resolve;
    /// Also loopback, private and other special addresses. Off, so that a model, or a page that it reads, cannot
    /// reach what only this machine and its network can.
    bool allow_private_addresses = false;
    /// Whether a redirect to another origin (scheme, host and port) may be followed, by its URL. Empty: none. From http to https
    /// of the same host, both on their own ports, needs no such consent. What is not followed is told to the
    /// model, whose next call asks for it like any other. Called where the tool runs.
    std::function<bool(const std::string& url)> follow_to_other_host;
    std::size_t max_bytes = 2 * 1024 * 1024;  ///< of a body; the rest is not read
    int max_redirects = 5;
    std::chrono::seconds timeout = std::chrono::seconds(60);  ///< for all of it, redirects included

    FetchOptions() {}
};

/// Gets a page by http or https. HTML becomes readable text. Each redirect and each resolved address is checked, and
/// the connection goes to the address that was checked. A redirect to another origin than the call's is not followed,
/// unless the options say so. network.
AgentTool fetch_tool(FetchOptions options = FetchOptions());

}  // namespace cubepi
