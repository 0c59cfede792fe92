#include <algorithm>
#include <cstdio>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/number_text.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/workspace/command_policy.hpp>
#include <cubepi/workspace/standard_tools.hpp>

namespace cubepi {

namespace {

using CommandPtr = std::shared_ptr<ShellSessions::Command>;
using SessionsPtr = std::shared_ptr<ShellSessions>;

void describe_command(FieldNotes& fields) {
    fields.describe("command", "The command line.")
        .describe("working_directory",
                  "A directory relative to the workspace's root. Default: the root.")
        .describe("background", "Start the command in the background, e.g. a server.");
}

struct ShellArgs {
    std::string command;
    std::optional<std::int64_t> timeout_seconds;
    std::optional<std::string> working_directory;
    bool background = false;

    static void describe_fields(FieldNotes& fields) { describe_command(fields); }
};

/// Those of a tool that may leave the sandbox.
struct SandboxedShellArgs {
    std::string command;
    std::optional<std::int64_t> timeout_seconds;
    std::optional<std::string> working_directory;
    bool background = false;
    bool without_sandbox = false;

    static void describe_fields(FieldNotes& fields) {
        describe_command(fields);
        fields.describe("without_sandbox",
                        "Run the command once without its sandbox, if the sandbox has made it "
                        "fail. The user is asked about each such call.");
    }
};

struct OutputArgs {
    std::optional<std::string> id;
    std::optional<std::int64_t> wait_seconds;
    bool from_start = false;

    static void describe_fields(FieldNotes& fields) {
        fields.describe("id", "The command, e.g. sh1.")
            .describe("wait_seconds", "The maximum time to wait for new output. Default: 0.")
            .describe("from_start", "Read the output from its beginning again.");
    }
};

struct KillArgs {
    std::string id;

