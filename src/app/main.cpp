#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "commands.hpp"
#include "exit_code.hpp"
#include "failure.hpp"
#include "terminal/style.hpp"
#include "version.hpp"

namespace {

int dispatch(const cubepi::app::CommandLine& line) {
    using namespace cubepi::app;
    switch (line.verb) {
        case Verb::run: return run_command(line);
        case Verb::chat: return chat_command(line);
        case Verb::demo: return demo_command(line);
        case Verb::demo_step: return demo_step_command(line);
        case Verb::models: return models_command(line);
        case Verb::doctor: return doctor_command(line);
        case Verb::hooks: return hooks_command(line);
        case Verb::sessions_list:
        case Verb::sessions_delete: return sessions_command(line);
        case Verb::tape: return tape_command(line);
        case Verb::completion: return completion_command(line);
        case Verb::none: break;
    }
    return exit_usage;
}

/// A standard stream that was closed must not become the number of another file. Writing to it still fails.
void fill_closed_streams() {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(stream, F_GETFD) == -1 && errno == EBADF)
            (void)open("/dev/null", O_RDONLY);  // takes the lowest number that is free
    }
}

/// Nobody reads the answer any more: there is nothing left to do, and nothing to say.
void on_closed_pipe(int) { std::_Exit(cubepi::app::exit_closed_pipe); }

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2 && std::string_view(argv[1]) == "--version") {
        std::puts(cubepi::app::version_text());
        return cubepi::app::exit_ok;
    }
    fill_closed_streams();
    std::setlocale(LC_CTYPE, "");  // line editing goes by characters
    std::signal(SIGPIPE, on_closed_pipe);
    std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error with a text, not a death
    const cubepi::app::CommandLine line = cubepi::app::parse_command_line(argc, argv);
    if (line.exit_code) return *line.exit_code;
    try {
        return dispatch(line);
    } catch (...) {
        cubepi::app::Failure failure = cubepi::app::explain(std::current_exception());
        try {
            throw;
        } catch (const cubepi::Error& error) {
            if (error.code() == cubepi::ErrorCode::not_found &&
                std::string_view(error.what()).starts_with("no model")) {
                failure.exit_code = cubepi::app::exit_no_model;
            } else if (error.code() == cubepi::ErrorCode::invalid_argument) {
                failure.exit_code = cubepi::app::exit_usage;
            }
        } catch (...) {
        }
        std::cerr << "cubepi: " << cubepi::app::printable(failure.text) << '\n';
        return failure.exit_code;
    }
}
