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

#include "failure.hpp"
#include "process.hpp"
#include "program.hpp"

namespace {

/// Opens closed standard streams, so that no other file gets their descriptors. Writing to them still fails.
void fill_closed_streams() {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(stream, F_GETFD) == -1 && errno == EBADF)
            (void)open("/dev/null", O_RDONLY);  // takes the lowest number that is free
    }
}

/// The output pipe is closed: there is nothing to do or to report.
void on_closed_pipe(int) { std::_Exit(cubepi::app::exit_closed_pipe); }

bool has_reader(int pipe) {
    pollfd state = {pipe, POLLOUT, 0};
    return poll(&state, 1, 0) != 1 || (state.revents & POLLERR) == 0;
}

/// Reports a failure if the output did not reach its file, whatever the status. Returns the exit status.
int end_output(int status) {
    // Only the C stream reports that the terminal is gone.
    const bool written = std::cout.flush() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (written) return status;
    // A signal that ended the program is the cause even if the terminal is gone, too.
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
    std::setlocale(LC_CTYPE, "");  // line editing uses characters
    std::signal(SIGPIPE, on_closed_pipe);
    std::signal(SIGXFSZ, SIG_IGN);  // reaching the file size limit is an error, not a crash
    return end_output(cubepi::app::run_program(argc, argv));
}
