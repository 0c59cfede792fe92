#pragma once

#include <functional>
#include <memory>
#include <string>

#include <cubepi/agent/agent.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include "approval.hpp"
#include "command_line.hpp"
#include "config/model_choice.hpp"
#include "terminal/asker.hpp"
#include "terminal/style.hpp"

namespace cubepi::app {

/// What a conversation is made of: an agent with the tools of this folder, and its store.
struct Session {
    std::unique_ptr<Agent> agent = {};
    std::shared_ptr<SQLiteCheckpointer> store = {};  ///< null: nothing is kept
    std::string name = {};
    ModelChoice model = {};
};

/// What a conversation's agents are made of. The tools, and what was allowed for the session, are shared by them all.
struct SessionPlan {
    ModelChoice model = {};
    std::shared_ptr<SQLiteCheckpointer> store = {};  ///< null: nothing is kept
    std::string name = {};
    std::string system_prompt = {};
    /// Adds tools, approvals, limits and the store. May be called for one agent after the other.
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
/// The same with an agent of its own.
Task<Session> open_session(ConversationFlags flags, SessionParts parts);

}  // namespace cubepi::app
