#pragma once

#include <memory>
#include <string>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// Asks the user what a server wants to know (`elicitation/create` in form mode), and returns the result for the server: `action`
/// and `content`. The text of the question states that the server asks. A form that the user cancels, or does not answer in time,
/// is cancelled at the server; forms that are too large are refused. Other modes, such as opening a URL, are declined without a
/// question.
Task<JsonObject> ask_mcp_elicitation(std::shared_ptr<HitlChannel> channel, std::string server,
                                     JsonObject params);

namespace detail {

/// Returns one question for each property of the form. Throws Error(validation) for a form that cannot be shown.
std::vector<HitlQuestion> elicitation_questions(std::string_view server, const JsonObject& params);
/// Returns the content of the form for the answers: converted to the types of the schema, with its defaults. Throws
/// Error(bad_answer) that names the property of an answer that does not fit.
JsonObject elicitation_content(const JsonObject& params, const JsonObject& answers);

}  // namespace detail

}  // namespace cubepi
