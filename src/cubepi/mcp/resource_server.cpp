#include <cubepi/mcp/resource_server.hpp>

#include <optional>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/auth/access_token.hpp>
#include <cubepi/mcp/auth/authorization_server.hpp>
#include <cubepi/mcp/auth/guarded_http.hpp>
#include <cubepi/mcp/protocol.hpp>

namespace cubepi {

namespace {

constexpr std::string_view well_known = "/.well-known/oauth-protected-resource";

std::shared_ptr<const detail::GuardedHttp> http_of(const McpResourceServerOptions& options) {
    detail::GuardedHttp::Options guard;
    guard.kind = "The authorization server";
    guard.server = detail::shown_mcp_text(options.issuer);
    guard.url = options.issuer;
    guard.resolve = options.resolve;
    return std::make_shared<const detail::GuardedHttp>(std::move(guard), options.runtime);
}

/// Returns the text as a quoted string of a header (RFC 9110, 5.6.4).
std::string quoted_value(std::string_view text) {
    std::string made = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') made += '\\';
        made += c;
    }
    return made + "\"";
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    return text;
}

/// Scopes have no characters that would end a header or the list (RFC 6749, 3.3).
bool is_scope(std::string_view text) {
    if (text.empty()) return false;
    for (const char c : text)
        if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\') return false;
    return true;
}

Task<HttpServerResponse> answer_with(HttpServerResponse response) { co_return response; }

}  // namespace

struct McpResourceServer::State {
    State(Executor executor, McpResourceServerOptions its_options)
        : options(std::move(its_options)), http(http_of(options)), reading(std::move(executor)) {
        rules.issuer = options.issuer;
        rules.audience = options.resource;
        rules.scopes = options.scopes;
    }

    Clock::time_point now() const { return options.runtime->clock->now(); }
    bool may_read() const {
        return !is_reading && (!tried || now() - *tried >= options.retry_after);
    }
    detail::AccessToken check(std::string_view token) const {
        return detail::check_access_token(token, keys, rules, options.runtime->clock->wall());
    }

    static Task<> read(std::shared_ptr<State> self);
    /// Reads the keys and logs a failure.
    static Task<> read_again(std::shared_ptr<State> self);
    static void begin_reading(const std::shared_ptr<State>& self) {
        if (self->may_read()) self->reading.spawn(read_again(self));
    }
    std::optional<HttpServerResponse> refusal_of(const std::shared_ptr<State>& self,
                                                 const HttpServerRequest& request);
    HttpServerResponse challenge(unsigned status, std::string_view error,
                                 const std::string& problem) const;

    const McpResourceServerOptions options;
    const std::shared_ptr<const detail::GuardedHttp> http;
    detail::AccessTokenRules rules;
    std::string metadata_url;
    detail::TokenKeys keys;
    std::optional<Clock::time_point> read_at;  // of the keys
    std::optional<Clock::time_point> tried;
    bool is_reading = false;
    BackgroundScope reading;
};

Task<> McpResourceServer::State::read(std::shared_ptr<State> self) {
    struct Reading {
        bool& flag;
        explicit Reading(bool& its_flag) : flag(its_flag) { flag = true; }
        ~Reading() { flag = false; }
    };
    const Reading reading(self->is_reading);
    self->tried = self->now();
    Task<JsonObject> reading_set = detail::read_token_keys(self->http, self->options.issuer);
    const JsonObject set = co_await std::move(reading_set);
    detail::TokenKeys keys(set);
    if (keys.empty()) {
        throw Error(ErrorCode::protocol,
                    self->http->about("has no keys that verify tokens (RSA, P-256, P-384 or "
                                      "Ed25519)."));
    }
    self->keys = std::move(keys);
    self->read_at = self->now();
}

Task<> McpResourceServer::State::read_again(std::shared_ptr<State> self) {
    Task<> reading = read(self);
    const Outcome<> outcome = co_await outcome_of(std::move(reading));
    if (outcome.cancelled()) outcome.rethrow();
    if (!outcome) {
        self->options.runtime->log.write(LogLevel::warning, "mcp.keys_failed",
                                         {{"issuer", std::string_view(self->options.issuer)}});
    }
}

HttpServerResponse McpResourceServer::State::challenge(unsigned status, std::string_view error,
                                                       const std::string& problem) const {
    HttpServerResponse response = HttpServerResponse::error(
        status, problem.empty() ? "an access token is required" : problem);
    std::string text = "Bearer ";
    if (!error.empty()) {
        text += "error=" + quoted_value(error) + ", ";
        if (!problem.empty()) text += "error_description=" + quoted_value(problem) + ", ";
    }
    if (!options.scopes.empty()) text += "scope=" + quoted_value(joined(options.scopes)) + ", ";
    text += "resource_metadata=" + quoted_value(metadata_url);
    response.headers.set("www-authenticate", text);
    return response;
}

