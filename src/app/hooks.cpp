#include <string>

#include <bub/framework.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "failure.hpp"
#include "program.hpp"
#include "terminal/style.hpp"
#include "terminal/terminal_stream.hpp"

// `cubepi hooks`: what each plugin implements, in the order in which a turn asks, and which are broken and why (B16).

namespace cubepi::app {

namespace {

void print_plugins(const bub::Framework& framework) {
    out() << "plugins, in order of registration:\n";
    for (const bub::PluginStatus& plugin : framework.plugin_status()) {
        out() << "  " << for_terminal(plugin.name) << ": ";
        if (!plugin.ok) {
            out() << "broken: " << for_terminal(plugin.reason) << "\n";
            continue;
        }
        out() << plugin.hooks.size()
              << (plugin.hooks.size() == 1 ? TerminalView(" hook\n") : TerminalView(" hooks\n"));
    }
}

void print_hooks(const bub::Framework& framework) {
    out() << "\nhooks, with their plugins in calling order:\n";
    for (const bub::HookUse& use : framework.hook_report()) {
        out() << "  " << for_terminal(use.hook) << ":";
        for (std::size_t i = 0; i < use.plugins.size(); ++i) {
            out() << (i == 0 ? TerminalView(" ") : TerminalView(", "))
                  << for_terminal(use.plugins[i]);
        }
        out() << "\n";
    }
}

void print_commands(const PluginCommands& found) {
    if (found.commands.empty() && found.problems.empty()) return;
    out() << "\ncommands of plugins:\n";
    for (const bub::CliCommand& command : found.commands) {
        out() << "  cubepi " << for_terminal(command.name) << ": " << for_terminal(command.plugin);
        if (!command.description.empty()) out() << ", " << for_terminal(command.description);
        out() << "\n";
    }
    for (const std::string& problem : found.problems)
        out() << "  not used: " << for_terminal(problem) << "\n";
}

}  // namespace

int hooks_command(const CommandLine& line) {
    bub::Framework framework;
    load_plugins(framework, line.plugins);
    print_plugins(framework);
    print_hooks(framework);
    print_commands(plugin_commands(framework));
    for (const bub::PluginStatus& plugin : framework.plugin_status()) {
        if (!plugin.ok) return exit_failed;
    }
    return exit_ok;
}

}  // namespace cubepi::app
