#include <array>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/http_channel.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/mcp/resource_server.hpp>

#include "../gateway/gateway_findings.hpp"
#include "../gateway/gateway_instance.hpp"
#include "../gateway/gateway_sessions.hpp"
#include "channel_kinds.hpp"
#include "http_mcp.hpp"
#include "http_openai.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t most_body_mb = 64;

constexpr std::array keys{
    ChannelKey{"listen", KeyType::address, "127.0.0.1:8642", "The address of the channel."},
    ChannelKey{"token_env", KeyType::variable, "CUBEPI_HTTP_TOKEN",
               "The variable that has the bearer token of the requests."},
    ChannelKey{"operators", KeyType::list, "",
               "Users who may answer every question and use comma commands.", "users"},
    ChannelKey{"max_body_mb", KeyType::number, "1", "The limit of a request, in MiB."},
    ChannelKey{"mcp", KeyType::flag, "false",
               "Offers the agent at /mcp of the same address to MCP clients."},
    ChannelKey{
        "mcp_issuer", KeyType::text, "",
        "The authorization server whose access tokens MCP clients send in place of the token."},
    ChannelKey{"mcp_url", KeyType::text, "",
               "The URL of MCP clients, for which these tokens are: https://HOST/mcp."},
    ChannelKey{"mcp_scopes", KeyType::list, "", "The scopes that each of these tokens must have.",
               "scopes"},
    ChannelKey{"openai", KeyType::flag, "false",
               "Offers the agent at /v1/responses and /v1/chat/completions of the same address to "
               "OpenAI's SDKs."},
    ChannelKey{"ag_ui", KeyType::flag, "false",
               "Offers the agent at /v1/ag-ui of the same address to AG-UI clients, which see its "
               "reasoning and the calls of its tools."},
    ChannelKey{"keys", KeyType::list, "",
               "Further tokens for clients of 'openai' and 'ag_ui', each of a user with sessions "
               "of its own: the name "
               "and the variable of each, \"ann=ANN_TOKEN\".",
               "names with variables"},
    ChannelKey{"key_turns", KeyType::number, "8",
               "The turns of such a token that are in progress at a time."},
    ChannelKey{"certificate", KeyType::file, "", "PEM files, for TLS."},
    ChannelKey{"key", KeyType::file}};

/// A further token: the name of its user, and the variable that has it.
struct NamedKey {
    std::string name = {};
    std::string variable = {};
};

/// Returns an empty name for a text that is not in the form NAME=VARIABLE.
NamedKey named_key(const std::string& text) {
    constexpr std::string_view letters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    constexpr std::size_t longest_name = 64;
    const std::size_t middle = text.find('=');
    NamedKey key;
    if (middle == 0 || middle > longest_name || middle + 1 >= text.size()) return key;
    key.name = text.substr(0, middle);
    key.variable = text.substr(middle + 1);
    const bool is_valid = key.name.find_first_not_of(std::string(letters) + "-.@") == text.npos &&
                          key.variable.find_first_not_of(letters) == text.npos;
    return is_valid ? key : NamedKey();
}

void check(const ChannelSettings& settings) {
    std::set<std::string> names;
    for (const std::string& text : settings.list("keys")) {
        const NamedKey key = named_key(text);
        if (key.name.empty() || !names.insert(key.name).second)
            settings.refuse("keys", "different names with variables, such as \"ann=ANN_TOKEN\"");
    }
    if (!settings.list("keys").empty() && !settings.flag("openai") && !settings.flag("ag_ui"))
        settings.refuse("keys", "set together with 'openai: true' or 'ag_ui: true'");

    const bool has_issuer = !settings.text("mcp_issuer").empty();
    if (has_issuer && (!settings.flag("mcp") || settings.text("mcp_url").empty()))
        settings.refuse("mcp_issuer", "set together with 'mcp: true' and 'mcp_url'");
    if (!has_issuer && !settings.list("mcp_scopes").empty())
        settings.refuse("mcp_scopes", "set together with 'mcp_issuer'");

    if (settings.number("max_body_mb") > most_body_mb)
        settings.refuse("max_body_mb", "at most " + std::to_string(most_body_mb));
    if (settings.text("certificate").empty() != settings.text("key").empty())
        settings.refuse("key", "set together with the certificate");
}

std::string token_command(const ChannelSettings& settings) {
    return "export " + settings.text("token_env") + "=$(openssl rand -hex 16)";
}

