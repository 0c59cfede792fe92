#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "exit_code.hpp"
#include "process_protection.hpp"
#include "program.hpp"
#include "version.hpp"

namespace {

/// A standard stream that was closed must not become the number of another file. Writing to it still fails.
void fill_closed_streams() {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(stream, F_GETFD) == -1 && errno == EBADF)
            (void)open("/dev/null", O_RDONLY);  // takes the lowest number that is free
    }
}

/// The output has no reader any more: nothing is left to do or to report.
void on_closed_pipe(int) { std::_Exit(cubepi::app::exit_closed_pipe); }

bool has_reader(int pipe) {
    pollfd state = {pipe, POLLOUT, 0};
    return poll(&state, 1, 0) != 1 || (state.revents & POLLERR) == 0;
}

/// An answer that did not reach its file is a failure, whatever came before. Gives the exit status.
int end_output(int status) {
    // A terminal that is gone is seen by the stream of C alone.
    const bool written = std::cout.flush() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (written) return status;
    // A signal that ended the program is the cause also where it has taken the terminal along.
    if (!has_reader(STDOUT_FILENO)) return status > 128 ? status : cubepi::app::exit_closed_pipe;
    std::cerr << "cubepi: the output could not be written completely.\n"
                 "  Is the disk full? Check: df -h\n";
    return status == cubepi::app::exit_ok ? cubepi::app::exit_failed : status;
}

}  // namespace

int main(int argc, char** argv) {
    cubepi::app::protect_process();
    const std::string_view only = argc == 2 ? argv[1] : "";
    if (only == "--version" || only == "-V") {
        std::puts(cubepi::app::version_text());
        return end_output(cubepi::app::exit_ok);
    }
    fill_closed_streams();
    std::setlocale(LC_CTYPE, "");  // line editing goes by characters
    std::signal(SIGPIPE, on_closed_pipe);
    std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error with a text, not a death
    return end_output(cubepi::app::run_program(argc, argv));
}