std::optional<HttpServerResponse> McpResourceServer::State::refusal_of(
    const std::shared_ptr<State>& self, const HttpServerRequest& request) {
    const std::string_view token = request.bearer_token();
    if (token.empty()) return challenge(401, {}, {});
    const bool has_keys = read_at && now() - *read_at < options.max_key_age;
    if (!read_at || now() - *read_at >= options.refresh_after) begin_reading(self);
    detail::AccessToken checked;
    checked.state = detail::AccessToken::State::unknown_key;
    if (has_keys) checked = check(token);
    using State = detail::AccessToken::State;
    switch (checked.state) {
        case State::valid: return std::nullopt;
        case State::lacks_scope:
            return challenge(403, "insufficient_scope", "the token lacks a scope");
        case State::invalid: return challenge(401, "invalid_token", checked.problem);
        case State::unknown_key: break;
    }
    // The issuer may have a key that this server has not read yet.
    begin_reading(self);
    if (has_keys && !is_reading) return challenge(401, "invalid_token", checked.problem);
    HttpServerResponse later = HttpServerResponse::error(
        503, "the keys of the authorization server are being read; send the request again");
    later.headers.set("retry-after", "1");
    return later;
}

McpResourceServer::McpResourceServer(Executor executor, McpResourceServerOptions options) {
    const std::optional<detail::GuardedUrl> url = detail::guarded_url(options.resource);
    if (!url || url->text != options.resource || !options.resource.ends_with(options.path) ||
        options.resource.find('?') != std::string::npos || options.path.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "the URL of the MCP server, '" + options.resource +
                        "', must be one by https, or of this machine, that ends with " +
                        options.path);
    }
    if (!detail::guarded_url(options.issuer)) {
        throw Error(ErrorCode::invalid_argument,
                    "the issuer of tokens, '" + options.issuer +
                        "', must be a URL by https, or of this machine");
    }
    for (const std::string& scope : options.scopes) {
        if (!is_scope(scope))
            throw Error(ErrorCode::invalid_argument, "'" + scope + "' is not a scope of OAuth");
    }
    // A path before it belongs to a proxy, which leaves the rest to this server.
    const std::string prefix =
        options.resource.substr(0, options.resource.size() - options.path.size());
    state_ = std::make_shared<State>(std::move(executor), std::move(options));
    state_->metadata_url = prefix + std::string(well_known) + state_->options.path;
}

McpResourceServer::~McpResourceServer() {
    state_->reading.cancel();
    state_->read_at.reset();
}

Task<> McpResourceServer::read_keys() { return State::read(state_); }

void McpResourceServer::start() { State::begin_reading(state_); }

HttpAuthentication McpResourceServer::authentication() const {
    return [state = state_](const HttpServerRequest& request) {
        return state->refusal_of(state, request);
    };
}

std::function<std::string(const HttpServerRequest& request)> McpResourceServer::client() const {
    return [state = state_](const HttpServerRequest& request) {
        const std::string_view token = request.bearer_token();
        const detail::AccessToken checked = state->check(token);
        // One that has expired since is only the same as itself.
        const bool is_valid = checked.state == detail::AccessToken::State::valid;
        return is_valid ? checked.subject : "token " + detail::sha256_hex(token);
    };
}

void McpResourceServer::add_metadata_route(HttpRoutes& routes) const {
    JsonObject body;
    body["resource"] = state_->options.resource;
    body["authorization_servers"] = JsonArray{Json(state_->options.issuer)};
    body["bearer_methods_supported"] = JsonArray{"header"};
    if (!state_->options.scopes.empty()) {
        JsonArray scopes;
        for (const std::string& scope : state_->options.scopes) scopes.emplace_back(scope);
        body["scopes_supported"] = std::move(scopes);
    }
    HttpServerResponse response = HttpServerResponse::json(200, Json(std::move(body)));
    // Clients in web pages read it.
    response.headers.set("access-control-allow-origin", "*");
    response.headers.set("cache-control", "max-age=3600");
    routes.add("GET", std::string(well_known) + state_->options.path,
               [response](const HttpServerRequest&) { return answer_with(response); });
}

const std::string& McpResourceServer::metadata_url() const noexcept { return state_->metadata_url; }

}  // namespace cubepi
