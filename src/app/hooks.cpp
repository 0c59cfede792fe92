#include <iostream>
#include <string>

#include <bub/framework.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "failure.hpp"
#include "program.hpp"
#include "terminal/style.hpp"

// `cubepi hooks`: what each plugin implements, in the order in which a turn asks, and which are broken and why (B16).

namespace cubepi::app {

namespace {

void print_plugins(const bub::Framework& framework) {
    std::cout << "plugins, in order of registration:\n";
    for (const bub::PluginStatus& plugin : framework.plugin_status()) {
        std::cout << "  " << printable(plugin.name) << ": ";
        if (!plugin.ok) {
            std::cout << "broken: " << printable(plugin.reason) << '\n';
            continue;
        }
        std::cout << plugin.hooks.size() << (plugin.hooks.size() == 1 ? " hook\n" : " hooks\n");
    }
}

void print_hooks(const bub::Framework& framework) {
    std::cout << "\nhooks, and whom a turn asks, first to last:\n";
    for (const bub::HookUse& use : framework.hook_report()) {
        std::cout << "  " << use.hook << ':';
        for (std::size_t i = 0; i < use.plugins.size(); ++i) {
            std::cout << (i == 0 ? " " : ", ") << printable(use.plugins[i]);
        }
        std::cout << '\n';
    }
}

void print_commands(const PluginCommands& found) {
    if (found.commands.empty() && found.problems.empty()) return;
    std::cout << "\ncommands of plugins:\n";
    for (const bub::CliCommand& command : found.commands) {
        std::cout << "  cubepi " << printable(command.name) << ": " << printable(command.plugin);
        if (!command.description.empty()) std::cout << ", " << printable(command.description);
        std::cout << '\n';
    }
    for (const std::string& problem : found.problems)
        std::cout << "  not used: " << printable(problem) << '\n';
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
