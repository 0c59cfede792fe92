#pragma once

#include <functional>
#include <memory>
#include <string>

#include <cubepi/agent/agent.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include "approval.hpp"
#include "command_line.hpp"
#include "config/model_choice.hpp"
#include "terminal/line_editor.hpp"
#include "terminal/style.hpp"

namespace cubepi::app {

/// What a conversation is made of: an agent with the tools of this folder, and its store.
struct Session {
    std::unique_ptr<Agent> agent = {};
    std::shared_ptr<SQLiteCheckpointer> store = {};  ///< null: nothing is kept
    std::string name = {};
    ModelChoice model = {};
};

/// What a session needs from around it.
struct SessionParts {
    std::shared_ptr<LineEditor> editor = {};  ///< null: nobody can be asked
    Style style = {};
    std::function<void()> before_question = {};
};

/// Builds the conversation that the flags ask for. Throws Error: no model, no such session, storage.
Task<Session> open_session(ConversationFlags flags, SessionParts parts);

}  // namespace cubepi::app
