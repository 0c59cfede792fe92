#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace cubepi::wire {

/// A program whose standard input and output are pipes of this process. The destructor closes its input, which ends it, and waits
/// for it.
class ChildProcess {
public:
    explicit ChildProcess(std::vector<std::string> arguments);
    ~ChildProcess();

    /// Returns the next line of its output; empty at the end.
    std::string read_line();
    void write_line(const std::string& line);
    /// Closes its input and returns its exit status.
    int wait();

    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;

private:
    pid_t pid_ = -1;
    int in_ = -1;
    int out_ = -1;
    std::string buffer_;
};

/// Runs a program to its end; throws if it fails.
void run_program(std::vector<std::string> arguments);

}  // namespace cubepi::wire
