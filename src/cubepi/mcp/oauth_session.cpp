#include <cubepi/mcp/oauth_session.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/auth/authorization_server.hpp>
#include <cubepi/mcp/auth/guarded_http.hpp>
#include <cubepi/mcp/auth/secrets.hpp>
#include <cubepi/mcp/json_rpc.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/net/http_client.hpp>

namespace cubepi {

namespace {

using detail::OAuthDiscovery;
using detail::OAuthForm;
using detail::OAuthServer;

constexpr std::size_t max_scopes = 100;
constexpr std::size_t max_scope_bytes = 4096;
/// A server that refuses a token that was issued within this time would refuse the next one too.
constexpr std::chrono::nanoseconds min_token_age = std::chrono::minutes(1);

/// The scopes of a text, each once; of what a server states, a bounded number.
std::set<std::string> scopes_of(std::string_view text) {
    std::set<std::string> scopes;
    text = text.substr(0, max_scope_bytes);
    while (!text.empty() && scopes.size() < max_scopes) {
        const std::string_view one = text.substr(0, text.find(' '));
        text.remove_prefix(one.size() == text.size() ? one.size() : one.size() + 1);
        const bool is_scope = !one.empty() && std::ranges::all_of(one, [](char c) {
            return c > ' ' && c < 0x7F && c != '"' && c != '\\';
        });
        if (is_scope) scopes.emplace(one);
    }
    return scopes;
}

std::string scope_text(const std::set<std::string>& scopes) {
    std::string text;
    for (const std::string& one : scopes) text += (text.empty() ? "" : " ") + one;
    return text;
}

bool includes(const std::set<std::string>& all, const std::set<std::string>& some) {
    return std::ranges::includes(all, some);
}

}  // namespace

struct McpOAuthSession::State final : std::enable_shared_from_this<State> {
    State(McpOAuthOptions settings, std::shared_ptr<const Runtime> its_runtime)
        : options(std::move(settings)),
          runtime(std::move(its_runtime)),
          store(options.store ? options.store : mcp_memory_credentials()) {
        detail::GuardedHttp::Options guarded;
        guarded.server = options.server;
        guarded.url = options.url;
        guarded.resolve = options.resolve;
        guarded.timeout = options.request_timeout;
        http = std::make_shared<const detail::GuardedHttp>(std::move(guarded), runtime);
    }

    /// An authorization in progress, which the requests that need it wait for.
    struct Authorization {
        McpChallenge challenge;
        bool is_forced = false;       ///< there may be a token already
        bool is_interactive = false;  ///< the user has to act
        std::size_t waiting = 0;
        AsyncEvent ended;
        std::exception_ptr failure;
    };
    using StatePtr = std::shared_ptr<State>;
    using AuthorizationPtr = std::shared_ptr<Authorization>;

    /// Counts a request that waits. A login that no request waits for any more ends; another exchange may not be interrupted,
    /// because a refresh token is often valid once.
    class Waiter {
    public:
        Waiter(StatePtr state, AuthorizationPtr authorization)
            : state_(std::move(state)), authorization_(std::move(authorization)) {
            ++authorization_->waiting;
        }
        Waiter(const Waiter&) = delete;
        Waiter& operator=(const Waiter&) = delete;
        ~Waiter() {
            const bool is_last = --authorization_->waiting == 0;
            if (!is_last || !authorization_->is_interactive ||
                state_->authorization != authorization_)
                return;
            state_->authorization.reset();
            state_->scope->cancel();
        }

    private:
        const StatePtr state_;
        const AuthorizationPtr authorization_;
    };

    static Task<> wait_for(StatePtr self, McpChallenge challenge, bool is_forced);
    static Task<> run(StatePtr self, AuthorizationPtr authorization);
    static Task<> obtain(StatePtr self, AuthorizationPtr authorization);
    static Task<bool> refresh(StatePtr self, OAuthDiscovery found);
    static Task<> request_as_service(StatePtr self, OAuthDiscovery found, std::string scope);
    static Task<> log_in(StatePtr self, AuthorizationPtr authorization, OAuthDiscovery found,
                         std::string scope);
    static Task<McpOAuthClient> choose_client(StatePtr self, OAuthServer server,
                                              std::string redirect_uri);
    static Task<> adopt(StatePtr self, McpCredentials issued);
    static Task<> load_once(StatePtr self);

