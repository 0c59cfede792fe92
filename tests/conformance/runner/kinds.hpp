#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/tracing/tracer.hpp>

#include "scenario.hpp"

namespace conformance {

// Scenarios of agents.

struct PlayOptions {
    std::string keep = {};  ///< not empty: a SQLite file, which stays
    /// Connects a tracer with each agent until the next one is made, and with each sub-agent until it has ended.
    std::function<cubepi::TraceAttachment(cubepi::Agent&)> attach = {};
    std::optional<cubepi::BoundModel> model = {};  ///< instead of that of the script
};

/// Runs a scenario and returns its result (README.md, section 3). Throws Unsupported where the product has no API for it.
JsonObject play(const Scenario& scenario, PlayOptions options = {});

// The other kinds of files. The checks return the differences, in the form of compare.hpp.

/// `file` is the JSON file; the database is in the same directory.
std::vector<std::string> check_database(const std::filesystem::path& file, const Json& content);
/// Continues from a database written by CubePi (README-fixtures.md, section 1.2): prompts on every thread (and
/// abandons what waits), checks refusals, forks; or, with `answers`, answers what waits and finishes these runs. `threads` and
/// `found` outlive the task.
cubepi::Task<> continue_from(std::shared_ptr<cubepi::Checkpointer> store, const JsonObject& threads,
                             bool answers, std::vector<std::string>& found);
std::vector<std::string> check_wire(const Json& content);
std::vector<std::string> check_turn(const Json& content);
std::vector<std::string> check_tape(const Json& content);
std::vector<std::string> check_trace(const Json& content);

/// The result of a turn scenario (README-turns.md, 2.7).
Json play_turn(const Json& content);
/// The result of a tape scenario (3.5).
Json play_tape(const Json& content);

/// Plays a scenario, or that of a trace case, with a tracer that writes files below `directory`.
void play_trace(const Json& content, const std::string& directory);

}  // namespace conformance
