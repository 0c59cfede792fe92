#include <cubepi/mcp/auth/authorization_server.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/base64.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/mcp/auth/secrets.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/schema/json_text.hpp>

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

namespace {

using Http = std::shared_ptr<const GuardedHttp>;

constexpr std::size_t max_token_bytes = 16 * 1024;
constexpr std::string_view basic = "client_secret_basic";
constexpr std::string_view post = "client_secret_post";
constexpr std::string_view signed_assertion = "private_key_jwt";
constexpr std::string_view no_method = "none";

bool supports(const OAuthServer& server, std::string_view method) {
    // Without a statement a server supports this one (RFC 8414, 2).
    if (server.auth_methods.empty()) return method == basic;
    return std::ranges::find(server.auth_methods, method) != server.auth_methods.end();
}

std::string_view method_of(const OAuthServer& server, const McpOAuthClient& client) {
    if (!client.private_key.empty()) return signed_assertion;
    if (client.secret.empty()) return no_method;
    for (const std::string_view method : {basic, post}) {
        if (client.auth_method == method) return method;
    }
    if (supports(server, basic) || !supports(server, post)) return basic;
    return post;
}

/// A token is a part of a header; it must not contain what separates headers or parts of them.
bool is_usable_token(std::string_view token) {
    return !token.empty() && token.size() <= max_token_bytes &&
           std::ranges::all_of(token, [](char c) { return c > ' ' && c < 0x7F; });
}

/// Throws what a server has answered in place of tokens or a registration. It may repeat what it was sent.
[[noreturn]] void refuse(const OAuthServer& server, const GuardedHttp::Reply& reply,
                         std::string_view what, const McpSecrets& sent) {
    std::string error;
    std::string text = "The authorization server " + server.issuer + " refused " +
                       std::string(what) + " with status " + std::to_string(reply.status);
    if (reply.json) {
        error = text_member(*reply.json, "error");
        if (!error.empty()) text += ": " + shown_mcp_text(sent.without(error), 64);
        const std::string reason = sent.without(text_member(*reply.json, "error_description"));
        if (!reason.empty()) text += " (" + shown_mcp_text(reason) + ")";
    }
    if (reply.status >= 500) throw Error(ErrorCode::unavailable, text + ".");
    throw OAuthRefused(std::move(error), text + ".");
}

}  // namespace

std::string encoded_form(const OAuthForm& form) {
    std::string text;
    for (const auto& [name, value] : form) {
        if (!text.empty()) text += '&';
        text += percent_encoded(name) + "=" + percent_encoded(value);
    }
    return text;
}