    std::set<std::string> wanted_scopes(const McpChallenge& challenge,
                                        const OAuthDiscovery& found) const;
    bool may_use_configured_client(const OAuthServer& server) const;
    void check_issuer(const OAuthServer& server) const;
    void check_progress(const McpChallenge& challenge, const OAuthDiscovery& found) const;

    std::string about(std::string_view text) const {
        return "The MCP server " + options.server + " " + std::string(text);
    }

    const McpOAuthOptions options;
    const std::shared_ptr<const Runtime> runtime;
    const std::shared_ptr<McpCredentialStore> store;
    std::shared_ptr<const detail::GuardedHttp> http;

    McpCredentials credentials;
    bool is_loaded = false;
    /// When this session has obtained its token, and for which scopes it asked.
    std::optional<Clock::time_point> issued_at;
    AuthorizationPtr authorization;
    std::unique_ptr<BackgroundScope> scope;
};

// Waiting.

Task<> McpOAuthSession::State::wait_for(StatePtr self, McpChallenge challenge, bool is_forced) {
    const Executor executor = co_await this_executor;
    for (;;) {
        AuthorizationPtr authorization = self->authorization;
        const bool is_own = !authorization;
        if (is_own) {
            authorization = std::make_shared<Authorization>();
            authorization->challenge = challenge;
            authorization->is_forced = is_forced;
            self->authorization = authorization;
            self->scope = std::make_unique<BackgroundScope>(executor, [](std::exception_ptr) {});
        }
        const Waiter waiter(self, authorization);
        if (is_own) self->scope->spawn(run(self, authorization));
        co_await authorization->ended.wait();
        if (is_cancellation(authorization->failure))
            throw Error(ErrorCode::auth, self->about("was left while a login was in progress."));
        if (authorization->failure) std::rethrow_exception(authorization->failure);
        // An authorization for another reason may not be what this request needs; if it is, the next one ends at once.
        const bool is_same = authorization->challenge.status == challenge.status &&
                             authorization->challenge.scope == challenge.scope;
        if (is_own || is_same) co_return;
    }
}

/// Does not throw: the result is for the waiting requests.
Task<> McpOAuthSession::State::run(StatePtr self, AuthorizationPtr authorization) {
    const Outcome<> outcome = co_await outcome_of(obtain(self, authorization));
    authorization->failure = outcome.failure();
    if (self->authorization == authorization) self->authorization.reset();
    authorization->ended.set();
}

// Authorization.

Task<> McpOAuthSession::State::load_once(StatePtr self) {
    if (self->is_loaded) co_return;
    self->credentials = co_await self->store->load();
    self->is_loaded = true;
}

Task<> McpOAuthSession::State::adopt(StatePtr self, McpCredentials issued) {
    self->credentials = issued;
    self->is_loaded = true;
    self->issued_at = self->runtime->clock->now();
    co_await self->store->save(std::move(issued));
    self->runtime->log.write(LogLevel::info, "mcp.authorized", {{"server", self->options.server}});
}

Task<> McpOAuthSession::State::obtain(StatePtr self, AuthorizationPtr authorization) {
    const McpChallenge challenge = authorization->challenge;
    std::shared_ptr<void> lock = co_await self->store->lock();
    // Another process may have obtained a token meanwhile.
    McpCredentials stored = co_await self->store->load();
    self->credentials = std::move(stored);
    self->is_loaded = true;
    const std::set<std::string> missing = scopes_of(challenge.scope);
    const bool is_other = !self->credentials.access_token.empty() &&
                          self->credentials.access_token != challenge.token;
    const bool is_enough =
        challenge.status != 403 || includes(scopes_of(self->credentials.scope), missing);
    if (!authorization->is_forced && is_other && is_enough) co_return;

    std::string preferred = self->options.issuer;
    if (preferred.empty()) preferred = self->credentials.issuer;
    OAuthDiscovery found = co_await detail::discover_oauth(self->http, challenge.resource_metadata,
                                                           std::move(preferred));
    self->check_issuer(found.server);
    if (!authorization->is_forced) self->check_progress(challenge, found);
    if (self->credentials.issuer != found.server.issuer) self->credentials = McpCredentials();
    if (!authorization->is_forced && challenge.status == 401) {
        const bool is_refreshed = co_await refresh(self, found);
        if (is_refreshed) co_return;
    }
    // A user may take long.
    lock.reset();
    std::string scope = scope_text(self->wanted_scopes(challenge, found));
    if (self->options.is_service) {
        co_await request_as_service(self, std::move(found), std::move(scope));
    } else {
        co_await log_in(self, authorization, std::move(found), std::move(scope));
    }
}

/// Throws if a configured client, whose authorization server is not configured, would be sent to another one than the first one.
void McpOAuthSession::State::check_issuer(const OAuthServer& server) const {
    const bool is_bound = options.issuer.empty() && !options.client.id.empty();
    if (!is_bound || credentials.issuer.empty() || credentials.issuer == server.issuer) return;
    throw Error(ErrorCode::auth, about("names another authorization server than before, " +
                                       server.issuer + " in place of " + credentials.issuer +
                                       "; configure the issuer if that is intended."));
}

/// Throws if another token would be refused too.
void McpOAuthSession::State::check_progress(const McpChallenge& challenge,
                                            const OAuthDiscovery& found) const {
    if (challenge.token.empty() || credentials.issuer != found.server.issuer) return;
    const std::set<std::string> missing = scopes_of(challenge.scope);
    if (challenge.status == 403 && includes(scopes_of(credentials.scope), missing)) {
        throw Error(ErrorCode::auth,
                    about("refuses the request although its authorization server has granted "
                          "what it asks for: '" +
                          detail::shown_mcp_text(challenge.scope) + "'."));
    }
    const bool is_new = issued_at && challenge.token == credentials.access_token &&
                        runtime->clock->now() - *issued_at < min_token_age;
    if (challenge.status == 401 && is_new) {
        throw Error(ErrorCode::auth, about("refuses the token that its authorization server has "
                                           "just issued; its operator must repair that."));
    }
}

/// Returns true if the refresh token led to a new token. A refresh token that is not valid any more is forgotten.
Task<bool> McpOAuthSession::State::refresh(StatePtr self, OAuthDiscovery found) {
    if (self->credentials.refresh_token.empty()) co_return false;
    OAuthForm grant;
    grant.emplace_back("grant_type", "refresh_token");
    grant.emplace_back("refresh_token", self->credentials.refresh_token);
    if (!found.resource.empty()) grant.emplace_back("resource", found.resource);
    const bool has_configured = self->may_use_configured_client(found.server);
    McpOAuthClient client = self->credentials.client;
    if (has_configured) client = self->options.client;
    if (client.id.empty() && found.server.reads_client_metadata)
        client.id = self->options.client_metadata_url;
    Task<McpCredentials> requesting =
        detail::request_tokens(self->http, found.server, std::move(client), std::move(grant),
                               self->credentials.scope, self->credentials);
    Outcome<McpCredentials> issued = co_await outcome_of(std::move(requesting));
    bool is_refused = false;
    try {
        issued.rethrow();
    } catch (const detail::OAuthRefused& refusal) {
        // Any other refusal, a limit of the rate for example, says nothing about the token.
        const std::string& error = refusal.error();
        if (error != "invalid_grant" && error != "invalid_client" && error != "unauthorized_client")
            throw;
        is_refused = true;
        self->credentials.refresh_token.clear();
        if (refusal.error() == "invalid_client") self->credentials.client = McpOAuthClient();
    }
    if (is_refused) {
        co_await self->store->save(self->credentials);
        co_return false;
    }
    co_await adopt(self, std::move(issued).value());
    co_return true;
}

/// The scopes of the challenge, or else those of the server; those that were granted before, so that more scopes do not replace
/// them; and the one for a refresh token.
std::set<std::string> McpOAuthSession::State::wanted_scopes(const McpChallenge& challenge,
                                                            const OAuthDiscovery& found) const {
    std::set<std::string> wanted = scopes_of(challenge.scope);
    if (wanted.empty()) {
        for (const std::string& one : found.scopes) wanted.merge(scopes_of(one));
    }
    wanted.merge(scopes_of(options.scope));
    if (challenge.status == 403) wanted.merge(scopes_of(credentials.scope));
    const bool offers_refresh =
        std::ranges::find(found.server.scopes, "offline_access") != found.server.scopes.end();
    if (offers_refresh && !options.is_service) wanted.insert("offline_access");
    return wanted;
}

bool McpOAuthSession::State::may_use_configured_client(const OAuthServer& server) const {
    if (options.client.id.empty()) return false;
    return options.issuer.empty() || options.issuer == server.issuer;
}

Task<> McpOAuthSession::State::request_as_service(StatePtr self, OAuthDiscovery found,
                                                  std::string scope) {
    if (!self->may_use_configured_client(found.server)) {
        throw Error(ErrorCode::auth,
                    self->about("has the authorization server " + found.server.issuer +
                                ", for which no client is configured."));
    }
    OAuthForm grant;
    grant.emplace_back("grant_type", "client_credentials");
    if (!scope.empty()) grant.emplace_back("scope", scope);
    if (!found.resource.empty()) grant.emplace_back("resource", found.resource);
    McpCredentials issued =
        co_await detail::request_tokens(self->http, found.server, self->options.client,
                                        std::move(grant), std::move(scope), McpCredentials());
    co_await adopt(self, std::move(issued));
}

/// Chooses who this client is: the configured client, the URL of its document, its registration, or a new registration.
Task<McpOAuthClient> McpOAuthSession::State::choose_client(StatePtr self, OAuthServer server,
                                                           std::string redirect_uri) {
    if (self->may_use_configured_client(server)) co_return self->options.client;
    if (!self->options.client.id.empty()) {
        throw Error(ErrorCode::auth, self->about("has the authorization server " + server.issuer +
                                                 ", but the configured client belongs to " +
                                                 self->options.issuer + "; it was not used."));
    }
    McpOAuthClient client;
    if (server.reads_client_metadata && !self->options.client_metadata_url.empty()) {
        client.id = self->options.client_metadata_url;
        co_return client;
    }
    client = self->credentials.client;
    const std::int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                                 self->runtime->clock->wall().time_since_epoch())
                                 .count();
    const bool is_valid = client.secret_expires_at == 0 || client.secret_expires_at > now;
    if (!client.id.empty() && is_valid && client.redirect_uri == redirect_uri) co_return client;
    if (server.registration_endpoint.empty()) {
        throw Error(ErrorCode::auth,
                    "The authorization server " + server.issuer +
                        " does not register clients itself; register one there, and configure "
                        "its client_id.");
    }
    Task<McpOAuthClient> registering = detail::register_client(
        self->http, std::move(server), self->options.client_name, std::move(redirect_uri));
    co_return co_await std::move(registering);
}