/// Returns the tokens of OpenAI's protocols and AG-UI: that of the channel first. Throws Error(invalid_argument) for one that is missing or not
/// its own.
std::vector<OpenAIKey> openai_keys(const ChannelSettings& settings, const std::string& token) {
    std::vector<OpenAIKey> keys(1);
    keys.front().token = token;
    for (const std::string& text : settings.list("keys")) {
        const NamedKey named = named_key(text);
        const char* const value = std::getenv(named.variable.c_str());
        OpenAIKey key;
        key.name = named.name;
        key.token = value ? value : "";
        key.most_turns = settings.number("key_turns");
        std::string problem = key.token.empty() ? named.variable + " is not set"
                                                : token_problem(named.variable, key.token);
        for (const OpenAIKey& other : keys)
            if (problem.empty() && other.token == key.token)
                problem = named.variable + " has the token of another key";
        if (!problem.empty()) {
            throw Error(ErrorCode::invalid_argument,
                        "channel http: the key '" + named.name + "': " + problem +
                            ".\n  To make a token: openssl rand -hex 16");
        }
        keys.push_back(std::move(key));
    }
    return keys;
}

/// Returns the routes of MCP clients that have access tokens of an issuer, and those of the metadata, which clients without one read.
std::vector<bub::HttpInterface> oauth_interfaces(const ChannelSettings& settings,
                                                 const GatewayInstance& gateway, bool is_local) {
    McpResourceServerOptions options;
    options.issuer = settings.text("mcp_issuer");
    options.resource = settings.text("mcp_url");
    options.scopes = settings.list("mcp_scopes");
    const std::shared_ptr<McpResourceServer> resource =
        gateway.servers().token_checks(std::move(options));
    bub::HttpInterface mcp;
    mcp.name = "mcp";
    mcp.authentication = resource->authentication();
    mcp.add = [resource, is_local](HttpRoutes& routes, bub::HttpChannel& channel) {
        GatewayMcpOptions options;
        options.local_hosts_only = is_local;
        options.user = resource->client();
        add_mcp_interface(routes, channel, std::move(options));
    };
    bub::HttpInterface metadata;
    metadata.name = "mcp-metadata";
    metadata.add = [resource](HttpRoutes& routes, bub::HttpChannel&) {
        resource->add_metadata_route(routes);
    };
    std::vector<bub::HttpInterface> both;
    both.push_back(std::move(mcp));
    both.push_back(std::move(metadata));
    return both;
}

std::shared_ptr<bub::Channel> make(const ChannelSettings& settings, const GatewayInstance& gateway,
                                   bub::ProvideChannelsCall& call) {
    bub::HttpChannelOptions options;
    options.server = gateway.server(settings.path_of("listen"));
    options.max_requests = max_waiting_requests();
    options.operators = settings.list("operators");
    options.sessions = std::make_shared<GatewaySessions>(gateway);
    options.failure_text = gateway.failure_text();
    options.max_body_bytes = settings.number("max_body_mb") << 20U;
    options.token = settings.secret("token", "token", "To make one: " + token_command(settings));
    const std::string problem = token_problem(settings.text("token_env"), options.token);
    if (!problem.empty())
        throw Error(ErrorCode::invalid_argument,
                    "channel http: " + problem + ".\n  To make one: " + token_command(settings));
    // Names that a proxy sends are checked by the server.
    const bool is_local = gateway.settings().allowed_hosts.empty();
    if (settings.flag("mcp") && settings.text("mcp_issuer").empty()) {
        options.add_routes = [is_local](HttpRoutes& routes, bub::HttpChannel& channel) {
            GatewayMcpOptions mcp;
            mcp.local_hosts_only = is_local;
            add_mcp_interface(routes, channel, std::move(mcp));
        };
    } else if (settings.flag("mcp")) {
        options.interfaces = oauth_interfaces(settings, gateway, is_local);
    }
    OpenAIRoutes offered;
    offered.openai = settings.flag("openai");
    offered.ag_ui = settings.flag("ag_ui");
    if (offered.openai || offered.ag_ui) {
        std::vector<OpenAIKey> keys = openai_keys(settings, options.token);
        bub::HttpInterface interface;
        interface.name = "http-keys";
        interface.authentication = openai_authentication(keys);
        interface.add = [offered, keys = std::move(keys)](HttpRoutes& routes,
                                                          bub::HttpChannel& channel) {
            add_openai_interface(routes, channel, offered, keys);
        };
        options.interfaces.push_back(std::move(interface));
    }
    return std::make_shared<bub::HttpChannel>(std::move(options), call.handler);
}

void find(const ChannelSettings& settings, const Environment& environment, Findings& findings) {
    const std::string variable = settings.text("token_env");
    const auto token = environment.find(variable);
    const std::string problem =
        token == environment.end() ? "" : token_problem(variable, token->second);
    if (!problem.empty()) findings.problem("channel http: " + problem, token_command(settings));
}

}  // namespace

const ChannelKind http_kind{"http", "A channel for programs.", keys, check, make, find};

}  // namespace cubepi::app
