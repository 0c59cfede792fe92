#pragma once

#include <cstdint>

#include <sys/types.h>

// A supervisor process for each command. It is a small fork of this process that becomes the parent of every process of the
// command whose own parent has exited (a "child subreaper"), and therefore finds all of them, also those in a session or
// process group of their own. It ends the command when this process exits for any reason.

namespace cubepi::detail {

/// A request to the supervisor, one byte. The end of the stream means kill, then exit.
enum class SupervisorOrder : char { terminate = 't', kill = 'k' };

/// A process that was killed and has not exited.
struct UnkilledProcess {
    std::int32_t pid = 0;
    std::int32_t error = 0;  ///< an errno value; 0: the signal was sent
    char name[16] = {};
};

/// A report of the supervisor, one packet.
struct SupervisorReport {
    enum class Kind : std::uint8_t {
        started,   ///< the command runs; `value` is its pid
        failed,    ///< the command could not be started; `value` is an errno value
        ended,     ///< the command itself has exited; `value` and `how` are those of waitid()
        all_gone,  ///< no process of the command remains
        unkilled,  ///< some processes have not exited after they were killed
    };
    static constexpr std::uint32_t most_unkilled = 8;

    Kind kind = Kind::started;
    bool all_gone = false;  ///< with `ended`: no process of the command remains
    std::int32_t value = 0;
    std::int32_t how = 0;
    std::uint32_t unkilled_count = 0;  ///< may exceed the number of listed processes
    UnkilledProcess unkilled[most_unkilled] = {};
};

/// The data of the supervisor, prepared before the fork.
struct SupervisedCommand {
    const char* program = nullptr;
    char* const* arguments = nullptr;
    char* const* environment = nullptr;
    int working_directory = -1;
    int output = -1;   ///< becomes standard output and standard error of the command
    int control = -1;  ///< a socket for packets
};

/// Runs in the child of a fork with all signals blocked. Async-signal-safe.
[[noreturn]] void supervise(const SupervisedCommand& command) noexcept;

}  // namespace cubepi::detail
