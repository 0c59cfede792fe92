#include "toolbox.hpp"

#include <filesystem>
#include <string>
#include <utility>

#include <cubepi/hitl/ask_user_tool.hpp>
#include <cubepi/hitl/checkpointed_channel.hpp>
#include <cubepi/workspace/standard_tools.hpp>

#include "../config/endpoint.hpp"
#include "../config/paths.hpp"
#include "../terminal/terminal_stream.hpp"

namespace cubepi::app {

Toolbox make_toolbox(const ConversationFlags& flags, const ConfigFile& config,
                     const SessionParts& parts, std::shared_ptr<FileSpillSink> spill,
                     std::shared_ptr<HitlChannel> channel) {
    Toolbox box;
    box.spill = std::move(spill);
    box.channel = std::move(channel);
    WorkspacePolicy policy = WorkspacePolicy().also_read(box.spill->directory());
    policy.environment = command_environment(config, flags.model);
    box.workspace =
        std::make_shared<LocalWorkspace>(std::filesystem::current_path(), std::move(policy));
    box.previews = std::make_shared<FilePreviews>(box.workspace);
    ToolApproval::Options approval;
    approval.previews = box.previews;
    approval.write_target = [place = box.workspace](const std::string& path) {
        return place->write_target(path);
    };
    approval.allow_all = flags.yes;
    box.approval_options = approval;
    box.suspends = flags.suspend && !parts.prompter && !flags.yes;
    box.approval = std::make_shared<ToolApproval>(policy_of(config.allow), box.channel,
                                                  parts.prompter, std::move(approval));
    if (parts.prompter) {
        auto save_rule = [](const std::string& rule) { save_allow_rule(config_path(), rule); };
        box.host = std::make_shared<QuestionHost>(box.channel, parts.prompter, parts.style,
                                                  box.approval, std::move(save_rule));
    }
    return box;
}

namespace {

/// Adds approvals whose requests are stored with the session of this agent.
void ask_later(AgentOptions& options, const Toolbox& box) {
    auto channel = std::make_shared<CheckpointedChannel>(options.checkpointer, options.thread_id);
    ToolApproval::Options approval = box.approval_options;
    approval.can_wait = true;
    options.middleware.emplace_back(std::make_shared<ToolApproval>(box.approval->rules(), channel,
                                                                   nullptr, std::move(approval)));
    options.tools.push_back(ask_user_tool(channel));
    options.channel = std::move(channel);
}

}  // namespace

void add_tools(AgentOptions& options, const Toolbox& box, bool stores_requests) {
    StandardToolOptions tools;
    tools.files.previews = box.previews;
    tools.shell.spill = box.spill;
    tools.shell.on_survivors = [](const std::string& text) {
        err() << "cubepi: " << for_terminal("a command's processes " + text) << "\n";
    };
    tools.fetch.follow_to_other_host = [approval = box.approval](const std::string& url) {
        return approval->allows_fetch(url);
    };
    for (AgentTool& tool : standard_tools(box.workspace, std::move(tools)))
        options.tools.push_back(std::move(tool));
    options.spill = box.spill;
    if (stores_requests && options.checkpointer) return ask_later(options, box);
    if (box.host) options.tools.push_back(ask_user_tool(box.channel));
    options.channel = box.channel;
    options.middleware.emplace_back(box.approval);
}

}  // namespace cubepi::app
