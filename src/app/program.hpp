#pragma once

#include <vector>

#include <bub/builtin/builtin.hpp>

#include "command_line.hpp"

namespace cubepi::app {

/// The whole program: main() of `cubepi` is this call. Other programs pass plugins to add; their commands become
/// commands of the program. Reports errors on stderr; returns the exit status.
int run_program(int argc, char** argv, AddPlugins plugins = {});

/// The commands of plugins; `problems` has those that are not available: their name is used by the program or by an
/// earlier plugin, or is empty.
struct PluginCommands {
    std::vector<bub::CliCommand> commands = {};
    std::vector<std::string> problems = {};
};
/// Collects the commands of the plugins of `framework`; an exception becomes a problem.
PluginCommands plugin_commands(bub::Framework& framework);

/// Registers those of `plugins`; an exception only marks them as failed (B16).
void add_plugins(bub::Framework& framework, const AddPlugins& plugins);
/// Registers the builtin plugin and those of `plugins`; a plugin that fails does not affect the others (B16).
void load_plugins(bub::Framework& framework, const AddPlugins& plugins,
                  bub::BuiltinOptions options = {});

}  // namespace cubepi::app
