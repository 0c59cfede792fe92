#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/tape/tape_store.hpp>
#include <cubepi/agent/agent.hpp>

#include "approval.hpp"
#include "command_line.hpp"
#include "config/model_choice.hpp"
#include "config/session_model.hpp"
#include "terminal/style.hpp"
#include "turn_questions.hpp"

namespace cubepi::app {

/// A saved session that is resumed.
struct ResumedSession {
    std::string title = {};  ///< the beginning of its first prompt
    double used_at = 0;      ///< Unix seconds
    std::int64_t messages = 0;
};

/// "“add a flag” · 12 messages · last used 2 days ago"
std::string resumed_text(const ResumedSession& session, std::chrono::system_clock::time_point now);

/// What a conversation is made of. The tools, and what was allowed for the session, are shared by all its turns.
struct SessionPlan {
    ModelChoice model = {};                      ///< at the start; `models` knows the current one
    std::shared_ptr<SessionModel> models = {};   ///< null: `model` alone
    std::string name = {};                       ///< empty: temporary, or not named yet
    std::string session_id = {};                 ///< as the pipeline calls it
    std::shared_ptr<bub::TapeStore> tapes = {};  ///< in memory if the session is temporary
    /// Creates the session once its first prompt is known, and returns its name. Null: it has one, or is temporary.
    std::function<Task<std::string>(std::string first_prompt)> create = {};
    std::shared_ptr<const void> open = {};       ///< `sessions delete` of other processes refuses
    std::optional<ResumedSession> resumed = {};  ///< absent: a new session
    std::string system_prompt = {};
    std::vector<std::string> notes = {};            ///< shown to the user before the first prompt
    bub::LoadedFiles files = {};                    ///< of the project; the notes say so
    std::shared_ptr<TurnQuestions> questions = {};  ///< as in SessionParts
    /// Adds tools, approvals and limits to a turn's agent.
    EnvironmentPolicy environment = {};  ///< of commands
    std::function<void(AgentOptions& options)> equip = {};
    /// Asks before a comma command destroys data or runs pasted text; null: the user cannot be asked.
    std::function<Task<bool>(bub::CommandQuestion question)> confirm_command = {};
    std::shared_ptr<const Approval> approval = {};  ///< null: no tools
};

/// Where a session is kept.
struct SessionPlace {
    std::string name = {};
    std::string session_id = {};
    std::shared_ptr<bub::TapeStore> tapes = {};
    std::function<Task<std::string>(std::string first_prompt)> create = {};
};

/// The place of a new session: temporary if the one of `plan` is, else saved once its first prompt is known.
SessionPlace next_session(const SessionPlan& plan);

/// Marks the tape as open in this process, so that `sessions delete` of another process refuses. Where no file can be
/// written the conversation works without the mark: null.
Task<std::shared_ptr<const void>> mark_open(std::shared_ptr<bub::TapeStore> tapes,
                                            std::string tape);

/// The tape of the session.
std::string tape_of(const SessionPlan& plan);

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
