#include <cubepi/mcp/auth/discovery.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/mcp/protocol.hpp>

namespace cubepi::detail {

namespace {

using Http = std::shared_ptr<const GuardedHttp>;

constexpr std::size_t max_list = 100;
constexpr std::size_t max_word_bytes = 1024;

std::vector<std::string> words_of(const JsonObject& object, std::string_view key) {
    std::vector<std::string> words;
    const JsonArray* array = array_member(object, key);
    if (!array) return words;
    for (const Json& one : *array) {
        if (words.size() == max_list) break;
        if (one.is_string() && one.get_string().size() <= max_word_bytes)
            words.emplace_back(one.get_string());
    }
    return words;
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
    return std::ranges::find(words, word) != words.end();
}

/// Returns the path without a '/' at its end.
std::string trimmed_path(const GuardedUrl& url) {
    std::string path = url.path;
    while (path.ends_with('/')) path.pop_back();
    return path;
}

/// Returns the document at a URL, or nothing if the server has none there.
Task<std::optional<JsonObject>> read_document(Http http, std::string url) {
    const GuardedUrl checked = http->checked(url, "its metadata");
    HttpRequest request("GET", checked.text);
    GuardedHttp::Reply reply = co_await GuardedHttp::send(http, std::move(request));
    if (reply.status >= 300 && reply.status < 400) {
        const std::optional<GuardedUrl> target = guarded_url(reply.location);
        if (target && target->origin != checked.origin) {
            throw Error(ErrorCode::protocol,
                        http->about("redirects the request for its metadata to " +
                                    shown_mcp_text(reply.location) + ", which is not followed."));
        }
    }
    if (reply.status >= 500) {
        throw Error(ErrorCode::unavailable, checked.origin +
                                                " answered the request for metadata "
                                                "with status " +
                                                std::to_string(reply.status) + ".");
    }
    if (reply.status != 200) co_return std::nullopt;
    co_return std::move(reply.json);
}

/// Returns the first document that there is.
Task<std::optional<JsonObject>> read_first(Http http, std::vector<std::string> urls) {
    for (const std::string& url : urls) {
        std::optional<JsonObject> found = co_await read_document(http, url);
        if (found) co_return found;
    }
    co_return std::nullopt;
}

/// A server may describe itself as a whole, or a part that contains its URL; nothing else, because its tokens would be valid
/// elsewhere.
bool covers(std::string_view resource, const GuardedUrl& server) {
    const std::optional<GuardedUrl> url = guarded_url(resource);
    if (!url || url->origin != server.origin) return false;
    const std::string path = trimmed_path(*url);
    return server.path.starts_with(path) &&
           (server.path.size() == path.size() || server.path[path.size()] == '/');
}

std::vector<std::string> resource_urls(const GuardedUrl& server, const std::string& stated) {
    if (!stated.empty()) return {stated};
    const std::string root = server.origin + "/.well-known/oauth-protected-resource";
    const std::string path = trimmed_path(server);
    std::vector<std::string> places;
    if (!path.empty()) places.push_back(root + path);
    places.push_back(root);
    return places;
}

std::vector<std::string> server_urls(const GuardedUrl& issuer) {
    const std::string path = trimmed_path(issuer);
    std::vector<std::string> places;
    places.push_back(issuer.origin + "/.well-known/oauth-authorization-server" + path);
    places.push_back(issuer.origin + "/.well-known/openid-configuration" + path);
    if (!path.empty()) places.push_back(issuer.origin + path + "/.well-known/openid-configuration");
    return places;
}

OAuthServer read_server(const GuardedHttp& http, const JsonObject& json, std::string issuer) {
    OAuthServer server;
    server.issuer = std::move(issuer);
    const auto endpoint = [&](std::string_view key, std::string_view what) {
        const std::string_view text = string_member(json, key);
        return text.empty() ? std::string() : http.checked(text, what).text;
    };
    server.authorization_endpoint = endpoint("authorization_endpoint", "logins of users");
    server.token_endpoint = endpoint("token_endpoint", "tokens");
    server.registration_endpoint = endpoint("registration_endpoint", "registrations");
    server.scopes = words_of(json, "scopes_supported");
    server.auth_methods = words_of(json, "token_endpoint_auth_methods_supported");
    server.supports_pkce = contains(words_of(json, "code_challenge_methods_supported"), "S256");
    server.states_issuer = flag_member(json, "authorization_response_iss_parameter_supported");
    server.reads_client_metadata = flag_member(json, "client_id_metadata_document_supported");
    if (server.token_endpoint.empty())
        throw Error(ErrorCode::protocol, server.issuer + " has no endpoint for tokens.");
    return server;
}

/// Returns the metadata of an authorization server.
Task<JsonObject> read_issuer_metadata(Http http, std::string issuer) {
    const GuardedUrl url = http->checked(issuer, "its authorization server");
    std::optional<JsonObject> json = co_await read_first(http, server_urls(url));
    if (!json) {
        throw Error(ErrorCode::auth, "The authorization server " + url.text +
                                         " has no metadata; its operator, or that of the MCP "
                                         "server, must repair that.");
    }
    // Another issuer could make this client send a code or a secret to a server of its choice (RFC 8414, 3.3).
    const std::string_view stated = string_member(*json, "issuer");
    if (stated != issuer) {
        throw Error(ErrorCode::protocol, "The metadata of the authorization server " + url.text +
                                             " is that of another one, " + shown_mcp_text(stated) +
                                             "; it is not used.");
    }
    co_return std::move(*json);
}

Task<OAuthServer> read_issuer(Http http, std::string issuer) {
    const JsonObject json = co_await read_issuer_metadata(http, issuer);
    co_return read_server(*http, json, std::move(issuer));
}

/// Servers of 2025-03-26 are their own authorization servers, and may have no metadata at all.
Task<OAuthServer> read_older_server(Http http) {
    const GuardedUrl& server = http->server_url();
    const std::optional<GuardedUrl> root = guarded_url(server.origin);
    const std::optional<JsonObject> json = co_await read_first(http, server_urls(*root));
    if (json) {
        std::string issuer = text_member(*json, "issuer");
        if (issuer != server.origin && issuer != server.origin + "/") {
            throw Error(ErrorCode::protocol,
                        http->about("has the metadata of another authorization server, " +
                                    shown_mcp_text(issuer) + "; it is not used."));
        }
        co_return read_server(*http, *json, std::move(issuer));
    }
    OAuthServer assumed;
    assumed.issuer = server.origin;
    assumed.authorization_endpoint = server.origin + "/authorize";
    assumed.token_endpoint = server.origin + "/token";
    assumed.registration_endpoint = server.origin + "/register";
    assumed.supports_pkce = true;
    co_return assumed;
}

}  // namespace

Task<OAuthDiscovery> discover_oauth(std::shared_ptr<const GuardedHttp> http,
                                    std::string resource_metadata, std::string preferred_issuer) {
    OAuthDiscovery found;
    const std::optional<JsonObject> json =
        co_await read_first(http, resource_urls(http->server_url(), resource_metadata));
    if (!json) {
        if (!resource_metadata.empty()) {
            throw Error(ErrorCode::protocol,
                        http->about("has no metadata at " + shown_mcp_text(resource_metadata) +
                                    ", which it has named."));
        }
        found.server = co_await read_older_server(http);
        co_return found;
    }
    found.resource = text_member(*json, "resource");
    if (!covers(found.resource, http->server_url())) {
        throw Error(ErrorCode::protocol,
                    http->about("has the metadata of another server, '" +
                                shown_mcp_text(found.resource) + "'; no login was started."));
    }
    found.scopes = words_of(*json, "scopes_supported");
    const std::vector<std::string> issuers = words_of(*json, "authorization_servers");
    std::string issuer = issuers.empty() ? http->server_url().origin : issuers.front();
    if (contains(issuers, preferred_issuer)) issuer = std::move(preferred_issuer);
    found.server = co_await read_issuer(http, std::move(issuer));
    co_return found;
}

Task<JsonObject> read_token_keys(std::shared_ptr<const GuardedHttp> http, std::string issuer) {
    const JsonObject metadata = co_await read_issuer_metadata(http, std::move(issuer));
    std::string place = text_member(metadata, "jwks_uri");
    std::optional<JsonObject> keys;
    if (!place.empty()) keys = co_await read_document(http, std::move(place));
    if (!keys) throw Error(ErrorCode::auth, http->about("has no keys for its tokens (jwks_uri)."));
    co_return std::move(*keys);
}

}  // namespace cubepi::detail