Task<> McpOAuthSession::State::log_in(StatePtr self, AuthorizationPtr authorization,
                                      OAuthDiscovery found, std::string scope) {
    const std::shared_ptr<McpLoginUi> ui = self->options.ui;
    if (!ui) {
        throw Error(ErrorCode::auth, self->about("needs a login; " + self->options.login_remedy));
    }
    const OAuthServer& server = found.server;
    if (!server.supports_pkce || server.authorization_endpoint.empty()) {
        throw Error(ErrorCode::protocol,
                    "The authorization server " + server.issuer +
                        " does not state that it protects logins of users (PKCE with S256); no "
                        "login was started.");
    }
    authorization->is_interactive = true;
    if (authorization->waiting == 0)
        throw Error(ErrorCode::auth, self->about("needs a login, but no request waits for it."));
    const bool is_configured = self->may_use_configured_client(server);
    std::string preferred = self->credentials.client.redirect_uri;
    if (is_configured) preferred = self->options.client.redirect_uri;
    McpLoginPage page;
    page.redirect_uri = co_await ui->redirect_uri(std::move(preferred));
    McpOAuthClient client = co_await choose_client(self, server, page.redirect_uri);
    page.state = detail::random_secret();
    const std::string verifier = detail::random_secret();
    OAuthForm query;
    query.emplace_back("response_type", "code");
    query.emplace_back("client_id", client.id);
    query.emplace_back("redirect_uri", page.redirect_uri);
    query.emplace_back("state", page.state);
    query.emplace_back("code_challenge", detail::pkce_challenge(verifier));
    query.emplace_back("code_challenge_method", "S256");
    if (!scope.empty()) query.emplace_back("scope", scope);
    if (!found.resource.empty()) query.emplace_back("resource", found.resource);
    if (scope.find("offline_access") != std::string::npos) query.emplace_back("prompt", "consent");
    const bool has_query = server.authorization_endpoint.find('?') != std::string::npos;
    page.url =
        server.authorization_endpoint + (has_query ? "&" : "?") + detail::encoded_form(query);
    Task<std::string> opening =
        with_timeout(*self->runtime->clock, self->options.login_timeout, ui->open(page), "login");
    const std::string redirect = co_await std::move(opening);
    const std::string code = detail::login_code(redirect, page, server);
    // The code is valid once: from here on the login ends by itself.
    authorization->is_interactive = false;
    OAuthForm grant;
    grant.emplace_back("grant_type", "authorization_code");
    grant.emplace_back("code", code);
    grant.emplace_back("redirect_uri", page.redirect_uri);
    grant.emplace_back("code_verifier", verifier);
    if (!found.resource.empty()) grant.emplace_back("resource", found.resource);
    McpCredentials base;
    if (!is_configured && !client.redirect_uri.empty()) base.client = client;
    McpCredentials issued = co_await detail::request_tokens(
        self->http, server, std::move(client), std::move(grant), std::move(scope), std::move(base));
    co_await adopt(self, std::move(issued));
}

