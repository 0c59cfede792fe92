#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/mcp/oauth_session.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_transport.hpp>

// An MCP server with its authorization server, in memory, for tests.

namespace cubepi::mcp_test {

using Form = std::map<std::string, std::string>;

inline Form read_form(std::string_view text) {
    Form form;
    while (!text.empty()) {
        const std::string_view one = text.substr(0, text.find('&'));
        text.remove_prefix(one.size() == text.size() ? one.size() : one.size() + 1);
        const std::size_t equals = one.find('=');
        form[*detail::percent_decoded(one.substr(0, equals))] =
            *detail::percent_decoded(one.substr(equals + 1));
    }
    return form;
}

/// A user who allows everything, unless a test changes the redirect.
class FakeUser final : public McpLoginUi {
public:
    Task<std::string> redirect_uri(std::string preferred) override {
        preferred_ = preferred;
        co_return preferred.empty() ? "http://127.0.0.1:7777/callback" : preferred;
    }
    Task<std::string> open(McpLoginPage page) override {
        pages.push_back(page);
        if (waits) co_await allowed.wait();
        Form answer = {{"code", "c1"}, {"state", page.state}};
        if (change) change(answer);
        std::string url = page.redirect_uri;
        for (const auto& [name, value] : answer) {
            url += url.find('?') == std::string::npos ? '?' : '&';
            url += name + "=" + detail::percent_encoded(value);
        }
        co_return url;
    }
    Form query() const {
        const std::string& url = pages.back().url;
        return read_form(std::string_view(url).substr(url.find('?') + 1));
    }

    std::vector<McpLoginPage> pages;
    std::function<void(Form& answer)> change;
    bool waits = false;
    AsyncEvent allowed;
    std::string preferred_;
};

/// Counts the tokens that it issues: "t1", "t2".
struct FakeAuthorization {
    std::string issuer = "https://auth.example";
    std::string resource = "https://mcp.example/mcp";
    /// Members that replace those of the authorization server's metadata; null removes one.
    JsonObject metadata = {};
    bool issues_refresh_tokens = false;
    /// Replaces the reply to a URL.
    std::map<std::string, std::function<testing::MemoryResponse(const HttpRequest&)>> replies;
    std::vector<std::string> own_addresses = {"93.184.216.34"};  ///< of the MCP server
    std::vector<std::string> addresses = {"93.184.216.34"};
    std::vector<HttpRequest> requests;
    std::vector<Form> token_requests;
    int registrations = 0;

    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    std::shared_ptr<testing::MemoryTransport> transport =
        std::make_shared<testing::MemoryTransport>(
            [this](const HttpRequest& request) { return respond(request); }, clock);
    std::shared_ptr<const Runtime> runtime =
        std::make_shared<const Runtime>(Runtime().with_clock(clock).with_transport(transport));
    std::shared_ptr<FakeUser> user = std::make_shared<FakeUser>();
    std::shared_ptr<McpCredentialStore> store = mcp_memory_credentials();
    McpOAuthOptions options;

    FakeAuthorization() {
        options.server = "web";
        options.url = "https://mcp.example/mcp";
        options.ui = user;
        options.store = store;
        options.login_remedy = "run: cubepi mcp login web";
        options.resolve = [this](const std::string& host) {
            return host == "mcp.example" ? own_addresses : addresses;
        };
    }

    std::shared_ptr<McpOAuthSession> session() const {
        return std::make_shared<McpOAuthSession>(options, runtime);
    }

    static testing::MemoryResponse json(int status, const JsonObject& body) {
        return testing::MemoryResponse(status, json_text(body))
            .with_header("content-type", "application/json");
    }

    JsonObject described() const {
        JsonObject body;
        body["issuer"] = issuer;
        body["authorization_endpoint"] = issuer + "/authorize";
        body["token_endpoint"] = issuer + "/token";
        body["registration_endpoint"] = issuer + "/register";
        body["code_challenge_methods_supported"] = JsonArray{Json("S256")};
        body["token_endpoint_auth_methods_supported"] = JsonArray{Json("none")};
        for (const auto& member : metadata) {
            if (member.value().is_null()) {
                body.erase(member.key());
            } else {
                body[member.key()] = member.value();
            }
        }
        return body;
    }

    testing::MemoryResponse respond(const HttpRequest& request) {
        requests.push_back(request);
        const auto replaced = replies.find(request.url);
        if (replaced != replies.end()) return replaced->second(request);
        if (request.url == "https://mcp.example/.well-known/oauth-protected-resource/mcp") {
            JsonObject body;
            body["resource"] = resource;
            body["authorization_servers"] = JsonArray{Json(issuer)};
            return json(200, body);
        }
        if (request.url == issuer + "/.well-known/oauth-authorization-server")
            return json(200, described());
        if (request.url == issuer + "/register") {
            ++registrations;
            JsonObject body;
            body["client_id"] = issuer + "-client";
            return json(201, body);
        }
        if (request.url == issuer + "/token") return issue(request);
        return testing::MemoryResponse(404);
    }

    testing::MemoryResponse issue(const HttpRequest& request) {
        token_requests.push_back(read_form(request.body));
        JsonObject body;
        body["access_token"] = "t" + std::to_string(token_requests.size());
        body["token_type"] = "Bearer";
        body["expires_in"] = 3600;
        if (issues_refresh_tokens)
            body["refresh_token"] = "r" + std::to_string(token_requests.size());
        return json(200, body);
    }

    bool was_requested(std::string_view prefix) const {
        for (const HttpRequest& request : requests) {
            if (request.url.starts_with(prefix)) return true;
        }
        return false;
    }
};

inline McpChallenge refused_with(int status, std::string token = {}, std::string scope = {}) {
    McpChallenge challenge;
    challenge.status = status;
    challenge.token = std::move(token);
    challenge.scope = std::move(scope);
    if (status == 403) challenge.error = "insufficient_scope";
    return challenge;
}

}  // namespace cubepi::mcp_test