Task<McpCredentials> request_tokens(std::shared_ptr<const GuardedHttp> http, OAuthServer server,
                                    McpOAuthClient client, OAuthForm grant,
                                    std::string wanted_scope, McpCredentials credentials) {
    HttpRequest request("POST", server.token_endpoint);
    const std::string_view method = method_of(server, client);
    if (method == basic) {
        const std::string pair = percent_encoded(client.id) + ":" + percent_encoded(client.secret);
        request.headers.set("Authorization", "Basic " + base64(pair));
    } else {
        grant.emplace_back("client_id", client.id);
    }
    if (method == post) grant.emplace_back("client_secret", client.secret);
    if (method == signed_assertion) {
        grant.emplace_back("client_assertion_type",
                           "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
        grant.emplace_back("client_assertion",
                           client_assertion(client.id, server.issuer, client.private_key,
                                            http->runtime().clock->wall()));
    }
    request.headers.set("content-type", "application/x-www-form-urlencoded");
    request.body = encoded_form(grant);
    const GuardedHttp::Reply reply = co_await GuardedHttp::send(http, std::move(request));
    McpSecrets sent;
    sent.add_latest(client.secret);
    for (const auto& [name, value] : grant) {
        for (const char* const secret :
             {"code", "code_verifier", "refresh_token", "client_assertion"})
            if (name == secret) sent.add_latest(value);
    }
    if (reply.status != 200 || !reply.json) refuse(server, reply, "to issue a token", sent);
    const JsonObject& json = *reply.json;
    const std::string_view token = string_member(json, "access_token");
    if (!is_usable_token(token) || lower_case(string_member(json, "token_type")) != "bearer") {
        throw Error(ErrorCode::protocol, "The authorization server " + server.issuer +
                                             " issued something else than a bearer token.");
    }
    credentials.issuer = server.issuer;
    credentials.access_token = token;
    // Without a new one, the refresh token that was used stays valid.
    const std::string_view refresh = string_member(json, "refresh_token");
    if (is_usable_token(refresh)) credentials.refresh_token = refresh;
    const std::string_view scope = string_member(json, "scope");
    credentials.scope = scope.empty() || scope.size() > max_token_bytes ? std::move(wanted_scope)
                                                                        : std::string(scope);
    credentials.expires_at = 0;
    if (const auto seconds = integer_member(json, "expires_in")) {
        const std::int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                                     http->runtime().clock->wall().time_since_epoch())
                                     .count();
        credentials.expires_at = now + std::clamp<std::int64_t>(*seconds, 0, 10LL * 366 * 86'400);
    }
    co_return credentials;
}

Task<McpOAuthClient> register_client(std::shared_ptr<const GuardedHttp> http, OAuthServer server,
                                     std::string client_name, std::string redirect_uri) {
    // A program on the user's machine cannot hide a secret, so none is asked for if the server allows that.
    std::string_view method = no_method;
    if (!server.auth_methods.empty() && !supports(server, no_method))
        method = supports(server, basic) ? basic : post;
    JsonObject body;
    body["client_name"] = std::move(client_name);
    body["redirect_uris"] = JsonArray{Json(redirect_uri)};
    body["grant_types"] = JsonArray{Json("authorization_code"), Json("refresh_token")};
    body["response_types"] = JsonArray{Json("code")};
    body["token_endpoint_auth_method"] = method;
    body["application_type"] = "native";
    HttpRequest request("POST", server.registration_endpoint);
    request.headers.set("content-type", "application/json");
    request.body = json_text(body);
    const GuardedHttp::Reply reply = co_await GuardedHttp::send(http, std::move(request));
    const bool is_registered = reply.status == 200 || reply.status == 201;
    if (!is_registered || !reply.json) refuse(server, reply, "to register this client", {});
    McpOAuthClient client;
    client.id = text_member(*reply.json, "client_id");
    client.secret = text_member(*reply.json, "client_secret");
    client.auth_method = text_member(*reply.json, "token_endpoint_auth_method");
    if (client.auth_method.empty()) client.auth_method = method;
    client.secret_expires_at = integer_member(*reply.json, "client_secret_expires_at").value_or(0);
    client.redirect_uri = std::move(redirect_uri);
    if (client.auth_method == no_method) client.secret.clear();
    if (client.id.empty() || client.id.size() > max_token_bytes ||
        client.secret.size() > max_token_bytes) {
        throw Error(ErrorCode::protocol, "The authorization server " + server.issuer +
                                             " registered this client without a usable id.");
    }
    co_return client;
}

namespace {

[[noreturn]] void refuse(const OAuthServer& server, const std::string& reason) {
    throw Error(ErrorCode::protocol,
                "The login at " + server.issuer + " was not completed: " + reason + ".");
}

std::optional<std::string> decoded(std::string_view text) {
    std::string plain(text);
    for (char& c : plain) {
        if (c == '+') c = ' ';
    }
    return percent_decoded(plain);
}

/// Returns the parameters; nothing if one of them is repeated or not encoded correctly.
std::optional<std::map<std::string, std::string>> parameters_of(std::string_view query) {
    std::map<std::string, std::string> parameters;
    while (!query.empty()) {
        const std::string_view one = query.substr(0, query.find('&'));
        query.remove_prefix(one.size() == query.size() ? one.size() : one.size() + 1);
        if (one.empty()) continue;
        const std::size_t equals = one.find('=');
        std::optional<std::string> name = decoded(one.substr(0, equals));
        std::optional<std::string> value =
            equals == std::string_view::npos ? std::string() : decoded(one.substr(equals + 1));
        if (!name || !value) return std::nullopt;
        if (!parameters.emplace(std::move(*name), std::move(*value)).second) return std::nullopt;
    }
    return parameters;
}

}  // namespace

std::string login_code(const std::string& redirect, const McpLoginPage& page,
                       const OAuthServer& server) {
    const std::string_view url = std::string_view(redirect).substr(0, redirect.find('#'));
    const std::size_t question = url.find('?');
    if (url.substr(0, question) != page.redirect_uri || question == std::string_view::npos)
        refuse(server, "the browser was redirected to an address of another program");
    const auto parameters = parameters_of(url.substr(question + 1));
    if (!parameters) refuse(server, "the parameters of the redirect are invalid");
    const auto value = [&](const std::string& name) -> const std::string* {
        const auto found = parameters->find(name);
        return found == parameters->end() ? nullptr : &found->second;
    };
    const std::string* state = value("state");
    if (!state || *state != page.state) refuse(server, "the redirect belongs to another login");
    // Compared as texts: a normal form would let one server act as another one.
    const std::string* issuer = value("iss");
    if (issuer && *issuer != server.issuer)
        refuse(server, "the redirect comes from another server, " + shown_mcp_text(*issuer));
    if (!issuer && server.states_issuer)
        refuse(server, "the redirect does not state its server, although this one always does");
    if (const std::string* error = value("error")) {
        const std::string* reason = value("error_description");
        throw Error(ErrorCode::auth, "The login at " + server.issuer +
                                         " was refused: " + shown_mcp_text(*error, 64) +
                                         (reason ? " (" + shown_mcp_text(*reason) + ")" : "") +
                                         ".");
    }
    const std::string* code = value("code");
    if (!code || code->empty()) refuse(server, "the redirect contains no code");
    return *code;
}

}  // namespace cubepi::detail
