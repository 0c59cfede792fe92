#include <cubepi/mcp/auth/login_response.hpp>

#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/mcp/protocol.hpp>

namespace cubepi::detail {

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
