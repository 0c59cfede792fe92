#include "served_directory.hpp"

#include <memory>
#include <optional>
#include <utility>

#include <bub/envelope.hpp>
#include <bub/tape/support/encoding.hpp>
#include <cubepi/agent/tool.hpp>

#include "../config/paths.hpp"
#include "../conversation/tool_approval.hpp"
#include "console_channel.hpp"

namespace cubepi::app {

std::filesystem::path ServedDirectory::socket() const {
    return served_directory_files(path).string() + ".sock";
}

std::filesystem::path ServedDirectory::deliveries() const { return served_directory_files(path); }

Project ServedDirectory::project(const ConfigFile& config) const {
    return find_project(path, TrustSettings{config.trust, trusts_files});
}

GatewaySettings settings_for(const ServedDirectory& directory, GatewaySettings configured) {
    // The configured channels are not served, but commands must not see their secrets.
    configured.channels = {std::string(ConsoleChannel::channel_name)};
    configured.root = directory.path;
    configured.shared_workspace = true;
    configured.has_terminal_sessions = true;
    // Each thread would have connections to the MCP servers of its own.
    configured.threads = 1;
    configured.show_error_details = true;
    configured.question_timeout = std::chrono::seconds(0);
    configured.rules.clear();
    configured.approvers.clear();
    configured.console = ListenAddress{"127.0.0.1", directory.port};
    configured.status.reset();
    configured.listen.reset();
    configured.base_path.clear();
    configured.allowed_hosts.clear();
    configured.trusted_proxies.clear();
    return configured;
}

std::string tape_in(const std::filesystem::path& directory, std::string_view session_id) {
    return bub::tape_name(directory, session_id);
}

bool is_tape_in(const std::filesystem::path& directory, std::string_view tape) {
    // The first digest of a tape's name is that of the directory.
    const std::string any = tape_in(directory, "");
    return tape.starts_with(any.substr(0, any.find("__") + 2));
}

bub::TurnQuestions owner_policy(const ServedDirectory& directory, const ConfigFile& config,
                                const ProjectSettings& project,
                                const CommandConfinement& confinement,
                                std::vector<McpServerSettings> servers) {
    bub::SenderRules rules;
    rules.allow = ToolRules(directory.path.string());
    const ToolRules allowed = rules_of(config, project);
    for (const ApprovalRule& rule : allowed.rules()) rules.allow.allow(rule);
    if (config.memory) rules.allow.allow(ApprovalRule::parse("memory: *"));
    rules.allow.confine_commands(confinement);
    add_restrictions(rules.allow, config);
    add_restrictions(rules.allow, project);
    const auto known = std::make_shared<const std::vector<McpServerSettings>>(std::move(servers));
    rules.definition = [known](const AgentTool& tool) {
        const std::optional<std::string> server = server_identity(*known, tool.name.str());
        return server ? mcp_tool_rule(tool, *server) : std::nullopt;
    };
    bub::TurnQuestions questions;
    questions.rules = [rules = std::move(rules)](const bub::Envelope&) { return rules; };
    // Operators may answer everything, and no other user writes.
    questions.may_answer = [](const bub::Envelope&, const HitlRequest&) { return false; };
    return questions;
}

}  // namespace cubepi::app
