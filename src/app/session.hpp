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
#include "config/session_model.hpp"
#include "terminal/style.hpp"
#include "turn_questions.hpp"

namespace cubepi::app {

/// What a conversation is made of. The tools, and what was allowed for the session, are shared by all its turns.
struct SessionPlan {
    ModelChoice model = {};                      ///< at the start; `models` knows the current one
    std::shared_ptr<SessionModel> models = {};   ///< null: `model` alone
    std::string name = {};                       ///< empty: temporary, or not named yet
    std::string session_id = {};                 ///< as the pipeline calls it
    std::shared_ptr<bub::TapeStore> tapes = {};  ///< in memory if the session is temporary
    /// Creates the session once its first prompt is known, and returns its name. Null: it has one, or is temporary.
    std::function<Task<std::string>(std::string first_prompt)> create = {};
    std::string system_prompt = {};
    std::vector<std::string> notes = {};            ///< for the person, before the first prompt
    std::shared_ptr<TurnQuestions> questions = {};  ///< as in SessionParts
    /// Adds tools, approvals and limits to a turn's agent.
    std::function<void(AgentOptions& options)> equip = {};
};

/// What a session needs from around it.
struct SessionParts {
    std::shared_ptr<TurnQuestions> questions = {};  ///< null: no user can be asked
    Style style = {};
};

/// The line that names the command which resumes the session; empty if it is temporary or nothing was said.
std::string resume_hint(const SessionPlan& plan);

/// What the flags ask for. Throws Error: no model, no such session, storage.
Task<SessionPlan> plan_session(ConversationFlags flags, SessionParts parts);

}  // namespace cubepi::app
