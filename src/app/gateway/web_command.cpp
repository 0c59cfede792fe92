#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

#include "../config/config_file.hpp"
#include "../config/paths.hpp"
#include "../process.hpp"
#include "../program.hpp"
#include "../project/open_project.hpp"
#include "../terminal/terminal_stream.hpp"
#include "control_server.hpp"
#include "gateway.hpp"
#include "gateway_command.hpp"
#include "session_place.hpp"

// `cubepi web`: a gateway for the user of one directory.

namespace cubepi::app {

namespace {

ServedDirectory served_directory(const CommandLine& line) {
    ServedDirectory directory;
    directory.path = std::filesystem::canonical(std::filesystem::current_path());
    directory.port = line.gateway.port;
    directory.trusts_files = line.conversation.trust;
    directory.viewer = line.gateway.viewer;
    directory.user = line.gateway.name.empty() ? local_user() : line.gateway.name;
    return directory;
}

/// Says which files of the directory are not loaded: the command asks nothing.
Task<> note_project(TrustSettings trust) {
    const std::shared_ptr<Prompter> no_prompter;
    const OpenedProject opened = co_await open_project(std::move(trust), no_prompter);
    const ProjectSettings settings = settings_of(opened.project);
    for (const auto* texts : {&opened.notes, &opened.warnings, &settings.problems})
        for (const std::string& text : *texts) err() << for_terminal(text) << "\n";
}

Task<int> serve(CommandLine line, ServedDirectory directory) {
    allow_many_files();
    const ConfigFile config = read_config(config_path());
    TrustSettings trust{config.trust, directory.trusts_files};
    co_await note_project(std::move(trust));
    Gateway gateway(co_await this_executor, std::move(line), std::move(directory));
    Task<int> running = gateway.run();
    co_return co_await std::move(running);
}

int print_another_link(const ServedDirectory& directory, const CommandLine& line) {
    err() << "Another cubepi web serves " << for_terminal(directory.path.string())
          << "; this is a link to it.\n";
    return print_console_link(directory.socket(), line.gateway);
}

}  // namespace

int web_command(const CommandLine& line) {
    const ServedDirectory directory = served_directory(line);
    if (has_listener(directory.socket())) return print_another_link(directory, line);
    try {
        return run(serve(line, directory));
    } catch (const Error& error) {
        // Another one has started meanwhile.
        const bool is_late =
            error.code() == ErrorCode::busy || error.code() == ErrorCode::storage_locked;
        if (!is_late || !has_listener(directory.socket())) throw;
    }
    return print_another_link(directory, line);
}

}  // namespace cubepi::app