    static void describe_fields(FieldNotes& fields) {
        fields.describe("id", "The command, e.g. sh1.");
    }
};

std::string ending(const ExitStatus& status) {
    if (status.signal) return "ended by signal " + std::to_string(*status.signal);
    return "exit code " + std::to_string(status.code.value_or(-1));
}

/// Appends the note to the text as a last line in brackets; returns the text if the note is empty.
std::string with_note(std::string text, const std::string& note) {
    if (text.empty()) text = "(no output)";
    if (note.empty()) return text;
    if (text.back() != '\n') text += '\n';
    return text + "[" + note + "]";
}

AgentToolResult result_of(const CommandPtr& command, std::string text, bool is_error) {
    AgentToolResult result(std::move(text));
    JsonObject details;
    if (!command->id().empty()) details["id"] = command->id();
    if (command->exited()) {
        if (command->status().code) details["exit_code"] = *command->status().code;
        if (command->status().signal) details["signal"] = *command->status().signal;
    }
    // The text has only a part of the output.
    if (std::string file = command->output_file(); !file.empty()) {
        details["output_file"] = std::move(file);
        details["output_lines"] = command->output_lines();
    }
    details["seconds"] = std::chrono::duration<double>(command->elapsed()).count();
    result.details = std::move(details);
    if (is_error) result.is_error = true;
    return result;
}

/// Returns `done` if all processes were ended, else `part` and the remaining processes.
std::string ended_note(const CommandPtr& command, const std::string& done,
                       const std::string& part) {
    const std::string left = survivors_text(command->survivors());
    return left.empty() ? done : part + "; " + left;
}

std::string how_to_follow(const SessionsPtr& sessions, const std::string& id) {
    const std::string& note = sessions->options().background_note;
    return "shell_output with id " + id + " reads its output, shell_kill ends it" +
           (note.empty() ? "" : "; " + note);
}

AgentToolResult background_full(const SessionsPtr& sessions) {
    std::string ids;
    for (const auto& summary : sessions->list()) {
        if (summary.running) ids += (ids.empty() ? "" : ", ") + summary.id;
    }
    return AgentToolResult::error("The maximum number of background commands is running (" + ids +
                                  "). End one of them with shell_kill first.");
}

/// Reports the output of the command, at most a few times per second, until it exits.
Task<> watch(CommandPtr command, ToolContext* context) {
    constexpr auto pause = std::chrono::milliseconds(250);
    constexpr std::size_t shown = 2000;
    auto& clock = *context->runtime().clock;
    auto next = clock.now() + pause;
    std::uint64_t reported = 0;
    while (!command->exited()) {
        Task<> change = command->wait_change();
        // The rest is reported even if the command prints nothing more.
        if (command->output_size() > reported) {
            try {
                Task<> limited =
                    with_timeout(clock, next - clock.now(), std::move(change), "update");
                co_await std::move(limited);
            } catch (const TimeoutError& error) {
                if (error.timeout() != "update") throw;
            }
        } else {
            co_await std::move(change);
        }
        if (command->exited() || clock.now() < next) continue;
        reported = command->output_size();
        JsonObject partial;
        partial["output"] = command->last_output(shown);
        Json update(std::move(partial));
        co_await context->update(std::move(update));
        next = clock.now() + pause;
    }
}

/// Returns the words of a failed command by which a sandbox shows; empty: there are none. The kernel tells only the command why a
/// call has failed. Without a network, a server of the machine does not answer either.
std::string refusal_in(const std::string& output, bool has_network) {
    constexpr std::string_view words[] = {"Read-only file system",
                                          "Permission denied",
                                          "Operation not permitted",
                                          "Network is unreachable",
                                          "Could not resolve host",
                                          "Temporary failure in name resolution",
                                          "Name or service not known",
                                          "EROFS",
                                          "EACCES",
                                          "EPERM",
                                          "ENETUNREACH",
                                          "EAI_AGAIN",
                                          "Device or resource busy",
                                          "Invalid cross-device link"};
    for (const std::string_view word : words) {
        if (output.find(word) != std::string::npos) return std::string(word);
    }
    if (has_network) return {};
    for (const std::string_view word :
         {"Connection refused", "Couldn't connect", "Could not connect", "ECONNREFUSED"}) {
        if (output.find(word) != std::string::npos) return std::string(word);
    }
    return {};
}

/// Returns a note for the model about a command that has failed, apparently because of its sandbox.
std::string sandbox_note(const SessionsPtr& sessions, const std::string& refusal) {
    const std::shared_ptr<const SandboxProfile> sandbox = sessions->workspace().sandbox();
    std::string note = "; the sandbox may be the reason for '" + refusal + "': ";
    const bool writes = sandbox && !sandbox->writable.empty();
    note += writes ? "it allows writes only in " + sandbox->writable.front().string() +
                         " and temporary directories"
                   : "it allows no writes";
    if (sandbox && !sandbox->network) note += ", and no network";
    note += ", and hides keys";
    if (sessions->options().offers_unsandboxed)
        note +=
            "; if the command needs more, call shell again with without_sandbox: true, and the "
            "user is asked to run it once without the sandbox";
    return note;
}

enum class Wait { exited, timed_out, stopped };

/// Returns true when the command has exited, false when the time limit is reached. Throws a cancellation after an abort.
Task<bool> exits_in_time(CommandPtr command, ToolContext* context, std::chrono::seconds limit) {
    bool exited = true;
    try {
        Task<> watching = watch(command, context);
        Task<> limited =
            with_timeout(*context->runtime().clock, limit, std::move(watching), "shell");
        co_await cancel_on(context->stop_token(), std::move(limited));
    } catch (const TimeoutError& error) {
        if (error.timeout() != "shell") throw;
        exited = false;
    }
    co_return exited;
}

/// Waits for the exit, the time limit or an abort. If the coroutine itself is cancelled, kills the command, waits for its end
/// and throws.
Task<Wait> wait_foreground(CommandPtr command, ToolContext* context, std::chrono::seconds limit,
                           std::chrono::nanoseconds grace) {
    Outcome<bool> exited = co_await outcome_of(exits_in_time(command, context, limit));
    if (exited) co_return exited.value() ? Wait::exited : Wait::timed_out;
    const auto state = co_await this_cancellation;
    const bool cancelled = state.cancelled() != boost::asio::cancellation_type::none;
    co_await shield();
    co_await command->stop(cancelled ? std::chrono::nanoseconds::zero() : grace);
    co_await unshield();
    if (cancelled || !context->stop_token().stop_requested()) exited.rethrow();
    co_return Wait::stopped;
}

AgentToolResult after_exit(const SessionsPtr& sessions, const CommandPtr& command,
                           bool& kill_rest) {
    std::string note;
    if (!command->status().ok()) note = ending(command->status());
    if (!command->finished()) {
        kill_rest = !sessions->move_to_background(command);
        note += (note.empty() ? "" : "; ") +
                std::string("the command has exited, but processes that it started ");
        note +=
            kill_rest
                ? "were still running and have been killed: too many commands run in the background"
                : "still run: " + how_to_follow(sessions, command->id());
    }
    std::string output = command->output(0);
    command->read_until = command->output_size();
    const bool is_confined = command->sandboxed() && !command->status().ok();
    const std::shared_ptr<const SandboxProfile> sandbox =
        is_confined ? sessions->workspace().sandbox() : nullptr;
    const std::string refusal =
        is_confined ? refusal_in(output, !sandbox || sandbox->network) : std::string();
    if (!refusal.empty()) note += sandbox_note(sessions, refusal);
    AgentToolResult result =
        result_of(command, with_note(std::move(output), note), !command->status().ok());
    if (!refusal.empty()) result.details.as_object()["sandbox_refusal"] = refusal;
    return result;
}

AgentToolResult after_move(const SessionsPtr& sessions, const CommandPtr& command,
                           std::chrono::seconds limit) {
    std::string output = command->output(0);
    command->read_until = command->output_size();
    const std::string note = "still running after " + std::to_string(limit.count()) +
                             " s; moved to the background as " + command->id() + ": " +
                             how_to_follow(sessions, command->id());
    return result_of(command, with_note(std::move(output), note), false);
}

AgentToolResult after_kill(const CommandPtr& command, Wait wait, std::chrono::seconds limit) {
    const std::string note =
        wait == Wait::stopped
            ? ended_note(command,
                         "aborted: the command was killed with all processes that it had started",
                         "aborted: the command was killed")
            : ended_note(command,
                         "killed after " + std::to_string(limit.count()) +
                             " s: not moved to the background, where too many commands run",
                         "killed after " + std::to_string(limit.count()) + " s");
    return result_of(command, with_note(command->output(0), note), true);
}

/// A command that runs without a question because it only reads must not do more.
CommandSandbox sandbox_of(const SessionsPtr& sessions, const std::string& command) {
    return sessions->workspace().has_sandbox() && only_reads(command) ? CommandSandbox::read_only
                                                                      : CommandSandbox::standard;
}

Task<AgentToolResult> run_shell(SessionsPtr sessions, ShellArgs args, CommandSandbox sandbox,
                                ToolContext* context) {
    const ShellOptions& options = sessions->options();
    if (args.background && !sessions->has_background_slot()) co_return background_full(sessions);
    const std::int64_t wanted = args.timeout_seconds.value_or(options.default_timeout.count());
    const std::chrono::seconds limit(
        std::clamp<std::int64_t>(wanted, 1, options.max_timeout.count()));
    ProcessRequest request(args.command, args.working_directory.value_or(std::string()));
    request.sandbox = sandbox;
    auto runtime = context->shared_runtime();
    const CommandPtr command = co_await sessions->start(std::move(runtime), std::move(request));
    if (args.background) {
        sessions->move_to_background(command);
        co_return result_of(command,
                            "Started in the background as " + command->id() + ". " +
                                how_to_follow(sessions, command->id()) + ".",
                            false);
    }
    const Wait wait = co_await wait_foreground(command, context, limit, options.kill_grace);
    if (wait == Wait::exited) {
        bool kill_rest = false;
        AgentToolResult result = after_exit(sessions, command, kill_rest);
        if (kill_rest) co_await command->stop(std::chrono::nanoseconds::zero());
        co_return result;
    }
    if (wait == Wait::timed_out && sessions->move_to_background(command)) {
        co_return after_move(sessions, command, limit);
    }
    if (wait == Wait::timed_out) co_await command->stop(options.kill_grace);
    co_return after_kill(command, wait, limit);
}

std::string describe_all(const SessionsPtr& sessions) {
    std::string text;
    for (const auto& summary : sessions->list()) {
        text += summary.id + ": " +
                (summary.running ? std::string("running") : ending(summary.status)) + ": " +
                summary.command + "\n";
    }
    return text.empty() ? "(no background commands)" : text;
}

AgentToolResult unknown_id(const SessionsPtr& sessions, const std::string& id) {
    return AgentToolResult::error("There is no background command " + id + ". There are:\n" +
                                  describe_all(sessions));
}

Task<> wait_news(CommandPtr command) {
    while (!command->exited() && command->output_size() <= command->read_until)
        co_await command->wait_change();
}

Task<AgentToolResult> show_output(SessionsPtr sessions, OutputArgs args, ToolContext* context) {
    if (!args.id) co_return AgentToolResult(describe_all(sessions));
    const CommandPtr command = sessions->find(*args.id);
    if (!command) co_return unknown_id(sessions, *args.id);
    if (args.from_start) command->read_until = 0;
    const std::chrono::seconds wait(
        std::clamp<std::int64_t>(args.wait_seconds.value_or(0), 0, 300));
    if (wait.count() > 0) {
        try {
            Task<> news = wait_news(command);
            Task<> limited = with_timeout(*context->runtime().clock, wait, std::move(news), "wait");
            co_await cancel_on(context->stop_token(), std::move(limited));
        } catch (const TimeoutError&) {
            // There is no new output, which the text states.
        }
    }
    std::string output = command->output(command->read_until);
    const bool anything = command->output_size() > command->read_until;
    command->read_until = command->output_size();
    if (!anything) output = "(no new output)";
    std::string note = *args.id + ": ";
    if (!command->exited())
        note += "running for " + rounded_seconds_text(command->elapsed());
    else if (!command->finished())
        note += ending(command->status()) + ", but processes that it started still run";
    else
        note += ending(command->status());
    co_return result_of(command, with_note(std::move(output), note), false);
}

Task<AgentToolResult> kill_command(SessionsPtr sessions, KillArgs args) {
    const CommandPtr command = sessions->find(args.id);
    if (!command) co_return unknown_id(sessions, args.id);
    const bool was_running = !command->finished();
    co_await command->stop(sessions->options().kill_grace);
    const std::string left = survivors_text(command->survivors());
    std::string text = args.id;
    if (left.empty()) {
        text += (was_running ? " was ended (" : " had already ended (") +
                ending(command->status()) + ").";
    } else {
        text += " was killed, but not all of its processes: " + left + ".";
    }
    if (command->output_size() > command->read_until)
        text += " Its output can still be read with shell_output.";
    co_return result_of(command, std::move(text), !left.empty());
}

}  // namespace

namespace {

constexpr const char* shell_description =
    "Run a command in the workspace's directory with the shell, and return its output (standard "
    "output and error) and exit code. Its standard input is empty. A command that runs longer than "
    "its time limit is moved to the background; use shell_output and shell_kill for it.";

AgentTool with_shell_parameters(AgentTool made, const SessionsPtr& sessions) {
    const auto limit = std::to_string(sessions->options().default_timeout.count());
    return std::move(made)
        .describe("timeout_seconds", "The time limit of the call. Default: " + limit + ".")
        .sequential()
        // The tool has its own time limit; the agent's would end the command instead of moving it to the background.
        .timeout(std::chrono::milliseconds(0))
        .risk(ToolRisk::writes);
}

}  // namespace

AgentTool shell_tool(std::shared_ptr<ShellSessions> sessions, bool unsandboxed) {
    if (!unsandboxed && sessions->options().offers_unsandboxed &&
        sessions->workspace().has_sandbox()) {
        auto run = [sessions](SandboxedShellArgs args, ToolContext& context) {
            const CommandSandbox sandbox =
                args.without_sandbox ? CommandSandbox::none : sandbox_of(sessions, args.command);
            ShellArgs plain{std::move(args.command), args.timeout_seconds,
                            std::move(args.working_directory), args.background};
            return run_shell(sessions, std::move(plain), sandbox, &context);
        };
        return with_shell_parameters(
            tool<SandboxedShellArgs>("shell", shell_description, std::move(run)), sessions);
    }
    auto run = [sessions, unsandboxed](ShellArgs args, ToolContext& context) {
        const CommandSandbox sandbox =
            unsandboxed ? CommandSandbox::none : sandbox_of(sessions, args.command);
        return run_shell(sessions, std::move(args), sandbox, &context);
    };
    return with_shell_parameters(tool<ShellArgs>("shell", shell_description, std::move(run)),
                                 sessions);
}

AgentTool shell_output_tool(std::shared_ptr<ShellSessions> sessions) {
    return tool<OutputArgs>(
               "shell_output",
               "Read the new output of a background command since the last call, and its status. "
               "Without an id, list the background commands.",
               [sessions = std::move(sessions)](OutputArgs args, ToolContext& context) {
                   return show_output(sessions, std::move(args), &context);
               })
        .timeout(std::chrono::milliseconds(0))
        .risk(ToolRisk::read_only);
}

AgentTool shell_kill_tool(std::shared_ptr<ShellSessions> sessions) {
    return tool<KillArgs>("shell_kill",
                          "End a background command and all processes that it started.",
                          [sessions = std::move(sessions)](KillArgs args) {
                              return kill_command(sessions, std::move(args));
                          })
        .risk(ToolRisk::writes);
}

}  // namespace cubepi
