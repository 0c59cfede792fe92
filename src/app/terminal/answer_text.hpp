#pragma once

#include <string>

#include <cubepi/core/json.hpp>

#include "text_layout.hpp"

namespace cubepi::app {

// Texts of the tool ask_user, whose arguments and result are JSON. The texts are untrusted.

/// Returns the questions of a call, one a line with its options: "Which color? (red, teal)". Empty if the arguments have none.
std::string questions_text(const JsonObject& arguments);

/// Returns the answers, one a line with its question: "Which color? → teal". Empty if the details of the result have none, as those of
/// a request that was not answered.
std::string answers_text(const JsonObject& arguments, const Json& details);

/// Below the line of a call.
inline constexpr Frame answer_frame{"    ", "      "};

}  // namespace cubepi::app