// The interface.

McpOAuthSession::McpOAuthSession(McpOAuthOptions options, std::shared_ptr<const Runtime> runtime)
    : state_(std::make_shared<State>(std::move(options), std::move(runtime))) {}

McpOAuthSession::~McpOAuthSession() { state_->scope.reset(); }

Task<std::string> McpOAuthSession::token(std::string url) {
    const std::shared_ptr<State> state = state_;
    const auto target = detail::guarded_url(url);
    if (!target || target->origin != state->http->server_url().origin) co_return std::string();
    co_await State::load_once(state);
    co_return state->credentials.access_token;
}

Task<> McpOAuthSession::authorize(McpChallenge challenge) {
    const std::shared_ptr<State> state = state_;
    co_await State::wait_for(state, std::move(challenge), false);
}

Task<> McpOAuthSession::login() {
    const std::shared_ptr<State> state = state_;
    // A refusal states more than the well-known places: the scopes, for example.
    HttpRequest request("POST", state->options.url);
    request.headers.set("accept", "application/json, text/event-stream");
    request.headers.set("content-type", "application/json");
    request.body = rpc_text(rpc_request(1, "ping", JsonObject()));
    request.timeouts.first_byte = state->options.request_timeout;
    const std::shared_ptr<HttpTransport> transport = transport_of(*state->runtime);
    const HttpResponse response = co_await transport->send(std::move(request));
    McpChallenge challenge;
    if (response.status == 401) challenge = detail::read_mcp_challenge(401, response.headers);
    challenge.status = 401;
    co_await State::wait_for(state, std::move(challenge), true);
}

}  // namespace cubepi
