#include <iostream>
#include <string>

#include <bub/builtin/builtin.hpp>
#include <bub/framework.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "failure.hpp"
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

}  // namespace

int hooks_command(const CommandLine&) {
    bub::Framework framework;
    framework.load("builtin", [](bub::Framework& owner) {
        return bub::builtin_plugin(owner, bub::BuiltinOptions());
    });
    print_plugins(framework);
    print_hooks(framework);
    for (const bub::PluginStatus& plugin : framework.plugin_status()) {
        if (!plugin.ok) return exit_failed;
    }
    return exit_ok;
}

}  // namespace cubepi::app
