#include "gateway_findings.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <utility>

#include <bub/builtin/tools/tool_names.hpp>
#include <bub/close_matches.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/workspace/tool_rules.hpp>

#include "../channels/channel_kinds.hpp"
#include "../config/tool_names.hpp"
#include "gateway_command.hpp"
#include "gateway_instance.hpp"
#include "gateway_messages.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t shortest_token = 16;

std::string list_of(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return list.empty() ? "none" : list;
}

void check_listener(Findings& findings, const std::string& what, const ListenAddress& address,
                    bool encrypted) {
    if (address.is_local()) return;
    if (encrypted) {
        findings.plain(what + " is reachable from other machines at " + address.text());
        return;
    }
    findings.problem(
        what + " is reachable from other machines at " + address.text() + ", without encryption",
        "Listen on 127.0.0.1 behind a proxy that ends TLS.");
}

bool is_configured(const ChannelSettings& channel, const std::string& key) {
    return channel.has(key) && !channel.text(key).empty();
}

void check_key(Findings& findings, const ChannelSettings& channel, const ChannelKey& key,
               const Environment& environment) {
    const std::string name = "channel " + std::string(channel.kind().name);
    const std::string_view mapping =
        key.path.substr(0, key.path.size() - key.name().size());  // "webhook."
    if (key.type == KeyType::variable) {
        const std::string variable = channel.text(key.path);
        const std::string own(key.path.substr(0, key.path.rfind("_env")));
        if (is_configured(channel, own) || environment.contains(variable)) return;
        findings.problem(
            name + ": " + variable + " is not set",
            "export " + variable + "=..., or write it to the gateway's environment file");
    }
    if (key.type == KeyType::address)
        check_listener(
            findings,
            mapping.empty() ? name : channel.path_of(mapping.substr(0, mapping.size() - 1)),
            channel.address(key.path),
            is_configured(channel, std::string(mapping) + "certificate"));
}

/// Names no text and no secret of the settings.
void check_channel(Findings& findings, const ChannelSettings& channel,
                   const Environment& environment) {
    std::string place;
    std::string lists;
    for (const ChannelKey& key : channel.kind().keys) {
        if (key.type == KeyType::address && key.is_in({}))
            place = " at " + channel.address(key.path).text();
        if (key.type == KeyType::list && channel.has(key.path))
            lists += "; " + std::string(key.path) + ": " + list_of(channel.list(key.path));
    }
    findings.good("channel " + std::string(channel.kind().name) + place + lists);
    for (const ChannelKey& key : channel.kind().keys) {
        if (channel.has(key.path)) check_key(findings, channel, key, environment);
    }
    if (channel.kind().find) channel.kind().find(channel, environment, findings);
}

void check_admin(Findings& findings, const AdminSettings& admin, const Environment& environment) {
    bool has_token = false;
    for (const std::string& variable : {admin.viewer_token_env, admin.operator_token_env}) {
        if (variable.empty()) continue;
        has_token = true;
        const auto token = environment.find(variable);
        const std::string problem = token == environment.end()
                                        ? variable + " is not set"
                                        : token_problem(variable, token->second);
        if (!problem.empty())
            findings.problem("gateway.admin: " + problem,
                             "export " + variable + "=$(openssl rand -hex 16)");
    }
    if (!has_token) {
        findings.problem("gateway.admin has no token, so that it is not served",
                         "Set viewer_token_env or operator_token_env.");
        return;
    }
    findings.good("gateway.admin at " + admin.listen.text());
    check_listener(findings, "gateway.admin", admin.listen, false);
}

std::string senders_of(const SenderRule& rule) {
    std::string who = rule.user.empty() ? "every user" : "user " + rule.user;
    if (!rule.chat.empty()) who += " in chat " + rule.chat;
    return who + (rule.channel.empty() ? " of every channel" : " of " + rule.channel);
}

/// A rule that allows commands or writes to senders that are not named.
bool is_open(const SenderRule& rule) {
    return !rule.allow.empty() && rule.user.empty() && rule.chat.empty();
}

/// Returns why the rule allows nothing; empty if it allows something, or is not a rule.
std::string problem_of(const std::string& allowed) {
    try {
        return ApprovalRule::parse(allowed).problem();
    } catch (const Error&) {
        return {};
    }
}

void add_useless_rules(const SenderRule& rule, Findings& findings) {
    for (const std::string& allowed : rule.allow) {
        const std::string problem = problem_of(allowed);
        if (!problem.empty())
            findings.problem("the rule " + allowed + " allows nothing: " + problem,
                             "Correct gateway.rules in the configuration file.");
    }
}

void add_unknown_tool(const std::string& tool, const std::string& effect, Findings& findings) {
    // Those of MCP servers are known when their server has answered.
    if (tool.starts_with("mcp__")) return;
    const std::vector<std::string>& names = known_tools();
    if (std::find(names.begin(), names.end(), tool) != names.end()) return;
    const std::string ours = bub::detail::our_tool_name(tool);
    std::vector<std::string> meant = bub::close_matches(ours, names);
    if (std::find(names.begin(), names.end(), ours) != names.end()) meant = {ours};
    findings.problem("a rule " + effect + " " + tool + ", but the gateway has no such tool",
                     meant.empty() ? "The tools are " + list_of(names) + "."
                                   : "Write " + meant.front() + " in gateway.rules.");
}

