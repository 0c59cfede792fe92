#pragma once

#include <cstdint>

#include <sys/types.h>

// One process watches over each command: the supervisor. It is a fork of this process that stays small, becomes the
// parent of every process of the command whose own parent has ended (a "child subreaper"), and therefore finds all of them,
// also those that made a session or a process group of their own. It ends the command when this process ends, in whatever way.

namespace cubepi::detail {

/// What the supervisor is told, one byte each. The end of the stream means kill, and then exit.
enum class SupervisorOrder : char { terminate = 't', kill = 'k' };

/// A process that was told to end and did not.
struct UnkilledProcess {
    std::int32_t pid = 0;
    std::int32_t error = 0;  ///< an errno value; 0: the signal was sent
    char name[16] = {};
};

/// What the supervisor reports, one packet each.
struct SupervisorReport {
    enum class Kind : std::uint8_t {
        started,   ///< the command runs; `value` is its pid
        failed,    ///< it could not be started; `value` is an errno value
        ended,     ///< of the command itself; `value` and `how` are those of waitid()
        all_gone,  ///< no process of the command is left
        unkilled,  ///< some did not end after they were killed
    };
    static constexpr std::uint32_t most_unkilled = 8;

    Kind kind = Kind::started;
    bool all_gone = false;  ///< of `ended`: the command has left no process
    std::int32_t value = 0;
    std::int32_t how = 0;
    std::uint32_t unkilled_count = 0;  ///< may be more than are listed
    UnkilledProcess unkilled[most_unkilled] = {};
};

/// All that the supervisor needs, made before the fork.
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
