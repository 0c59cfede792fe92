// Processes that leave their command's group, session or parent, and must nevertheless end with it.
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/core/task_scope.hpp>
#include <cubepi/process/process_test.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/shell_sessions.hpp>
#include <cubepi/workspace/standard_tools.hpp>
#include <cubepi/workspace/workspace_test.hpp>

#include "attack.hpp"

namespace cubepi::attack {

namespace {

struct Escape {
    const char* name;
    const char* command;  ///< starts STAY, which writes its pid and stays
};

/// Replaced by a command line that writes its pid to the file "child", then "started", and sleeps.
constexpr std::string_view stay_word = "STAY";
constexpr const char* stay =
    "bash -c 'echo $$ > child.new; mv child.new child; touch started; exec sleep 1000'";

const std::vector<Escape>& escapes() {
    static const std::vector<Escape> all = {
        {"the same group", "STAY & wait"},
        {"timeout", "timeout 1000 STAY; echo"},
        {"timeout in the background", "timeout 1000 STAY & wait"},
        {"timeout with a kill signal", "timeout -k 1 1000 STAY; echo"},
        {"setsid", "setsid STAY & wait"},
        {"setsid -f", "setsid -f STAY > /dev/null 2>&1; sleep 1000"},
        {"setsid -w", "setsid -w STAY; echo"},
        {"setsid twice", "setsid setsid -f STAY; sleep 1000"},
        {"job control", "set -m; STAY & disown; sleep 1000"},
        {"double fork", "( ( STAY & ) & ) ; sleep 1000"},
        {"double fork and setsid", "( setsid STAY > /dev/null 2>&1 < /dev/null & ) ; sleep 1000"},
        {"nohup", "nohup STAY > /dev/null 2>&1 & sleep 1000"},
        {"no environment", "env -i PATH=\"$PATH\" setsid -f STAY; sleep 1000"},
        {"another directory",
         "d=$PWD; s=$(cat stay); (cd / && setsid -f bash -c \"cd $d && $s\"); sleep 1000"},
        {"ignored signals", "trap '' TERM HUP INT; setsid STAY & wait"},
        {"a stopped process",
         "setsid STAY & p=$!; until [ -e started ]; do :; done; kill -STOP $p; wait"},
        {"a stopped supervisor", "kill -STOP $PPID; STAY"},
        {"a coprocess", "coproc setsid STAY; wait"},
        {"process substitution", "cat <(setsid STAY) > /dev/null"},
        {"a pipeline", "setsid STAY | cat"},
        {"exec of the shell", "exec setsid -w STAY"},
        {"a parent that restarts it", "(trap '' TERM; while :; do setsid -w STAY; done) & wait"},
    };
    return all;
}

std::string command_of(const Escape& escape) {
    std::string text = escape.command;
    for (auto at = text.find(stay_word); at != std::string::npos; at = text.find(stay_word))
        text.replace(at, stay_word.size(), stay);
    return text;
}

class ProcessAttack : public ::testing::Test {
protected:
    ScopedTestDirectory directory;
    std::shared_ptr<LocalWorkspace> workspace = std::make_shared<LocalWorkspace>(directory.path());
    std::shared_ptr<ShellSessions> sessions = ShellSessions::create(workspace);

    ProcessAttack() { directory.put("stay", stay); }

    void start(const Escape& escape) {
        forget();
        run_tool(shell_tool(sessions),
                 JsonObject{{"command", command_of(escape)}, {"background", true}});
        run(until(exists(directory / "started")));
    }
    void forget() {
        std::filesystem::remove(directory / "started");
        std::filesystem::remove(directory / "child");
    }
    pid_t child() { return static_cast<pid_t>(std::stol(directory.get("child"))); }

