#include <array>
#include <memory>
#include <string>
#include <utility>

#include <bub/channel/http_channel.hpp>
#include <cubepi/core/error.hpp>

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
    ChannelKey{"openai", KeyType::flag, "false",
               "Offers the agent at /v1/responses and /v1/chat/completions of the same address to "
               "OpenAI's SDKs."},
    ChannelKey{"certificate", KeyType::file, "", "PEM files, for TLS."},
    ChannelKey{"key", KeyType::file}};

void check(const ChannelSettings& settings) {
    if (settings.number("max_body_mb") > most_body_mb)
        settings.refuse("max_body_mb", "at most " + std::to_string(most_body_mb));
    if (settings.text("certificate").empty() != settings.text("key").empty())
        settings.refuse("key", "set together with the certificate");
}

std::string token_command(const ChannelSettings& settings) {
    return "export " + settings.text("token_env") + "=$(openssl rand -hex 16)";
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
    options.add_routes = [is_local, token = options.token, has_mcp = settings.flag("mcp"),
                          has_openai = settings.flag("openai")](HttpRoutes& routes,
                                                                bub::HttpChannel& channel) {
        if (has_mcp) add_mcp_interface(routes, channel, is_local);
        if (has_openai) add_openai_interface(routes, channel, token);
    };
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
