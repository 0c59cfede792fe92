#pragma once

#include "command_tree.hpp"

// The groups of commands that add_commands() adds, each in a file of its own.
namespace cubepi::app {

void add_talking_commands(CLI::App& app, CommandLine& line);
void add_set_up_commands(CLI::App& app, CommandLine& line);
void add_session_commands(CLI::App& app, CommandLine& line);
void add_inbox_commands(CLI::App& app, CommandLine& line);
void add_tape_commands(CLI::App& app, CommandLine& line);
void add_trace_commands(CLI::App& app, CommandLine& line);
void add_db_commands(CLI::App& app, CommandLine& line);
void add_gateway_commands(CLI::App& app, CommandLine& line);
void add_help_commands(CLI::App& app, CommandLine& line);
/// Hidden commands: the demo starts itself with one, the build makes the man page with the other.
void add_internal_commands(CLI::App& app, CommandLine& line);

}  // namespace cubepi::app
