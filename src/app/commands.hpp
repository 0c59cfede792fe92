#pragma once

#include "command_line.hpp"

namespace cubepi::app {

// One function per command; each gives the exit status. They throw what the commands could not handle.

int run_command(const CommandLine& line);
int chat_command(const CommandLine& line);
int demo_command(const CommandLine& line);
int demo_step_command(const CommandLine& line);
int onboard_command(const CommandLine& line);
int models_command(const CommandLine& line);
int doctor_command(const CommandLine& line);
int hooks_command(const CommandLine& line);
int sessions_command(const CommandLine& line);
int tape_command(const CommandLine& line);
int completion_command(const CommandLine& line);
/// The request of a completion script; `commands` are those of plugins.
int complete_command(const CommandLine& line, const std::vector<bub::CliCommand>& commands);
/// Prints cubepi.1.
int man_page_command();

}  // namespace cubepi::app