void add_unknown_tools(const SenderRule& rule, Findings& findings) {
    for (const std::string& allowed : rule.allow) {
        const std::string tool = allowed.substr(0, allowed.find(':'));
        if (tool.size() < allowed.size()) add_unknown_tool(tool, "allows", findings);
    }
    for (const std::string& refused : rule.refuse) add_unknown_tool(refused, "refuses", findings);
}

/// Reports a channel that this program does not have: a rule or an approver with it matches nothing.
void add_unknown_channel(const std::string& channel, const std::string& key, Findings& findings) {
    std::vector<std::string> names{std::string(ConsoleChannel::channel_name)};
    for (const ChannelKind* kind : channel_kinds()) names.emplace_back(kind->name);
    if (channel.empty() || std::find(names.begin(), names.end(), channel) != names.end()) return;
    const std::vector<std::string> meant = bub::close_matches(channel, names);
    findings.problem(key + " names the channel " + channel + ", which the program does not have",
                     (meant.empty() ? "The channels are " + list_of(names)
                                    : "Write " + meant.front() + " there") +
                         ", unless a plugin provides " + channel + ".");
}

void check_rules(Findings& findings, const GatewaySettings& settings) {
    findings.plain(
        "tools that write, run commands or use the network are asked about, unless a "
        "rule decides");
    for (const SenderRule& rule : settings.rules) {
        std::string text = senders_of(rule) + ": ";
        if (!rule.allow.empty()) text += "may use " + list_of(rule.allow) + " unasked";
        if (!rule.refuse.empty())
            text += (rule.allow.empty() ? "" : "; ") + ("never " + list_of(rule.refuse));
        if (is_open(rule)) {
            findings.problem(text,
                             "Name a user or a chat in this rule of gateway.rules, unless "
                             "you trust all of them.");
        } else {
            findings.plain(text);
        }
        add_useless_rules(rule, findings);
        add_unknown_tools(rule, findings);
        add_unknown_channel(rule.channel, "gateway.rules", findings);
    }
    std::vector<std::string> approvers;
    for (const Approver& one : settings.approvers) {
        approvers.push_back(one.user + " of " + one.channel);
        add_unknown_channel(one.channel, "gateway.approvers", findings);
    }
    findings.plain("questions are answered by operators" +
                   (approvers.empty() ? std::string() : ", " + list_of(approvers)) +
                   "; those of the model also by the user who is asked");
    try {
        (void)sender_policy(settings);
    } catch (const Error& error) {
        findings.problem(error.what(), "Correct the rule.");
    }
}

}  // namespace

std::string token_problem(const std::string& variable, const std::string& token) {
    if (token.size() >= shortest_token) return {};
    return "the token in " + variable + " has fewer than " + std::to_string(shortest_token) +
           " characters, so that it can be guessed";
}

std::vector<GatewayFinding> gateway_findings(const GatewaySettings& settings,
                                             const Environment& environment) {
    Findings findings;
    if (settings.configured.empty()) {
        findings.plain("no channel is configured; to set one up: " + onboarding_commands());
        return findings.take();
    }
    for (const ChannelSettings& channel : settings.configured)
        check_channel(findings, channel, environment);
    if (settings.admin) check_admin(findings, *settings.admin, environment);
    if (settings.console) {
        findings.good("web console at " + settings.console->text());
        check_listener(findings, "gateway.console", *settings.console, false);
    }
    if (settings.status) {
        findings.good("status port at " + settings.status->text());
        check_listener(findings, "the status port", *settings.status, false);
    }
    if (settings.shared_workspace)
        findings.problem("all sessions share the workspace " + settings.root.string(),
                         "Remove gateway.shared_workspace, unless all senders may see each "
                         "other's files.");
    check_rules(findings, settings);
    return findings.take();
}

std::vector<std::string> secret_variables(const ChannelSettings& channel) {
    std::vector<std::string> names;
    for (const ChannelKey& key : channel.kind().keys) {
        if (!channel.has(key.path)) continue;
        if (key.type == KeyType::variable) names.push_back(channel.text(key.path));
        if (key.path != "keys") continue;
        // NAME=VARIABLE
        for (const std::string& one : channel.list(key.path))
            names.push_back(one.substr(one.find('=') + 1));
    }
    return names;
}

std::vector<std::string> secret_variables(const GatewaySettings& settings) {
    std::vector<std::string> names;
    for (const ChannelSettings& channel : settings.configured) {
        for (std::string& name : secret_variables(channel)) names.push_back(std::move(name));
    }
    if (settings.admin) {
        names.push_back(settings.admin->viewer_token_env);
        names.push_back(settings.admin->operator_token_env);
    }
    std::erase(names, std::string());
    return names;
}

Environment gateway_environment(const GatewaySettings& settings) {
    const std::vector<std::string> names = secret_variables(settings);
    Environment environment;
    std::ifstream file(gateway_environment_path());
    for (std::string line; std::getline(file, line);) {
        const std::size_t equals = line.find('=');
        if (equals == std::string::npos || equals + 1 == line.size()) continue;
        const std::string name = line.substr(0, equals);
        if (std::find(names.begin(), names.end(), name) != names.end())
            environment[name] = line.substr(equals + 1);
    }
    for (const std::string& name : names) {
        const char* const value = std::getenv(name.c_str());
        if (value && *value) environment[name] = value;
    }
    return environment;
}

}  // namespace cubepi::app
