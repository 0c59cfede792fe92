#pragma once

#include <string>
#include <vector>

// Commands for attacks on rules: ordinary ones, and those that abuse a rule for one of them.

namespace cubepi::attack {

using Texts = std::vector<std::string>;

/// Commands that a user may have answered with "always".
const Texts& ordinary_commands();

/// Rules as earlier versions saved them: a program and the words after it.
const Texts& earlier_rules();

/// Commands that abuse a rule for one of those commands.
void add_git_attacks(Texts& all);
void add_build_attacks(Texts& all);
void add_tool_attacks(Texts& all);
void add_shell_attacks(Texts& all);

}  // namespace cubepi::attack