    void TearDown() override { EXPECT_FALSE(has_children()); }
};

Task<> abort_when_started(std::stop_source stop, std::string marker) {
    co_await until(exists(std::move(marker)));
    stop.request_stop();
}

Task<> aborted_call(AgentTool tool, JsonObject arguments, ToolCallSettings settings,
                    AgentToolResult* result) {
    *result = co_await call_tool(std::move(tool), std::move(arguments), std::move(settings));
}

}  // namespace

TEST_F(ProcessAttack, Abort_LeavesNoProcess) {
    Row row("processes", "leaving the group, session or parent, then an abort");
    for (const Escape& escape : escapes()) {
        SCOPED_TRACE(escape.name);
        forget();
        std::stop_source stop;
        ToolCallSettings settings;
        settings.stop = stop.get_token();
        ShellOptions options;
        options.kill_grace = std::chrono::milliseconds(0);
        AgentToolResult result;
        std::vector<Task<>> both;
        both.push_back(aborted_call(shell_tool(ShellSessions::create(workspace, options)),
                                    JsonObject{{"command", command_of(escape)}}, settings,
                                    &result));
        both.push_back(abort_when_started(stop, directory / "started"));
        run(when_all(std::move(both)));
        const bool claims =
            result.text().find("with all processes that it had started") != std::string::npos;
        row.attempt(claims && !is_running(child()), escape.name);
    }
}

TEST_F(ProcessAttack, ShellKill_LeavesNoProcess) {
    Row row("processes", "leaving the group, session or parent, then shell_kill");
    std::size_t count = 0;
    for (const Escape& escape : escapes()) {
        SCOPED_TRACE(escape.name);
        ShellOptions options;
        options.kill_grace = std::chrono::milliseconds(0);
        sessions = ShellSessions::create(workspace, options);
        start(escape);
        const auto result = run_tool(shell_kill_tool(sessions), JsonObject{{"id", "sh1"}});
        row.attempt(!result.is_error && !is_running(child()), escape.name);
        ++count;
    }
    EXPECT_EQ(count, escapes().size());
}

TEST_F(ProcessAttack, SessionEnd_LeavesNoProcess) {
    Row row("processes", "leaving the group, session or parent, then the end of the session");
    for (const Escape& escape : escapes()) {
        SCOPED_TRACE(escape.name);
        sessions = ShellSessions::create(workspace);
        start(escape);
        const auto survivors = sessions->kill_all();
        row.attempt(survivors.empty() && !is_running(child()), escape.name);
        sessions.reset();
        run(until([] { return !has_children(); }));
    }
}

namespace {

Task<> start_and_die(std::shared_ptr<Workspace> workspace, std::string command,
                     std::string marker) {
    ProcessRequest request(std::move(command));
    const auto process = co_await workspace->start(std::move(request));
    co_await until(exists(std::move(marker)));
    ::kill(::getpid(), SIGKILL);
}

}  // namespace

TEST_F(ProcessAttack, KilledProgram_LeavesNoProcess) {
    Row row("processes", "leaving the group, session or parent, then SIGKILL of the program");
    for (const Escape& escape : escapes()) {
        SCOPED_TRACE(escape.name);
        forget();
        const pid_t program = ::fork();
        if (program == 0) {
            run(start_and_die(workspace, command_of(escape), directory / "started"));
            ::_exit(1);
        }
        int status = 0;
        ::waitpid(program, &status, 0);
        // No process remains to wait for: the supervisor notices the end of its socket.
        for (int i = 0; i < 100000 && is_running(child()); ++i) ::usleep(100);
        row.attempt(WIFSIGNALED(status) && !is_running(child()), escape.name);
    }
}

TEST_F(ProcessAttack, CommandKillingItsSupervisor_IsNotReportedEnded) {
    Row row("processes", "killing the supervisor of the command (reported, not prevented)");
    for (const bool leaves : {false, true}) {
        forget();
        sessions = ShellSessions::create(workspace);
        const std::string inner = leaves ? std::string("setsid ") + stay : stay;
        run_tool(shell_tool(sessions),
                 JsonObject{{"command",
                             inner + " & until [ -e started ]; do :; done; kill -9 $PPID; wait"},
                            {"background", true}});
        run(until([this] { return sessions->list().front().status.signal.has_value(); }));
        const auto result = run_tool(shell_kill_tool(sessions), JsonObject{{"id", "sh1"}});
        EXPECT_NE(result.text().find("the process that supervised the command was killed"),
                  std::string::npos)
            << result.text();
        EXPECT_EQ(result.is_error, true);
        if (!leaves) expect_gone(child());
        row.count(!is_running(child()));
        ::kill(child(), SIGKILL);
        sessions.reset();
        run(until([] { return !has_children(); }));
    }
}

TEST_F(ProcessAttack, CommandStoppingItsSupervisorRepeatedly_IsEnded) {
    Row row("processes", "stopping the supervisor of the command, again and again");
    const std::string inner = std::string("setsid ") + stay;
    run_tool(shell_tool(sessions),
             JsonObject{{"command",
                         "p=$PPID; for i in 1 2 3; do while :; do kill -STOP $p; done & done; " +
                             inner + " & wait"},
                        {"background", true}});
    run(until(exists(directory / "started")));
    (void)run_tool(shell_kill_tool(sessions), JsonObject{{"id", "sh1"}});
    expect_gone(child());
    row.count(!is_running(child()));
    sessions.reset();
    run(until([] { return !has_children(); }));
}

}  // namespace cubepi::attack
