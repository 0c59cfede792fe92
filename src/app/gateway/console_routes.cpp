#include "console_routes.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "console_page.hpp"
#include "gateway_http.hpp"
#include "live_answers.hpp"

namespace cubepi::app {

namespace {

/// Nothing of the page is inline, nothing comes from another host, and no text becomes HTML: with `require-trusted-types-for`, a browser
/// refuses assignments to innerHTML.
constexpr const char* content_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

/// The secret of a link is in a header, so that a stranger cannot occupy the route with bodies that never end.
constexpr const char* link_header = "x-console-link";

/// A page that another part of the program has made, with text of a model in it, runs as if it came from another host: it cannot use the
/// login. Its own policy says which script may run (D220).
constexpr const char* sandbox_policy = "sandbox allow-scripts; frame-ancestors 'none'";

/// Of a message with its files in base64.
constexpr std::size_t max_message_bytes = std::size_t{12} << 20U;

HttpServerResponse secured(HttpServerResponse response) {
    HttpHeaders& headers = response.headers;
    headers.set("content-security-policy", content_policy);
    headers.set("x-content-type-options", "nosniff");
    headers.set("x-frame-options", "DENY");
    headers.set("referrer-policy", "no-referrer");
    headers.set("cross-origin-opener-policy", "same-origin");
    headers.set("cross-origin-resource-policy", "same-origin");
    headers.set("cache-control", "no-store");
    return response;
}

Task<HttpServerResponse> page_file(std::string_view content, const char* type) {
    HttpServerResponse response(200, std::string(content), type);
    co_return secured(std::move(response));
}

/// The address without '/' at its end: relative, because a proxy may have removed a prefix.
Task<HttpServerResponse> redirect() {
    HttpServerResponse response(308, "", "text/plain");
    response.headers.set("location", "console/");
    co_return secured(std::move(response));
}

/// Cookies of a host are sent to all of its ports, so that gateways on one host need names of their own.
std::string cookie_name(std::uint16_t port) { return "cubepi_console_" + std::to_string(port); }

std::string_view cookie_in(const HttpServerRequest& request, std::string_view name) {
    std::string_view all = request.headers.get("cookie");
    while (!all.empty()) {
        std::string_view one = all.substr(0, all.find(';'));
        all.remove_prefix(std::min(one.size() + 1, all.size()));
        one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
        if (one.starts_with(name) && one.substr(name.size()).starts_with('='))
            return one.substr(name.size() + 1);
    }
    return {};
}

/// Without `Path`, a browser sends the cookie to the directory of the request, also if a proxy has removed a prefix from its path.
std::string session_cookie(const HttpServerRequest& request, const std::string& name,
                           const std::string& secret) {
    std::string cookie = name + "=" + secret + "; HttpOnly; SameSite=Strict";
    if (request.scheme == "https") cookie += "; Secure";
    if (secret.empty()) cookie += "; Max-Age=0";
    return cookie;
}

/// A browser omits the default port of the scheme.
std::string own_origin(const HttpServerRequest& request) {
    std::string origin = request.scheme + "://" + request.host;
    const std::string_view port = request.scheme == "https" ? ":443" : ":80";
    if (request.host.ends_with(port)) origin.resize(origin.size() - port.size());
    std::transform(origin.begin(), origin.end(), origin.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return origin;
}

std::optional<HttpServerResponse> refuse(unsigned status, std::string_view text) {
    return secured(HttpServerResponse::error(status, text));
}

/// Refuses a request that changes something unless its page is one of this server.
std::optional<HttpServerResponse> refuse_foreign(const HttpServerRequest& request) {
    const std::string_view origin = request.headers.get("origin");
    const std::string own = own_origin(request);
    if (origin == own) return std::nullopt;
    return refuse(403, "the origin of the request must be " + own +
                           "; behind a proxy, set gateway.trusted_proxies, and let it pass the "
                           "host and the scheme on");
}

std::optional<HttpServerResponse> refuse_cross_site(const HttpServerRequest& request) {
    const std::string_view site = request.headers.get("sec-fetch-site");
    if (site.empty() || site == "same-origin" || site == "none") return std::nullopt;
    return refuse(403, "the console does not answer pages of other sites");
}

JsonObject session_json(const ConsoleSession& session) {
    return JsonObject{{"id", session.id},
                      {"role", session.role == GatewayRole::operator_ ? "operator" : "viewer"},
                      {"name", session.name},
                      {"csrf", session.csrf_token}};
}

/// The login of browsers. Shared by the handlers, which may outlive the routes.
struct Login {
    std::shared_ptr<ConsoleSessions> sessions;
    std::string cookie;

    std::optional<ConsoleSession> session_of(const HttpServerRequest& request) const {
        return sessions->find(cookie_in(request, cookie));
    }
    std::optional<HttpServerResponse> refuse_stranger(const HttpServerRequest& request) const {
        if (auto foreign = refuse_cross_site(request)) return foreign;
        const std::optional<ConsoleSession> session = session_of(request);
        if (!session)
            return refuse(401,
                          "not logged in; for a link that logs in, run: cubepi gateway console");
        if (request.method == "GET" || request.method == "HEAD") return std::nullopt;
        if (auto foreign = refuse_foreign(request)) return foreign;
        if (equal_secrets(request.headers.get("x-csrf-token"), session->csrf_token))
            return std::nullopt;
        return refuse(403, "the CSRF token is missing or wrong; load the page again");
    }
};

/// A login that cannot be recorded ends with the process.
Task<> record_login(std::shared_ptr<const Login> login) {
    Task<> saving = login->sessions->save();
    const Outcome<> saved = co_await outcome_of(std::move(saving));
    if (saved.cancelled()) saved.rethrow();
    if (!saved)
        Runtime::standard()->log.write(LogLevel::warning, "console.logins_save_failed",
                                       {{"error", logged_error(saved.failure())}});
}

Task<HttpServerResponse> log_in(std::shared_ptr<const Login> login, HttpServerRequest request) {
    const std::optional<std::string> secret =
        login->sessions->log_in(request.headers.get(link_header));
    if (!secret)
        co_return secured(HttpServerResponse::error(
            401,
            "the link was used before, or has expired; for another one, run: cubepi gateway "
            "console"));
    // Another session of this browser ends.
    login->sessions->log_out(cookie_in(request, login->cookie));
    const std::optional<ConsoleSession> session = login->sessions->find(*secret);
    co_await record_login(login);
    HttpServerResponse response = HttpServerResponse::json(200, session_json(*session));
    response.headers.set("set-cookie", session_cookie(request, login->cookie, *secret));
    co_return secured(std::move(response));
}

Task<HttpServerResponse> show_session(std::shared_ptr<const Login> login,
                                      HttpServerRequest request) {
    const std::optional<ConsoleSession> session = login->session_of(request);
    if (!session) co_return secured(HttpServerResponse::error(401, "not logged in"));
    co_return secured(HttpServerResponse::json(200, session_json(*session)));
}

Task<HttpServerResponse> log_out(std::shared_ptr<const Login> login, HttpServerRequest request) {
    login->sessions->log_out(cookie_in(request, login->cookie));
    Task<> saving = login->sessions->save();
    const Outcome<> saved = co_await outcome_of(std::move(saving));
    if (saved.cancelled()) saved.rethrow();
    // It would be valid again after a restart.
    HttpServerResponse response = saved ? HttpServerResponse::json(200, JsonObject{{"ok", true}})
                                        : failure_response(saved.failure());
    response.headers.set("set-cookie", session_cookie(request, login->cookie, ""));
    co_return secured(std::move(response));
}

/// The stream ends with the login.
Task<HttpServerResponse> show_events(GatewayApi* api, std::shared_ptr<const Login> login,
                                     HttpServerRequest request) {
    const Executor executor = co_await this_executor;
    const std::optional<ConsoleSession> session = login->session_of(request);
    if (!session) co_return secured(HttpServerResponse::error(401, "not logged in"));
    std::optional<ConsoleStream> stream =
        login->sessions->open_stream(cookie_in(request, login->cookie));
    if (!stream)
        co_return secured(HttpServerResponse::error(
            429, "this login reads too many streams; close other windows of the console"));
    LiveReader reader;
    reader.ended = stream->ended;
    reader.counted = std::move(stream->login);
    reader.is_valid = [sessions = login->sessions, id = session->id] { return sessions->has(id); };
    HttpServerResponse response =
        live_events(api->live_answers(), request, executor, std::move(reader));
    co_return secured(std::move(response));
}

HttpRouteOptions page_options() {
    HttpRouteOptions options;
    options.max_body_bytes = 0;
    options.max_requests = 64;
    return options;
}

/// A link needs no session.
HttpRouteOptions login_options() {
    HttpRouteOptions options;
    options.max_body_bytes = 0;
    options.max_requests = 16;
    options.authentication =
        [](const HttpServerRequest& request) -> std::optional<HttpServerResponse> {
        if (auto foreign = refuse_cross_site(request)) return foreign;
        return refuse_foreign(request);
    };
    return options;
}

HttpRouteOptions session_options(const std::shared_ptr<const Login>& login) {
    HttpRouteOptions options;
    options.max_body_bytes = 64 * 1024;
    options.max_requests = 64;
    options.authentication = [login](const HttpServerRequest& request) {
        return login->refuse_stranger(request);
    };
    return options;
}

/// Streams do not take the place of other requests.
HttpRouteOptions event_options(const std::shared_ptr<const Login>& login) {
    HttpRouteOptions options = session_options(login);
    options.max_body_bytes = 0;
    options.max_requests = 128;
    return options;
}

/// Messages may have files, whose body is not received from a viewer.
HttpRouteOptions message_options(const std::shared_ptr<const Login>& login) {
    HttpRouteOptions options;
    options.max_body_bytes = max_message_bytes;
    options.max_requests = 4;
    options.authentication =
        [login](const HttpServerRequest& request) -> std::optional<HttpServerResponse> {
        if (auto stranger = login->refuse_stranger(request)) return stranger;
        const std::optional<ConsoleSession> session = login->session_of(request);
        if (session && session->role == GatewayRole::operator_) return std::nullopt;
        return refuse(403, "messages are written by operators");
    };
    return options;
}

/// Returns the page of an operation's result. A download does not run at all.
Task<HttpServerResponse> made_page(GatewayApi* api, std::string_view name, GatewayCaller caller,
                                   HttpServerRequest request, bool is_download) {
    JsonObject arguments{{"id", request.parameter("id")}};
    Task<JsonObject> performing =
        perform(api, &gateway_operation(name), std::move(caller), std::move(arguments));
    Outcome<JsonObject> done = co_await outcome_of(std::move(performing));
    if (done.cancelled()) done.rethrow();
    if (!done) co_return secured(failure_response(done.failure()));
    HttpServerResponse response(200, detail::text_member(done.value(), "html"),
                                "text/html; charset=utf-8");
    response = secured(std::move(response));
    response.headers.set("content-security-policy", sandbox_policy);
    if (is_download)
        response.headers.set("content-disposition", "attachment; filename=\"session.html\"");
    co_return response;
}

}  // namespace

std::string console_link_path(const std::string& secret) { return "/console/#login=" + secret; }

std::vector<std::unique_ptr<HttpRoutes>> console_routes(HttpServer& server, GatewayApi& api,
                                                        std::shared_ptr<ConsoleSessions> sessions) {
    const auto login =
        std::make_shared<const Login>(Login{std::move(sessions), cookie_name(server.port())});

    auto page = std::make_unique<HttpRoutes>(server, "console", page_options());
    page->add("GET", "/console", [](HttpServerRequest) { return redirect(); });
    for (const ConsoleFile& file : console_files()) {
        page->add("GET", "/console/" + std::string(file.name),
                  [&file](HttpServerRequest) { return page_file(file.content, file.type); });
    }

    auto entrance = std::make_unique<HttpRoutes>(server, "console-login", login_options());
    entrance->add("POST", "/console/login",
                  [login](HttpServerRequest request) { return log_in(login, std::move(request)); });

    auto session = std::make_unique<HttpRoutes>(server, "console-session", session_options(login));
    session->add("GET", "/console/session", [login](HttpServerRequest request) {
        return show_session(login, std::move(request));
    });
    session->add("POST", "/console/logout",
                 [login](HttpServerRequest request) { return log_out(login, std::move(request)); });
    CallerOf caller_of = [login](const HttpServerRequest& request) {
        const ConsoleSession session = login->session_of(request).value_or(ConsoleSession());
        return GatewayCaller{session.role, session.name, request.client, session.id};
    };
    const auto add_page = [&](const char* path, std::string_view name, bool is_download) {
        session->add("GET", path, [&api, caller_of, name, is_download](HttpServerRequest request) {
            GatewayCaller caller = caller_of(request);
            return made_page(&api, name, std::move(caller), std::move(request), is_download);
        });
    };
    add_page("/console/pages/sessions/{id}", "export", true);
    add_page("/console/pages/traces/{id}", "trace", false);
    OperationOptions operations;
    operations.prefix = "/console";
    // A link for another name would make records that blame another user, and outlive the session.
    operations.omitted = "console";
    operations.secure = [](HttpServerResponse response) { return secured(std::move(response)); };
    operations.takes_files = false;
    add_operations(*session, api, caller_of, operations);
    add_file_routes(*session, api, operations.prefix, operations.secure);
    auto messages =
        std::make_unique<HttpRoutes>(server, "console-messages", message_options(login));
    operations.takes_files = true;
    add_operations(*messages, api, caller_of, operations);

    auto events = std::make_unique<HttpRoutes>(server, "console-events", event_options(login));
    for (const std::string_view path : event_paths) {
        events->add("GET", "/console" + std::string(path),
                    [&api, login](HttpServerRequest request) {
                        return show_events(&api, login, std::move(request));
                    });
    }

    std::vector<std::unique_ptr<HttpRoutes>> all;
    all.push_back(std::move(page));
    all.push_back(std::move(entrance));
    all.push_back(std::move(session));
    all.push_back(std::move(messages));
    all.push_back(std::move(events));
    return all;
}

}  // namespace cubepi::app
