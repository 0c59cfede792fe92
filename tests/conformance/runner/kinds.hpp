#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <cubepi/core/task.hpp>

#include "scenario.hpp"

namespace conformance {

// Checks of the kinds of files other than agent scenarios: return the differences, in the form of compare.hpp.

/// `file` is the JSON file; the database is in the same directory.
std::vector<std::string> check_database(const std::filesystem::path& file, const Json& content);
/// Continues from a database written by CubePi (README-fixtures.md, section 1.2): prompts on every thread (and
/// abandons what waits), checks refusals, forks; or, with `answers`, answers what waits and finishes these runs. `threads` and
/// `found` outlive the task.
cubepi::Task<> continue_from(std::filesystem::path file, const JsonObject& threads, bool answers,
                             std::vector<std::string>& found);
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
