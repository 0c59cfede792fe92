#include <fstream>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/process/local_process.hpp>
#include <cubepi/process/process_test.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using ProcessPtr = std::shared_ptr<Process>;

struct Ran {
    std::string output;
    std::string errors;
    ExitStatus status;
};

Task<ProcessPtr> start(ProcessOptions options) {
    const std::shared_ptr<ProcessLauncher> launcher = launcher_of(*Runtime::standard());
    co_return co_await launcher->start(std::move(options));
}

Task<> read_all(ProcessPtr process, std::string* output) {
    for (bool more = true; more;) more = co_await process->read(*output);
}

Task<> read_all_errors(ProcessPtr process, std::string* errors) {
    for (bool more = true; more;) more = co_await process->read_error(*errors);
}

Task<> write_all(ProcessPtr process, std::string bytes, bool* done = nullptr) {
    co_await process->write(std::move(bytes));
    process->close_input();
    if (done) *done = true;
}

Task<Ran> run_process(ProcessOptions options) {
    const ProcessPtr process = co_await start(std::move(options));
    Ran ran;
    std::vector<Task<>> both;
    both.push_back(read_all(process, &ran.output));
    both.push_back(read_all_errors(process, &ran.errors));
    co_await when_all(std::move(both));
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

Task<> read_flood(TaskScope& scope, ProcessOptions options, Flood& flood) {
    scope.spawn(count_turns(flood));
    const ProcessPtr process = co_await start(std::move(options));
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

    /// A command of the shell tools: no input, one stream of output.
    ProcessOptions command(std::string line) const {
        ProcessOptions options = duplex(std::move(line));
        options.input = false;
        options.merge_errors = true;
        return options;
    }
    ProcessOptions duplex(std::string line) const {
        ProcessOptions options("bash");
        options.arguments = {"-c", std::move(line)};
        options.directory = directory.path().string();
        return options;
    }
    Ran run(std::string line) { return cubepi::run(run_process(command(std::move(line)))); }
    pid_t pid_in(const char* file) const {
        return static_cast<pid_t>(std::stol(directory.get(file)));
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
        return read_flood(scope, command("head -c 20000000 /dev/zero"), flood);
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

Task<pid_t> start_and_drop(ProcessOptions options, std::string marker) {
    const ProcessPtr process = co_await start(std::move(options));
    co_await until(exists(std::move(marker)));
    std::string output;
    co_await process->read(output);
    co_return static_cast<pid_t>(std::stol(output));
}

TEST_F(LocalProcessTest, D7_Destruction_KillsTheWholeGroup) {
    const pid_t grandchild = cubepi::run(start_and_drop(
        command("sleep 1000 & echo $!; touch started; wait"), directory / "started"));
    expect_gone(grandchild);
}

constexpr std::chrono::nanoseconds no_grace = {};

Task<std::vector<SurvivingProcess>> start_and_end(ProcessOptions options, std::string marker) {
    const ProcessPtr process = co_await start(std::move(options));
    co_await until(exists(std::move(marker)));
    std::vector<SurvivingProcess> survivors = co_await process->terminate(no_grace);
    EXPECT_TRUE(process->all_ended());
    co_return survivors;
}

TEST_F(LocalProcessTest, D7_B12_ProcessesOfOtherGroupsAndSessions_AreEnded) {
    for (const char* line :
         {"setsid sleep 1000 & echo $! > child; touch started; wait",
          "timeout 1000 sleep 1000 & echo $! > child; touch started; wait",
          "(setsid bash -c 'echo $$ > child; touch started; exec sleep 1000' > /dev/null 2>&1 &)",
          "set -m; sleep 1000 & echo $! > child; touch started; disown; exit"}) {
        std::filesystem::remove(directory / "started");
        EXPECT_TRUE(cubepi::run(start_and_end(command(line), directory / "started")).empty());
        EXPECT_FALSE(is_running(pid_in("child"))) << line;
    }
}

Task<std::vector<SurvivingProcess>> start_and_end_after_loss(ProcessOptions options,
                                                             std::string marker) {
    const ProcessPtr process = co_await start(std::move(options));
    // Before this, the loss of the supervisor is an error of start().
    std::ofstream(marker).close();
    const ExitStatus status = co_await process->wait();
    EXPECT_EQ(status.signal, SIGKILL);
    co_return co_await process->terminate(no_grace);
}

TEST_F(LocalProcessTest, KilledSupervisor_IsReported) {
    const auto survivors = cubepi::run(start_and_end_after_loss(
        command("sleep 1000 & echo $! > child; until [ -e started ]; do sleep 0.01; done; kill -9 "
                "$PPID; while :; do :; done"),
        directory / "started"));
    ASSERT_EQ(survivors.size(), 1u);
    EXPECT_EQ(survivors[0].pid, 0);
    EXPECT_EQ(survivors[0].reason, "the process that supervised the command was killed");
    expect_gone(pid_in("child"));
}

Task<> close_while_reading(ProcessOptions options) {
    const ProcessPtr process = co_await start(std::move(options));
    TaskScope scope(co_await this_executor);
    std::string output;
    scope.spawn(read_all(process, &output));
    co_await yield_now();
    process->close_output();
    co_await scope.join();
}

TEST_F(LocalProcessTest, ClosedOutput_EndsARead) {
    cubepi::run(close_while_reading(command("sleep 1000")));
}

Task<std::string> through(ProcessOptions options, std::string bytes) {
    const ProcessPtr process = co_await start(std::move(options));
    std::string output;
    std::vector<Task<>> both;
    both.push_back(write_all(process, std::move(bytes)));
    both.push_back(read_all(process, &output));
    co_await when_all(std::move(both));
    const ExitStatus status = co_await process->wait();
    EXPECT_TRUE(status.ok());
    co_return output;
}

std::string megabytes(std::size_t count) {
    std::string bytes(count << 20U, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 131 >> 7U);
    return bytes;
}

TEST_F(LocalProcessTest, MegabytesBothWays_ArriveInOrder) {
    const std::string bytes = megabytes(16);
    EXPECT_TRUE(cubepi::run(through(ProcessOptions("cat"), bytes)) == bytes);
}

TEST_F(LocalProcessTest, StandardError_IsApart) {
    const Ran ran = cubepi::run(run_process(duplex("echo out; echo err >&2; echo out2")));
    EXPECT_EQ(ran.output, "out\nout2\n");
    EXPECT_EQ(ran.errors, "err\n");
}

Task<std::string> write_before_it_reads(ProcessOptions options, std::string marker) {
    const ProcessPtr process = co_await start(std::move(options));
    TaskScope scope(co_await this_executor);
    bool done = false;
    scope.spawn(write_all(process, megabytes(1), &done));
    for (int i = 0; i < 100; ++i) co_await yield_now();
    EXPECT_FALSE(done);
    std::ofstream(marker).close();
    co_await scope.join();
    EXPECT_TRUE(done);
    std::string output;
    co_await read_all(process, &output);
    co_return output;
}

TEST_F(LocalProcessTest, UnreadInput_HoldsTheWriter) {
    EXPECT_EQ(cubepi::run(write_before_it_reads(
                  duplex("until [ -e read ]; do sleep 0.01; done; wc -c"), directory / "read")),
              "1048576\n");
}

Task<> read_late(ProcessOptions options, std::string started, std::string done) {
    const ProcessPtr process = co_await start(std::move(options));
    co_await until(exists(std::move(started)));
    for (int i = 0; i < 100; ++i) co_await yield_now();
    EXPECT_FALSE(std::filesystem::exists(done));
    std::string output;
    co_await read_all(process, &output);
    EXPECT_EQ(output.size(), 1'000'000U);
    EXPECT_TRUE(std::filesystem::exists(done));
}

TEST_F(LocalProcessTest, UnreadOutput_HoldsTheProcess) {
    cubepi::run(read_late(duplex("touch started; head -c 1000000 /dev/zero; touch done"),
                          directory / "started", directory / "done"));
}

/// Returns the error of a write to a process that does not read, once `marker` exists.
Task<std::string> failed_write(ProcessOptions options, std::string marker, bool close) {
    const ProcessPtr process = co_await start(std::move(options));
    co_await until(exists(std::move(marker)));
    TaskScope scope(co_await this_executor);
    scope.spawn(write_all(process, megabytes(1)));
    if (close) process->close_input();
    const std::exception_ptr failure = co_await scope.join_failure();
    try {
        if (failure) std::rethrow_exception(failure);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::disconnected);
        co_return error.what();
    }
    co_return "";
}

TEST_F(LocalProcessTest, ClosedPipe_IsAnErrorNotASignal) {
    EXPECT_EQ(cubepi::run(failed_write(duplex("exec 0<&-; touch closed; sleep 1000"),
                                       directory / "closed", false)),
              "The standard input of bash cannot be written: Broken pipe.");
}

TEST_F(LocalProcessTest, ClosedInput_EndsAWaitingWrite) {
    EXPECT_EQ(
        cubepi::run(failed_write(duplex("touch started; sleep 1000"), directory / "started", true)),
        "The standard input of bash cannot be written: it is closed.");
}

Task<ExitStatus> close_input_of(ProcessOptions options) {
    const ProcessPtr process = co_await start(std::move(options));
    process->close_input();
    co_return co_await process->wait();
}

TEST_F(LocalProcessTest, ClosedInput_EndsTheReader) {
    EXPECT_EQ(cubepi::run(close_input_of(ProcessOptions("cat"))).code, 0);
}

/// Starts and cancels each wait, of a process that neither reads, writes nor exits.
Task<> cancel_waits(ProcessOptions options) {
    const ProcessPtr process = co_await start(std::move(options));
    std::string output;
    TaskScope scope(co_await this_executor);
    scope.spawn(read_all(process, &output));
    scope.spawn(read_all_errors(process, &output));
    scope.spawn(write_all(process, megabytes(1)));
    scope.spawn(process->wait());
    scope.spawn(process->wait_all());
    scope.spawn(process->terminate(std::chrono::hours(1)));
    EXPECT_EQ(scope.live(), 6u);
    scope.cancel();
    co_await scope.join();
    EXPECT_EQ(scope.live(), 0u);
}

TEST_F(LocalProcessTest, D7_Waits_CanBeCancelled) {
    cubepi::run(cancel_waits(duplex("trap '' TERM; while :; do sleep 1000; done")));
}

ErrorCode code_of(ProcessOptions options, std::string& text) {
    try {
        cubepi::run(run_process(std::move(options)));
    } catch (const Error& error) {
        text = error.what();
        return error.code();
    }
    return ErrorCode::unknown;
}

TEST_F(LocalProcessTest, FailedStart_NamesTheProgramAndReason) {
    std::string text;
    EXPECT_EQ(code_of(ProcessOptions("no-such-program"), text), ErrorCode::not_found);
    EXPECT_THAT(text, HasSubstr("no-such-program was not found in PATH. Install it"));
    EXPECT_EQ(code_of(ProcessOptions("/no/such/program"), text), ErrorCode::not_found);
    EXPECT_EQ(text,
              "The program /no/such/program could not be started: No such file or directory.");
    EXPECT_EQ(code_of(ProcessOptions("/etc/passwd"), text), ErrorCode::permission_denied);
    ProcessOptions lost("cat");
    lost.directory = "/no/such/directory";
    EXPECT_EQ(code_of(lost, text), ErrorCode::not_found);
    EXPECT_THAT(text, HasSubstr("cat could not be started: directory /no/such/directory: No such"));
    EXPECT_EQ(code_of(command(std::string("a\0b", 3)), text), ErrorCode::invalid_argument);
    EXPECT_EQ(code_of(command(std::string(200000, 'x')), text), ErrorCode::io);
    EXPECT_THAT(text, HasSubstr("bash could not be started: the arguments or the environment are "
                                "too long"));
}

TEST_F(LocalProcessTest, D58_Environment_IsThatOfThePolicy) {
    ::setenv("CUBEPI_TEST_API_KEY", "SECRET", 1);
    ::setenv("CUBEPI_TEST_PLAIN", "plain", 1);
    const Ran standard = cubepi::run(run_process(ProcessOptions("env")));
    EXPECT_THAT(standard.output, HasSubstr("CUBEPI_TEST_PLAIN=plain\n"));
    EXPECT_THAT(standard.output, Not(HasSubstr("SECRET")));
    ProcessOptions exact("/usr/bin/env");
    exact.environment = {"A=1", "PATH=/nowhere"};
    EXPECT_EQ(cubepi::run(run_process(exact)).output, "A=1\nPATH=/nowhere\n");
    exact.program = "env";
    std::string text;
    EXPECT_EQ(code_of(exact, text), ErrorCode::not_found);
}

TEST_F(LocalProcessTest, Program_IsFoundFromTheDirectory) {
    directory.put("tool", "#!/bin/sh\necho \"$0 $1\"\n");
    std::filesystem::permissions(directory / "tool", std::filesystem::perms::owner_all);
    ProcessOptions options("./tool");
    options.arguments = {"a b; c"};
    options.directory = directory.path().string();
    EXPECT_EQ(cubepi::run(run_process(options)).output, "./tool a b; c\n");
}

TEST_F(LocalProcessTest, OutputBeyondTheLimit_IsAnError) {
    ProcessOptions options = duplex("head -c 600000 /dev/zero; head -c 600000 /dev/zero >&2");
    options.max_output_bytes = 1'200'000;
    EXPECT_TRUE(cubepi::run(run_process(options)).status.ok());
    options.max_output_bytes = 1'199'999;
    std::string text;
    EXPECT_EQ(code_of(options, text), ErrorCode::too_large);
    EXPECT_EQ(text, "The output of bash has more than 1199999 bytes.");
}

Task<ExitStatus> run_limited(std::shared_ptr<ProcessLauncher> launcher, ProcessOptions options) {
    const ProcessPtr process = co_await launcher->start(std::move(options));
    co_return co_await process->wait();
}

TEST_F(LocalProcessTest, TimeLimit_KillsAllProcesses) {
    auto clock = std::make_shared<testing::ManualClock>();
    const auto launcher = launcher_of(Runtime().with_clock(clock));
    ProcessOptions options =
        duplex("setsid sleep 1000 & echo $! > made; mv made child; sleep 1000");
    options.timeout = std::chrono::hours(1);
    EXPECT_THROW(testing::run_advancing(*clock, run_limited(launcher, options)), TimeoutError);
    // The shell may have ended between its creation and its content.
    const std::filesystem::path child = directory / "child";
    if (std::filesystem::exists(child) && !std::filesystem::is_empty(child))
        expect_gone(pid_in("child"));
    options.arguments = {"-c", "exit 3"};
    EXPECT_EQ(cubepi::run(run_limited(launcher, options)).code, 3);
}

Task<ExitStatus> exceed_limit(std::shared_ptr<testing::ManualClock> clock, ProcessOptions options,
                              std::string marker) {
    const auto launcher = launcher_of(Runtime().with_clock(clock));
    const ProcessPtr process = co_await launcher->start(std::move(options));
    co_await until(exists(std::move(marker)));
    clock->advance(std::chrono::hours(1));
    co_return co_await process->wait();
}

TEST_F(LocalProcessTest, B12_TimeLimit_EndsStoppedSupervisor) {
    for (const char* stops :
         {"kill -STOP $PPID; ",
          "p=$PPID; for i in 1 2; do while :; do kill -STOP $p; done & done; "}) {
        std::filesystem::remove(directory / "started");
        const auto clock = std::make_shared<testing::ManualClock>();
        ProcessOptions options =
            duplex(std::string(stops) + "echo $$ > child; touch started; sleep 1000");
        options.timeout = std::chrono::hours(1);
        EXPECT_THROW(cubepi::run(exceed_limit(clock, options, directory / "started")),
                     TimeoutError);
        expect_gone(pid_in("child"));
    }
}

Task<ExitStatus> end_gracefully(ProcessOptions options, std::string marker) {
    const ProcessPtr process = co_await start(std::move(options));
    co_await until(exists(std::move(marker)));
    const auto survivors = co_await process->terminate(std::chrono::hours(1));
    EXPECT_TRUE(survivors.empty());
    co_return co_await process->wait();
}

TEST_F(LocalProcessTest, Grace_AllowsARegularEnd) {
    EXPECT_EQ(
        cubepi::run(end_gracefully(duplex("trap 'exit 7' TERM; touch started; while :; do :; done"),
                                   directory / "started"))
            .code,
        7);
}

Task<> sleep_in(ProcessOptions options) {
    const ProcessPtr process = co_await start(std::move(options));
    co_await process->wait();
}

TEST_F(LocalProcessTest, B12_KilledParent_LeavesNoProcess) {
    const pid_t parent = ::fork();
    ASSERT_GE(parent, 0);
    if (parent == 0) {
        cubepi::run(sleep_in(
            duplex("setsid bash -c 'echo $$ > child; touch started; exec sleep 1000' & wait")));
        ::_exit(0);
    }
    cubepi::run(until(exists(directory / "started")));
    EXPECT_TRUE(is_running(pid_in("child")));
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
    expect_gone(pid_in("child"));
}

Task<> run_many(ProcessOptions options, int count) {
    std::vector<Task<std::string>> all;
    for (int i = 0; i < count; ++i) all.push_back(through(options, std::to_string(i)));
    const std::vector<std::string> outputs = co_await when_all(std::move(all));
    for (int i = 0; i < count; ++i)
        EXPECT_EQ(outputs[static_cast<std::size_t>(i)], std::to_string(i));
}

TEST_F(LocalProcessTest, ManyProcesses_LeakNothing) {
    cubepi::run(run_many(ProcessOptions("cat"), 1));
    const auto before = open_files();
    for (int i = 0; i < 10; ++i) cubepi::run(run_many(ProcessOptions("cat"), 20));
    EXPECT_EQ(open_files(), before);
}

TEST_F(LocalProcessTest, TwoEventLoops_ShareNothing) {
    std::thread other([] { cubepi::run(run_many(ProcessOptions("cat"), 10)); });
    cubepi::run(run_many(ProcessOptions("cat"), 10));
    other.join();
}

}  // namespace
}  // namespace cubepi
