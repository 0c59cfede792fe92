#pragma once

#include <memory>

#include <cubepi/agent/agent.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/spill.hpp>

#include "../command_line.hpp"
#include "../config/config_file.hpp"
#include "question_host.hpp"
#include "session.hpp"
#include "tool_approval.hpp"

namespace cubepi::app {

/// The tools of the current directory and their approval; shared by the agents of a conversation.
struct Toolbox {
    std::shared_ptr<FileSpillSink> spill = {};
    std::shared_ptr<LocalWorkspace> workspace = {};
    std::shared_ptr<FilePreviews> previews = {};
    std::shared_ptr<HitlChannel> channel = {};
    std::shared_ptr<ToolApproval> approval = {};
    std::shared_ptr<QuestionHost> host = {};  ///< null: the user cannot be asked
    bool suspends = false;  ///< requests are stored with the session, and the run is suspended
    ToolApproval::Options approval_options = {};
};

/// Makes the tools. `channel` takes the requests of the conversation.
Toolbox make_toolbox(const ConversationFlags& flags, const ConfigFile& config,
                     const SessionParts& parts, std::shared_ptr<FileSpillSink> spill,
                     std::shared_ptr<HitlChannel> channel);

/// Adds the tools and their approval to the options of an agent, and the tool ask_user if the user can be asked.
/// `stores_requests`: the requests are stored with the session of the agent.
void add_tools(AgentOptions& options, const Toolbox& box, bool stores_requests);

}  // namespace cubepi::app
