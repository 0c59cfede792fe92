#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/workspace/spill.hpp>
#include <cubepi/workspace/workspace.hpp>

namespace cubepi {

struct ShellOptions {
    std::chrono::seconds default_timeout = std::chrono::seconds(120);
    std::chrono::seconds max_timeout = std::chrono::seconds(600);
    std::size_t max_background = 8;  ///< commands that run in the background at once
    std::size_t max_finished = 16;   ///< exited background commands whose output can still be read
    /// The time between asking a process group to terminate and killing it. Less than the agent's own grace of 2 s (D7).
    std::chrono::milliseconds kill_grace = std::chrono::milliseconds(1000);
    /// The parts of a command's output that are held in memory, which are also the most that is shown at once; the complete
    /// output goes to `spill`.
    std::size_t head_bytes = 16 * 1024;
    std::size_t tail_bytes = 24 * 1024;
    std::shared_ptr<FileSpillSink> spill;  ///< null: the middle of a long output is discarded
    /// Follows the text of a result whose command continues in the background, e.g. a sentence that says when it ends.
    std::string background_note = {};
    /// Adds the argument `without_sandbox` to the tool `shell`, if the workspace has a sandbox: such a call leaves it. Only where
    /// each such call is asked about, as ToolRules does.
    bool offers_unsandboxed = false;
    /// Receives survivors_text() of the processes that could not be ended with the session. Must not throw.
    std::function<void(const std::string& text)> on_survivors = nullptr;

    ShellOptions() {}
};

/// Describes the processes: "could not be ended: process 4711 (sudo): Operation not permitted"; empty if there are none.
std::string survivors_text(const std::vector<SurvivingProcess>& survivors);

/// The commands of one session: those that run in the background, and their output (B12). Shared by the shell tools. Used on
/// one executor at a time: that of the first caller as long as commands run. The destructor kills running commands.
class ShellSessions : public std::enable_shared_from_this<ShellSessions> {
public:
    /// One command. Its members are used on the executor on which it was started.
    class Command;

    struct Summary {
        std::string id;
        std::string command;
        bool running = false;  ///< the command or a process that it started
        ExitStatus status;     ///< valid after the command has exited
    };

    static std::shared_ptr<ShellSessions> create(std::shared_ptr<Workspace> workspace,
                                                 ShellOptions options = ShellOptions());
    ~ShellSessions();

    const ShellOptions& options() const noexcept;
    const Workspace& workspace() const noexcept;

    /// Starts a command in the foreground: it has no id, and is killed when the last reference is released.
    Task<std::shared_ptr<Command>> start(std::shared_ptr<const Runtime> runtime,
                                         ProcessRequest request);

    /// Moves a command to the background and assigns an id. Returns false if max_background commands are running.
    bool move_to_background(const std::shared_ptr<Command>& command);

    /// Whether another command may run in the background.
    bool has_background_slot() const noexcept;

    /// Returns the background command with that id, or null.
    std::shared_ptr<Command> find(const std::string& id) const;

    /// The background commands, oldest first.
    std::vector<Summary> list() const;

    /// Kills all background commands at once and waits for their end: blocks for microseconds, or for seconds if a process
    /// cannot be ended. Returns the processes that could not be ended.
    std::vector<SurvivingProcess> kill_all() noexcept;

private:
    struct State;
    explicit ShellSessions(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

class ShellSessions::Command {
public:
    Command(std::shared_ptr<const Runtime> runtime, std::string command_line,
            const ShellOptions& options);
    ~Command();

    const std::string& id() const noexcept;  ///< empty for a foreground command
    const std::string& command_line() const noexcept;
    Clock::time_point started() const noexcept;
    /// The duration of the command, until now or until its exit.
    std::chrono::nanoseconds elapsed() const;

    /// True if the command runs in a sandbox.
    bool sandboxed() const noexcept;
    bool exited() const noexcept;
    /// True if the command and all known processes that it started have exited, and its output has ended.
    bool finished() const noexcept;
    /// The processes that the last stop() could not end.
    const std::vector<SurvivingProcess>& survivors() const noexcept;
    const ExitStatus& status() const noexcept;

    /// Returns the output from a byte offset on, at most head_bytes + tail_bytes of it and a notice.
    std::string output(std::uint64_t from) const;
    std::uint64_t output_size() const noexcept;
    /// The number of line feeds in the output.
    std::uint64_t output_lines() const noexcept;
    /// The path of the file with the complete output; empty while output() returns all of it, or without ShellOptions::spill.
    std::string output_file() const;
    std::string last_output(std::size_t bytes) const;

    /// The byte offset at which the next shell_output call starts reading.
    std::uint64_t read_until = 0;

    /// Waits for more output or the exit.
    Task<> wait_change();

    /// Asks all processes of the command to terminate, and kills them after the grace period. Returns when they have exited,
    /// or when it is known that some cannot be ended: survivors().
    Task<> stop(std::chrono::nanoseconds grace);
    /// Kills all processes of the command without waiting for their end.
    void kill() noexcept;

    Command(const Command&) = delete;
    Command& operator=(const Command&) = delete;

    struct State;

private:
    friend class ShellSessions;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
