#pragma once

#include <memory>
#include <optional>
#include <string>

#include <cubepi/provider/provider.hpp>

#include "pipeline.hpp"

namespace cubepi::app {

// Turns on a copy of a session, in memory. They see the conversation, and the session does not get them.

/// The answer to a side question.
struct AsideAnswer {
    std::string text = {};
    Answer answer = {};
};

/// Asks the model of the session a question with the context of the session, also while a turn runs; what that turn has done so far is
/// not in the context. The request has the tools of the session, so that the provider's cache of its beginning is used, but calls are
/// refused. `pipeline` must outlive the task.
Task<AsideAnswer> ask_aside(Pipeline& pipeline, std::string question);

/// Returns the request that a prompt would cause now, without sending anything. Nothing if the turn ends before the model is called.
Task<std::optional<ModelRequest>> request_for(Pipeline& pipeline, std::string prompt);

}  // namespace cubepi::app
