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
    std::size_t max_finished = 16;   ///< background commands that have ended and can still be read
    /// From asking a group to end to killing it. Less than the agent's own grace of 2 s (D7).
    std::chrono::milliseconds kill_grace = std::chrono::milliseconds(1000);
    /// What is kept in memory of a command's output, and shown at once at most; the rest goes to `spill`.
    std::size_t head_bytes = 16 * 1024;
    std::size_t tail_bytes = 24 * 1024;
    std::shared_ptr<FileSpillSink> spill;  ///< null: the middle of a long output is dropped
    /// Receives what the end of the session could not end: survivors_text(). Must not throw.
    std::function<void(const std::string& text)> on_survivors = nullptr;

    ShellOptions() {}
};

/// "could not be ended: process 4711 (sudo): Operation not permitted"; empty when there are none.
std::string survivors_text(const std::vector<SurvivingProcess>& survivors);

/// The commands of one session: those that go on in the background, and their output (B12). Shared by the shell tools.
/// Used on one executor at a time: bound to the first caller's while commands run. The destructor kills what runs.
class ShellSessions : public std::enable_shared_from_this<ShellSessions> {
public:
    /// One command. Its members are used on the executor it was started on.
    class Command;

    struct Summary {
        std::string id;
        std::string command;
        bool running = false;  ///< the command, or processes that it has left
        ExitStatus status;     ///< once the command has exited
    };

    static std::shared_ptr<ShellSessions> create(std::shared_ptr<Workspace> workspace,
                                                 ShellOptions options = ShellOptions());
    ~ShellSessions();

    const ShellOptions& options() const noexcept;

    /// Starts a command in the foreground: it has no id, and is killed when nobody holds it.
    Task<std::shared_ptr<Command>> start(std::shared_ptr<const Runtime> runtime,
                                         ProcessRequest request);

    /// Gives a command an id under which it goes on. False when as many as allowed run already.
    bool keep(const std::shared_ptr<Command>& command);

    bool has_room() const noexcept;

    /// Null when there is none of that id.
    std::shared_ptr<Command> find(const std::string& id) const;

    /// The background commands, oldest first.
    std::vector<Summary> list() const;

    /// Kills all background commands at once, and waits for that: blocks for microseconds, and for seconds when a process
    /// cannot be ended. Returns those processes.
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

    const std::string& id() const noexcept;  ///< empty: in the foreground
    const std::string& command_line() const noexcept;
    Clock::time_point started() const noexcept;
    /// How long it has run, or ran.
    std::chrono::nanoseconds elapsed() const;

    bool exited() const noexcept;
    /// Nothing of it is left that is known: it has exited, so have all processes that it started, and its output has ended.
    bool finished() const noexcept;
    /// The processes that the last stop() could not end.
    const std::vector<SurvivingProcess>& survivors() const noexcept;
    const ExitStatus& status() const noexcept;

    /// Output from a byte offset on, at most head_bytes + tail_bytes of it and a notice.
    std::string output(std::uint64_t from) const;
    std::uint64_t output_size() const noexcept;
    std::string last_output(std::size_t bytes) const;

    /// Where shell_output goes on reading.
    std::uint64_t read_until = 0;

    /// Waits until it has exited and what it wrote is here.
    Task<> wait_exit();
    /// Waits for more output or the exit.
    Task<> wait_change();

    /// Asks all processes of the command to end, and kills them after the grace. Returns when they are gone, or when it is
    /// known that some cannot be ended: survivors().
    Task<> stop(std::chrono::nanoseconds grace);
    /// Kills all processes of the command, and does not wait for that.
    void kill() noexcept;

    Command(const Command&) = delete;
    Command& operator=(const Command&) = delete;

    struct State;

private:
    friend class ShellSessions;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
