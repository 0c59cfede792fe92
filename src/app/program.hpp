#pragma once

#include <vector>

#include <bub/builtin/builtin.hpp>

#include "command_line.hpp"

namespace cubepi::app {

/// The whole program: main() of `cubepi` is this call. A program of your own gives the plugins that it adds; their commands
/// become commands of the program. Says what went wrong on stderr; gives the exit status.
int run_program(int argc, char** argv, AddPlugins plugins = {});

/// The commands of plugins, and in `problems` those that cannot be had: their name is taken by the program or by a plugin
/// that goes first, or is none.
struct PluginCommands {
    std::vector<bub::CliCommand> commands = {};
    std::vector<std::string> problems = {};
};
/// Asks the plugins of `framework`; what they throw is a problem as well.
PluginCommands plugin_commands(bub::Framework& framework);

/// Registers those of `plugins`; what they throw makes them broken, and nothing else (B16).
void add_plugins(bub::Framework& framework, const AddPlugins& plugins);
/// Registers the builtin plugin and those of `plugins`; one that cannot be had is broken, and the others are not (B16).
void load_plugins(bub::Framework& framework, const AddPlugins& plugins,
                  bub::BuiltinOptions options = {});

}  // namespace cubepi::app
