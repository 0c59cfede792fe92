#include <fstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/process_test.hpp>
#include <cubepi/workspace/workspace_test.hpp>

namespace cubepi {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Ran {
    std::string output;
    ExitStatus status;
};

Task<Ran> run_command(std::shared_ptr<Workspace> workspace, ProcessRequest request) {
    auto process = co_await workspace->start(std::move(request));
    Ran ran;
    for (bool more = true; more;) more = co_await process->read(ran.output);
    ran.status = co_await process->wait();
    co_return ran;
}

struct Flood {
    std::size_t bytes = 0;
    std::size_t turns = 0;  ///< of another coroutine on the same event loop
    bool over = false;
};

Task<> count_turns(Flood& flood) {
    while (!flood.over) {
        co_await yield_now();
        ++flood.turns;
    }
}

Task<> read_flood(TaskScope& scope, std::shared_ptr<Workspace> workspace, Flood& flood) {
    scope.spawn(count_turns(flood));
    ProcessRequest request("head -c 20000000 /dev/zero");
    auto process = co_await workspace->start(std::move(request));
    std::string out;
    for (bool more = true; more;) {
        out.clear();
        more = co_await process->read(out);
        flood.bytes += out.size();
    }
    co_await process->wait();
    flood.over = true;
    co_await scope.join();
}

class LocalProcessTest : public ::testing::Test {
protected:
    ScopedTestDirectory directory;
    std::shared_ptr<Workspace> workspace = std::make_shared<LocalWorkspace>(directory.path());

    Ran run(std::string command, std::string where = {}) {
        return cubepi::run(
            run_command(workspace, ProcessRequest(std::move(command), std::move(where))));
    }
    void TearDown() override { EXPECT_FALSE(has_children()); }
};

TEST_F(LocalProcessTest, Command_ReturnsOrderedOutputAndExitCode) {
    const auto ran = run("echo out; echo err >&2; echo out2; exit 3");
    EXPECT_EQ(ran.output, "out\nerr\nout2\n");
    EXPECT_EQ(ran.status.code, 3);
    EXPECT_FALSE(ran.status.signal);
}

TEST_F(LocalProcessTest, ContinuousOutput_DoesNotBlockTheEventLoop) {
    Flood flood;
    const auto body = [this, &flood](TaskScope& scope) {
        return read_flood(scope, workspace, flood);
    };
    cubepi::run(with_task_scope(body));
    EXPECT_EQ(flood.bytes, 20'000'000U);
    EXPECT_GE(flood.turns, flood.bytes / (512 * 1024));
}

TEST_F(LocalProcessTest, Signal_IsReported) {
    const auto ran = run("kill -9 $$");
    EXPECT_EQ(ran.status.signal, SIGKILL);
    EXPECT_FALSE(ran.status.code);
    EXPECT_FALSE(ran.status.ok());
}

TEST_F(LocalProcessTest, RequestedDirectory_IsUsed) {
    directory.put("a/x", "");
    EXPECT_EQ(run("pwd").output, directory.path().string() + "\n");
    EXPECT_EQ(run("pwd", "a").output, directory / "a\n");
    EXPECT_THROW(run("pwd", ".."), Error);
    EXPECT_THROW(run("pwd", "none"), Error);
}

TEST_F(LocalProcessTest, B12_StandardInput_IsEmpty) {
    EXPECT_EQ(run("cat; echo done").output, "done\n");
}

TEST_F(LocalProcessTest, D58_Environment_ContainsNoSecrets) {
    ::setenv("CUBEPI_TEST_API_KEY", "SECRET", 1);
    ::setenv("CUBEPI_TEST_OTHER", "SECRET2", 1);
    WorkspacePolicy policy;
    policy.hidden_variables = {"CUBEPI_TEST_OTHER"};
    policy.extra_environment = {"CUBEPI_TEST_GIVEN=yes", "TERM=vt100"};
    workspace = std::make_shared<LocalWorkspace>(directory.path(), std::move(policy));
    const auto ran = run("env");
    EXPECT_THAT(ran.output, Not(HasSubstr("SECRET")));
    EXPECT_THAT(ran.output, HasSubstr("CUBEPI_TEST_GIVEN=yes\n"));
    EXPECT_THAT(ran.output, HasSubstr("TERM=vt100\n"));
    EXPECT_THAT(ran.output, HasSubstr("PAGER=cat\n"));
    EXPECT_THAT(ran.output, HasSubstr("PATH="));
}

TEST_F(LocalProcessTest, DescriptorsAndTerminal_AreNotInherited) {
    constexpr int leaky = 77;
    ASSERT_EQ(::dup2(0, leaky), leaky);
    EXPECT_EQ(run("[ -e /proc/self/fd/77 ] || echo closed").output, "closed\n");
    ::close(leaky);
    EXPECT_EQ(run("(: < /dev/tty) 2>/dev/null; echo $?").output, "1\n");
    EXPECT_EQ(run("[ $(ps -o pgid= -p $$ 2>/dev/null || echo $$) -eq $$ ] && echo leads").output,
              "leads\n");
}

TEST_F(LocalProcessTest, SignalHandling_IsReset) {
    struct sigaction old{};
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGTERM, &ignore, &old);
    EXPECT_EQ(run("kill -TERM $$; echo survived").status.signal, SIGTERM);
    ::sigaction(SIGTERM, &old, nullptr);
}

