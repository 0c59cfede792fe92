#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <cubepi/agent/agent.hpp>

#include "approval.hpp"
#include "command_line.hpp"
#include "config/model_choice.hpp"
#include "terminal/asker.hpp"
#include "terminal/style.hpp"

namespace cubepi::app {

/// What a conversation is made of. The tools, and what was allowed for the session, are shared by all its turns.
struct SessionPlan {
    ModelChoice model = {};
    std::string name = {};                       ///< empty: nothing is kept
    std::string session_id = {};                 ///< as the pipeline calls it
    std::shared_ptr<bub::TapeStore> tapes = {};  ///< in memory when nothing is kept
    std::string system_prompt = {};
    std::vector<std::string> notes = {};  ///< for the person, before the first prompt
    /// Adds tools, approvals and limits to a turn's agent.
    std::function<void(AgentOptions& options)> equip = {};
};

/// What a session needs from around it.
struct SessionParts {
    std::shared_ptr<Asker> asker = {};  ///< null: nobody can be asked
    Style style = {};
    std::function<void()> before_question = {};
};

/// What the flags ask for. Throws Error: no model, no such session, storage.
Task<SessionPlan> plan_session(ConversationFlags flags, SessionParts parts);

}  // namespace cubepi::app
