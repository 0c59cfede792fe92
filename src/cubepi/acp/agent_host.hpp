#pragma once

#include <functional>
#include <memory>
#include <string>

#include <cubepi/acp/agent.hpp>
#include <cubepi/acp/questions.hpp>
#include <cubepi/agent/agent.hpp>

namespace cubepi {

/// The options of acp_agent_host().
struct AcpAgentHostOptions {
    /// Makes the agent of a session. With a store, use `session` as its thread. Its tools may use the files and terminals of `editor`.
    /// A channel that is missing is added, so that approvals and other questions reach the user of the editor. Required.
    std::function<AgentOptions(std::shared_ptr<AcpEditor> editor, const std::string& session,
                               const AcpSetup& setup)>
        make_agent = {};
    AcpAbilities abilities = {};  ///< without lists and saved sessions
    /// How approvals are shown; see AcpQuestions.
    AcpQuestions::Options questions = {};
};

/// Returns a host whose sessions are agents of this process, which end with the connection. A prompt during a run steers it.
std::shared_ptr<AcpHost> acp_agent_host(AcpAgentHostOptions options);

}  // namespace cubepi
