#include "terminal_stream.hpp"

#include <iostream>

#include <unistd.h>

namespace cubepi::app {

void TerminalStream::write(std::string_view text) { to_ << text; }

void TerminalStream::flush() { to_.flush(); }

TerminalStream& out() {
    static TerminalStream stream(std::cout);
    return stream;
}

TerminalStream& err() {
    static TerminalStream stream(std::cerr);
    return stream;
}

std::ostream& log_output() { return std::cerr; }

void data_output(std::string_view data) { data_output(std::cout, data); }

void data_output(std::ostream& to, std::string_view data) {
    static const bool terminal = isatty(STDOUT_FILENO) == 1;
    if (terminal && &to == &std::cout) {
        to << printable(data);
    } else {
        to << data;
    }
}

}  // namespace cubepi::app
