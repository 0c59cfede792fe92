#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <bub/framework.hpp>

#include "scenario.hpp"

namespace conformance {

/// A failure defined by a scenario.
class HookError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The way hooks of a run return their values: immediately, or from a coroutine.
enum class HookForm { plain, task };

/// The records of one run of a turn scenario.
struct TurnLog {
    std::stop_source abort;
    std::string workspace;
    JsonArray trace;
    JsonArray errors;
    Json state;  ///< as the last traced hook left it; null: none got it
    HookForm form = HookForm::plain;
};

/// README-turns.md, 2.3: {"error": TEXT}, and "details" where there are any.
JsonObject error_form(const std::exception_ptr& error);
/// A state as 2.7 shows it.
JsonObject state_form(const JsonObject& values, const std::string& workspace);

/// A plugin with the hooks of a scenario. Throws BadFile for members that the page does not name.
bub::Plugin scripted_plugin(const JsonObject& spec, std::shared_ptr<TurnLog> log);
/// The runner's own plugin, which fills `errors`.
bub::Plugin observer_plugin(std::shared_ptr<TurnLog> log);
/// A stream of the items of `events`.
bub::EventStream scripted_stream(const JsonArray& items, std::shared_ptr<TurnLog> log);

/// Requests the turn's cancellation and suspends forever.
bub::Task<> cancel_turn(std::shared_ptr<TurnLog> log);

}  // namespace conformance