TEST_F(LocalProcessTest, FailedStart_IsReported) {
    EXPECT_THROW(run(std::string("a\0b", 3)), Error);
    EXPECT_THROW(run(std::string(200000, 'x')), Error);
    WorkspacePolicy policy;
    policy.shell = "/no/such/shell";
    workspace = std::make_shared<LocalWorkspace>(directory.path(), std::move(policy));
    EXPECT_THROW(run("true"), Error);
}

TEST_F(LocalProcessTest, Processes_LeakNothing) {
    run("true");
    const auto before = open_files();
    for (int i = 0; i < 20; ++i) run("echo x");
    EXPECT_EQ(open_files(), before);
}

Task<pid_t> start_and_drop(std::shared_ptr<Workspace> workspace, std::string marker) {
    ProcessRequest request("sleep 1000 & echo $!; touch started; wait");
    auto process = co_await workspace->start(std::move(request));
    co_await until(exists(std::move(marker)));
    std::string output;
    co_await process->read(output);
    co_return static_cast<pid_t>(std::stol(output));
}

TEST_F(LocalProcessTest, D7_Destruction_KillsTheWholeGroup) {
    const pid_t grandchild = cubepi::run(start_and_drop(workspace, directory / "started"));
    expect_gone(grandchild);
}

Task<std::vector<SurvivingProcess>> start_and_end(std::shared_ptr<Workspace> workspace,
                                                  std::string command, std::string marker) {
    ProcessRequest request(std::move(command));
    auto process = co_await workspace->start(std::move(request));
    co_await until(exists(std::move(marker)));
    std::vector<SurvivingProcess> survivors = co_await process->end();
    EXPECT_TRUE(process->all_ended());
    co_return survivors;
}

TEST_F(LocalProcessTest, D7_ProcessesOfOtherGroupsAndSessions_AreEnded) {
    for (const char* command :
         {"setsid sleep 1000 & echo $! > child; touch started; wait",
          "timeout 1000 sleep 1000 & echo $! > child; touch started; wait",
          "(setsid bash -c 'echo $$ > child; touch started; exec sleep 1000' > /dev/null 2>&1 &)",
          "set -m; sleep 1000 & echo $! > child; touch started; disown; exit"}) {
        std::filesystem::remove(directory / "started");
        EXPECT_TRUE(cubepi::run(start_and_end(workspace, command, directory / "started")).empty());
        EXPECT_FALSE(is_running(static_cast<pid_t>(std::stol(directory.get("child"))))) << command;
    }
}

Task<std::vector<SurvivingProcess>> start_and_end_after_loss(std::shared_ptr<Workspace> workspace,
                                                             std::string marker) {
    ProcessRequest request(
        "sleep 1000 & echo $! > child; until [ -e started ]; do sleep 0.01; done; kill -9 $PPID; "
        "while :; do "
        ":; done");
    auto process = co_await workspace->start(std::move(request));
    // Before this, the loss of the supervisor is an error of start().
    std::ofstream(marker).close();
    const ExitStatus status = co_await process->wait();
    EXPECT_EQ(status.signal, SIGKILL);
    co_return co_await process->end();
}

TEST_F(LocalProcessTest, KilledSupervisor_IsReported) {
    const auto survivors = cubepi::run(start_and_end_after_loss(workspace, directory / "started"));
    ASSERT_EQ(survivors.size(), 1u);
    EXPECT_EQ(survivors[0].pid, 0);
    EXPECT_EQ(survivors[0].reason, "the process that supervised the command was killed");
    expect_gone(static_cast<pid_t>(std::stol(directory.get("child"))));
}

Task<> read_forever(std::shared_ptr<Process> process) {
    std::string output;
    for (bool more = true; more;) more = co_await process->read(output);
}

Task<> wait_forever(std::shared_ptr<Process> process) { co_await process->wait(); }

Task<> cancel_waits(std::shared_ptr<Workspace> workspace) {
    ProcessRequest request("sleep 1000");
    auto process = co_await workspace->start(std::move(request));
    TaskScope scope(co_await this_executor);
    scope.spawn(read_forever(process));
    scope.spawn(wait_forever(process));
    co_await yield_now();
    scope.cancel();
    co_await scope.join();
    EXPECT_EQ(scope.live(), 0u);
}

TEST_F(LocalProcessTest, D7_Waits_CanBeCancelled) { cubepi::run(cancel_waits(workspace)); }

Task<> close_while_reading(std::shared_ptr<Workspace> workspace) {
    ProcessRequest request("sleep 1000");
    auto process = co_await workspace->start(std::move(request));
    TaskScope scope(co_await this_executor);
    scope.spawn(read_forever(process));
    co_await yield_now();
    process->close_output();
    co_await scope.join();
}

TEST_F(LocalProcessTest, ClosedOutput_EndsARead) { cubepi::run(close_while_reading(workspace)); }

}  // namespace
}  // namespace cubepi
