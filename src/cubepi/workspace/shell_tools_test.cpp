#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/process/process_test.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/workspace/command_policy.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/shell/output_buffer.hpp>
#include <cubepi/workspace/standard_tools.hpp>
#include <cubepi/workspace/workspace_test.hpp>

namespace cubepi {

namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// An action during a call: the driver waits for a file that the command creates, then performs the action.
struct Driver {
    std::string marker;
    std::function<void()> act;
    bool repeat = false;  ///< repeats the action until the call has ended
};

Task<> keep_result(Task<AgentToolResult> call, AgentToolResult* result, bool* ended) {
    try {
        *result = co_await std::move(call);
    } catch (...) {
        *ended = true;
        throw;
    }
    *ended = true;
}

Task<> drive(Driver driver, bool* ended) {
    const std::string marker = driver.marker;
    std::function<bool()> ready = [marker, ended] {
        return *ended || std::filesystem::exists(marker);
    };
    co_await until(std::move(ready));
    do {
        driver.act();
        co_await yield_now();
    } while (driver.repeat && !*ended);
}

Task<AgentToolResult> call_with_driver(Task<AgentToolResult> call, Driver driver) {
    AgentToolResult result;
    bool ended = false;
    std::vector<Task<>> both;
    both.push_back(keep_result(std::move(call), &result, &ended));
    both.push_back(drive(std::move(driver), &ended));
    co_await when_all(std::move(both));
    co_return result;
}

class ShellToolsTest : public ::testing::Test {
protected:
    ScopedTestDirectory directory;
    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    ToolCallSettings settings;
    std::stop_source stop;
    std::shared_ptr<LocalWorkspace> workspace = std::make_shared<LocalWorkspace>(directory.path());
    std::shared_ptr<ShellSessions> sessions = ShellSessions::create(workspace);

    void SetUp() override {
        settings.runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
        settings.stop = stop.get_token();
    }

    void use(ShellOptions options) {
        sessions = ShellSessions::create(workspace, std::move(options));
    }

    AgentToolResult shell(JsonObject arguments) {
        return run_tool(shell_tool(sessions), std::move(arguments), settings);
    }
    AgentToolResult shell(const char* command) { return shell(JsonObject{{"command", command}}); }
    AgentToolResult shell_with_driver(JsonObject arguments, Driver driver) {
        return run(call_with_driver(call_tool(shell_tool(sessions), std::move(arguments), settings),
                                    std::move(driver)));
    }
    std::string output(JsonObject arguments) {
        return run_tool(shell_output_tool(sessions), std::move(arguments), settings).text();
    }
    std::string kill(const char* id) {
        return run_tool(shell_kill_tool(sessions), JsonObject{{"id", id}}, settings).text();
    }
    /// Reads until the command has exited.
    std::string all_output(const char* id) {
        std::string text;
        do {
            text = output({{"id", id}, {"wait_seconds", 60}});
        } while (text.find("running") != std::string::npos);
        return output({{"id", id}, {"from_start", true}});
    }
    pid_t pid_in(const char* name) { return static_cast<pid_t>(std::stol(directory.get(name))); }
    Driver advance(const char* marker, std::chrono::nanoseconds time) {
        return Driver{directory / marker, [this, time] { clock->advance(time); }};
    }
    Driver abort(const char* marker) {
        return Driver{directory / marker, [this] { stop.request_stop(); }};
    }
};

TEST_F(ShellToolsTest, Command_ReturnsOutputAndExitCode) {
    const auto good = shell("echo hello");
    EXPECT_EQ(good.text(), "hello\n");
    EXPECT_FALSE(good.is_error);
    EXPECT_EQ(good.details.at("exit_code"), 0);
    const auto bad = shell("echo no >&2; exit 2");
    EXPECT_EQ(bad.text(), "no\n[exit code 2]");
    EXPECT_EQ(bad.is_error, true);
    EXPECT_EQ(shell("true").text(), "(no output)");
    EXPECT_EQ(shell("kill -9 $$").text(), "(no output)\n[ended by signal 9]");
    EXPECT_FALSE(has_children());
}

TEST_F(ShellToolsTest, B12_Utf8AcrossReads_IsDecoded) {
    const auto result = shell_with_driver(
        {{"command",
          "printf 'a\\303'; touch half; until [ -e go ]; do :; done; printf '\\251 \\377 \\303'"}},
        Driver{directory / "half", [this] { directory.put("go", ""); }});
    EXPECT_EQ(result.text(), "a\xC3\xA9 \xEF\xBF\xBD \xEF\xBF\xBD");
}

TEST_F(ShellToolsTest, B12_FloodOfOutput_IsBoundedAndSpilled) {
    ShellOptions options;
    options.spill = std::make_shared<FileSpillSink>();
    options.head_bytes = 100;
    options.tail_bytes = 200;
    const auto spill = options.spill;
    use(std::move(options));
    const AgentToolResult result = shell("head -c 3000000 /dev/zero | tr '\\0' x; echo END");
    const std::string text = result.text();
    EXPECT_LT(text.size(), 600u);
    EXPECT_THAT(text, StartsWith("xxxx"));
    EXPECT_THAT(text, HasSubstr("[... 2999704 bytes omitted; the whole output is in " +
                                spill->directory().string()));
    EXPECT_THAT(text, EndsWith("xEND\n"));
    std::uintmax_t size = 0;
    const JsonObject& details = result.details.as_object();
    EXPECT_EQ(details.at("output_lines"), Json(1));
    EXPECT_THAT(std::string(details.at("output_file").as_string()),
                HasSubstr(spill->directory().string()));
    for (const auto& entry : std::filesystem::directory_iterator(spill->directory()))
        size += entry.file_size();
    EXPECT_EQ(size, 3000004u);
}

TEST_F(ShellToolsTest, B12_TimeLimit_MovesCommandToTheBackground) {
    const auto result = shell_with_driver(
        {{"command",
          "echo before; touch started; until [ -e go ]; do sleep 0.01; done; echo after; exit 4"},
         {"timeout_seconds", 5}},
        advance("started", seconds(5)));
    EXPECT_FALSE(result.is_error);
    EXPECT_THAT(result.text(),
                HasSubstr("still running after 5 s; moved to the background as sh1"));
    EXPECT_EQ(result.details.at("id"), "sh1");
    EXPECT_THAT(output({}), StartsWith("sh1: running: echo before"));
    directory.put("go", "");
    EXPECT_EQ(all_output("sh1"), "before\nafter\n[sh1: exit code 4]");
    EXPECT_EQ(output({{"id", "sh1"}}), "(no new output)\n[sh1: exit code 4]");
    EXPECT_EQ(output({{"id", "sh1"}, {"from_start", true}}), "before\nafter\n[sh1: exit code 4]");
    EXPECT_THAT(output({}), StartsWith("sh1: exit code 4: echo before"));
    EXPECT_FALSE(has_children());
}

TEST_F(ShellToolsTest, B12_BackgroundCommands_AreBoundedAndNamed) {
    ShellOptions options;
    options.max_background = 1;
    use(std::move(options));
    EXPECT_THAT(shell({{"command", "sleep 1000"}, {"background", true}}).text(),
                StartsWith("Started in the background as sh1."));
    const auto second = shell({{"command", "sleep 1000"}, {"background", true}});
    EXPECT_EQ(second.is_error, true);
    EXPECT_THAT(second.text(), HasSubstr("(sh1)"));
    const auto third = shell_with_driver({{"command", "touch started; sleep 1000"}},
                                         advance("started", seconds(120)));
    EXPECT_EQ(third.is_error, true);
    EXPECT_THAT(third.text(), HasSubstr("killed after 120 s"));
    EXPECT_THAT(kill("sh1"), HasSubstr("was ended (ended by signal 15)"));
    EXPECT_FALSE(has_children());
    EXPECT_THAT(shell({{"command", "echo x"}, {"background", true}}).text(), HasSubstr("sh2"));
    EXPECT_EQ(all_output("sh2"), "x\n[sh2: exit code 0]");
}

TEST_F(ShellToolsTest, OldestFinishedCommand_IsForgotten) {
    ShellOptions options;
    options.max_finished = 2;
    use(std::move(options));
    for (const char* id : {"sh1", "sh2", "sh3"}) {
        shell({{"command", "true"}, {"background", true}});
        all_output(id);
    }
    shell({{"command", "sleep 1000"}, {"background", true}});
    EXPECT_THAT(output({{"id", "sh1"}}),
                StartsWith("There is no background command sh1. There are:\nsh2:"));
    kill("sh4");
}

TEST_F(ShellToolsTest, D7_Abort_KillsTheWholeGroup) {
    const auto result = shell_with_driver(
        {{"command", "echo some; sleep 1000 & echo $! > child; touch started; wait"}},
        abort("started"));
    EXPECT_EQ(result.is_error, true);
    EXPECT_THAT(
        result.text(),
        EndsWith("[aborted: the command was killed with all processes that it had started]"));
    expect_gone(pid_in("child"));
    EXPECT_FALSE(has_children());
    EXPECT_EQ(clock->pending_sleepers(), 0u);
}

TEST_F(ShellToolsTest, D7_ProcessIgnoringTheRequest_IsKilledAfterGrace) {
    auto driver = abort("started");
    driver.act = [this] {
        stop.request_stop();
        clock->advance(seconds(1));
    };
    driver.repeat = true;
    const auto result =
        shell_with_driver({{"command",
                            "trap '' TERM; (trap '' TERM; while :; do sleep 1000; done) "
                            "& echo $! > child; touch started; while :; do wait; done"}},
                          std::move(driver));
    EXPECT_EQ(result.details.at("signal"), SIGKILL);
    expect_gone(pid_in("child"));
    EXPECT_FALSE(has_children());
}

TEST_F(ShellToolsTest, D7_Abort_KillsProcessOutsideTheGroup) {
    const auto result = shell_with_driver(
        {{"command",
          "setsid sleep 1000 & echo $! > child; until [ -e /proc/$!/stat ]; do :; done; "
          "until [ $(cut -d' ' -f5 /proc/$!/stat) = $! ]; do :; done; touch started; wait"}},
        Driver{directory / "started",
               [this] {
                   stop.request_stop();
                   clock->advance(seconds(1));
               },
               true});
    EXPECT_EQ(result.is_error, true);
    EXPECT_FALSE(has_children());
    expect_gone(pid_in("child"));
}

TEST_F(ShellToolsTest, B12_SilentRemainingProcess_IsReportedAndKilled) {
    const auto result = shell(
        "( setsid sleep 1000 > /dev/null 2>&1 & echo $! > child ) ; until [ $(cut -d' ' -f6 "
        "/proc/$(cat child)/stat) != $(cut -d' ' -f6 /proc/$$/stat) ]; do :; done; echo done");
    EXPECT_THAT(result.text(), StartsWith("done\n[the command has exited, but processes that it "
                                          "started still run: shell_output with id sh1"));
    EXPECT_TRUE(is_running(pid_in("child")));
    EXPECT_THAT(kill("sh1"), StartsWith("sh1 was ended (exit code 0)"));
    EXPECT_FALSE(is_running(pid_in("child")));
}

/// A command with a process that cannot be ended.
class StubbornProcess final : public Process {
public:
    Task<bool> read(std::string&) override { co_return false; }
    bool read_ready(std::string&) override { return false; }
    bool output_ended() const noexcept override { return true; }
    void close_output() noexcept override {}
    Task<ExitStatus> wait() override {
        ExitStatus status;
        status.code = 0;
        co_return status;
    }
    void kill() noexcept override {}
    std::vector<SurvivingProcess> end_now() noexcept override { return survivors(); }
    bool all_ended() const noexcept override { return false; }
    Task<> wait_all() override { co_await event_.wait(); }
    Task<std::vector<SurvivingProcess>> terminate(std::chrono::nanoseconds) override {
        co_return survivors();
    }

private:
    static std::vector<SurvivingProcess> survivors() {
        std::vector<SurvivingProcess> list(1);
        list[0].pid = 4711;
        list[0].name = "sudo";
        list[0].reason = "Operation not permitted";
        return list;
    }

    AsyncEvent event_;
};

class StubbornWorkspace final : public Workspace {
public:
    std::string root() const override { return "/"; }
    FileInfo stat(const std::string&) override { return FileInfo(); }
    std::unique_ptr<FileReader> open(const std::string&) override { return nullptr; }
    std::vector<DirectoryEntry> list(const std::string&) override { return {}; }
    bool write(const std::string&, std::string_view) override { return false; }
    void update(const std::string&, std::size_t,
                const std::function<std::string(std::string)>&) override {}
    void remove(const std::string&) override {}
    Task<std::shared_ptr<Process>> start(ProcessRequest) override {
        std::shared_ptr<Process> process = std::make_shared<StubbornProcess>();
        co_return process;
    }
};

TEST_F(ShellToolsTest, UnendedProcesses_AreReported) {
    ShellOptions options;
    options.kill_grace = std::chrono::milliseconds(0);
    sessions = ShellSessions::create(std::make_shared<StubbornWorkspace>(), std::move(options));
    EXPECT_THAT(shell("sudo daemon").text(), HasSubstr("still run"));
    const auto result = run_tool(shell_kill_tool(sessions), JsonObject{{"id", "sh1"}}, settings);
    EXPECT_EQ(result.is_error, true);
    EXPECT_EQ(result.text(),
              "sh1 was killed, but not all of its processes: could not be ended: process 4711 "
              "(sudo): Operation "
              "not permitted.");
}

/// A process that exists only here, and writes one line.
class FakeProcess final : public Process {
public:
    Task<bool> read(std::string& out) override {
        if (output_ended()) co_return false;
        out += std::exchange(text_, std::string());
        co_return true;
    }
    bool read_ready(std::string&) override { return false; }
    bool output_ended() const noexcept override { return text_.empty(); }
    void close_output() noexcept override { text_.clear(); }
    Task<ExitStatus> wait() override {
        ExitStatus status;
        status.code = 0;
        co_return status;
    }
    void kill() noexcept override {}

private:
    std::string text_ = "faked\n";
};

class FakeLauncher final : public ProcessLauncher {
public:
    Task<std::shared_ptr<Process>> start(ProcessOptions options) override {
        started.push_back(std::move(options));
        std::shared_ptr<Process> process = std::make_shared<FakeProcess>();
        co_return process;
    }
    std::vector<ProcessOptions> started;
};

TEST_F(ShellToolsTest, LauncherOfTheRuntime_StartsTheCommand) {
    auto launcher = std::make_shared<FakeLauncher>();
    settings.runtime =
        std::make_shared<const Runtime>(Runtime().with_clock(clock).with_processes(launcher));
    EXPECT_EQ(shell("touch real").text(), "faked\n");
    ASSERT_EQ(launcher->started.size(), 1u);
    const ProcessOptions& options = launcher->started[0];
    EXPECT_THAT(options.arguments, ElementsAre("-c", "touch real"));
    EXPECT_FALSE(options.input);
    EXPECT_TRUE(options.merge_errors);
    EXPECT_FALSE(std::filesystem::exists(directory / "real"));
}

TEST_F(ShellToolsTest, SessionEnd_ReportsUnendedProcesses) {
    std::string reported;
    ShellOptions options;
    options.on_survivors = [&reported](const std::string& text) { reported = text; };
    sessions = ShellSessions::create(std::make_shared<StubbornWorkspace>(), std::move(options));
    shell("sudo daemon");
    sessions.reset();
    EXPECT_EQ(reported, "could not be ended: process 4711 (sudo): Operation not permitted");
}

Task<> cancelled_call(Task<AgentToolResult> call, std::stop_token stop, bool* thrown) {
    try {
        co_await cancel_on(std::move(stop), std::move(call));
    } catch (...) {
        *thrown = is_cancellation(std::current_exception());
    }
}

TEST_F(ShellToolsTest, D7_CancelledCall_KillsTheCommandFirst) {
    std::stop_source cancel;
    bool thrown = false;
    bool ended = false;
    std::vector<Task<>> both;
    both.push_back(cancelled_call(
        call_tool(
            shell_tool(sessions),
            JsonObject{{"command",
                        "trap '' TERM; sleep 1000 & echo $! > child; touch started; wait; wait"}},
            settings),
        cancel.get_token(), &thrown));
    both.push_back(drive(Driver{directory / "started", [&] { cancel.request_stop(); }}, &ended));
    run(when_all(std::move(both)));
    EXPECT_TRUE(thrown);
    EXPECT_FALSE(has_children());
    expect_gone(pid_in("child"));
}

TEST_F(ShellToolsTest, RemainingProcesses_AreReported) {
    const auto result = shell("sleep 1000 & echo $! > child; echo done");
    EXPECT_FALSE(result.is_error);
    EXPECT_THAT(result.text(), StartsWith("done\n[the command has exited, but processes that it "
                                          "started still run: shell_output with id sh1"));
    EXPECT_TRUE(is_running(pid_in("child")));
    EXPECT_THAT(output({}), StartsWith("sh1: running"));
    EXPECT_THAT(kill("sh1"), StartsWith("sh1 was ended (exit code 0)"));
    expect_gone(pid_in("child"));
    EXPECT_FALSE(has_children());
}

TEST_F(ShellToolsTest, DestroyedSession_KillsItsCommands) {
    shell({{"command", "sleep 1000 & echo $! > child; touch started; wait"}, {"background", true}});
    run(until(exists(directory / "started")));
    const pid_t child = pid_in("child");
    sessions.reset();
    expect_gone(child);
    run(until([] { return !has_children(); }));
}

TEST_F(ShellToolsTest, RunningCommand_ReportsProgress) {
    std::vector<Json> updates;
    settings.updates = &updates;
    bool advanced = false;
    const Driver driver{directory / "started",
                        [&] {
                            if (!advanced) clock->advance(std::chrono::milliseconds(300));
                            advanced = true;
                            if (!updates.empty()) directory.put("go", "");
                        },
                        true};
    shell_with_driver({{"command", "touch started; until [ -e go ]; do echo line; done; echo end"}},
                      driver);
    ASSERT_FALSE(updates.empty());
    EXPECT_THAT(std::string(updates.front().at("output").as_string()), HasSubstr("line\n"));
}

TEST_F(ShellToolsTest, MissingDirectoryOrId_IsReported) {
    EXPECT_THAT(
        tool_text(shell_tool(sessions), {{"command", "true"}, {"working_directory", "none"}}),
        StartsWith("error not_found: Cannot start a command in none"));
    EXPECT_EQ(kill("sh9"),
              "There is no background command sh9. There are:\n(no background commands)");
    EXPECT_EQ(output({}), "(no background commands)");
}

}  // namespace

}  // namespace cubepi

namespace cubepi::detail {

namespace {

TEST(OutputBuffer, ShortText_IsReturnedUnchanged) {
    OutputBuffer buffer(4, 6);
    buffer.append("abc");
    buffer.append("defghij");
    EXPECT_EQ(buffer.size(), 10u);
    EXPECT_EQ(buffer.from(0, {}), "abcdefghij");
    EXPECT_EQ(buffer.from(2, {}), "cdefghij");
    EXPECT_EQ(buffer.from(7, {}), "hij");
    EXPECT_EQ(buffer.from(10, {}), "");
}

TEST(OutputBuffer, B12_HeadAndTail_AreRetainedInBoundedMemory) {
    OutputBuffer buffer(10, 20);
    for (int i = 0; i < 100000; ++i) buffer.append("0123456789");
    EXPECT_EQ(buffer.size(), 1000000u);
    EXPECT_EQ(buffer.from(0, "see f"),
              "0123456789\n[... 999970 bytes omitted; see f ...]\n01234567890123456789");
    EXPECT_EQ(buffer.from(999995, {}), "56789");
    EXPECT_EQ(buffer.last(5), "56789");
}

TEST(OutputBuffer, Truncation_NeverCutsACharacter) {
    OutputBuffer buffer(5, 7);
    std::string all;
    for (int i = 0; i < 50; ++i) {
        buffer.append("\xE2\x82\xAC");
        all += "\xE2\x82\xAC";
        for (std::uint64_t from = 0; from <= buffer.size(); ++from) {
            EXPECT_TRUE(is_utf8(buffer.from(from, {})));
        }
        for (std::size_t n = 0; n < 10; ++n) {
            EXPECT_TRUE(is_utf8(buffer.last(n)));
        }
    }
}

TEST(OutputBuffer, Truncation_IsDetectedInAdvance) {
    for (const std::string piece : {"a", "\xE2\x82\xAC", "0123456"}) {
        OutputBuffer buffer(8, 16);
        std::string all;
        while (buffer.holds_all(piece.size())) {
            buffer.append(piece);
            all += piece;
            EXPECT_EQ(buffer.from(0, {}), all);
        }
        EXPECT_GE(all.size() + piece.size() + 4, 24u);
    }
}

}  // namespace

namespace {

class SandboxedShell : public ::testing::Test {
protected:
    ScopedTestDirectory directory;

    /// The number of sandboxes that were made.
    std::shared_ptr<int> made = std::make_shared<int>(0);

    std::shared_ptr<ShellSessions> sessions(bool offers) const {
        SandboxProfile profile;
        profile.writable = {directory / "ws"};
        WorkspacePolicy policy;
        policy.sandbox = [profile = std::make_shared<const SandboxProfile>(std::move(profile)),
                          count = made] {
            ++*count;
            return profile;
        };
        std::filesystem::create_directories(directory / "ws");
        ShellOptions options;
        options.offers_unsandboxed = offers;
        return ShellSessions::create(
            std::make_shared<LocalWorkspace>(directory / "ws", std::move(policy)), options);
    }
    static bool has_argument(const AgentTool& tool) {
        return tool.parameters.source().at("properties").as_object().contains("without_sandbox");
    }
    void TearDown() override { EXPECT_FALSE(has_children()); }
};

}  // namespace

TEST_F(SandboxedShell, D150_FailedCommand_NamesTheSandbox) {
    const std::string text =
        tool_text(shell_tool(sessions(true)), {{"command", "echo x > a && echo x > ../b"}});
    EXPECT_THAT(text, HasSubstr("exit code 1; the sandbox may be the reason for '"));
    EXPECT_THAT(text, HasSubstr("call shell again with without_sandbox: true"));
    EXPECT_TRUE(std::filesystem::exists(directory / "ws/a"));
    EXPECT_FALSE(std::filesystem::exists(directory / "b"));
    const AgentToolResult refused =
        run_tool(shell_tool(sessions(true)), {{"command", "echo x > ../b"}});
    EXPECT_THAT(text, HasSubstr(refused.details.at("sandbox_refusal").as_string().c_str()));
    EXPECT_THAT(tool_text(shell_tool(sessions(false)), {{"command", "echo x > ../b"}}),
                Not(HasSubstr("without_sandbox")));
    EXPECT_THAT(tool_text(shell_tool(sessions(true)), {{"command", "exit 3"}}),
                Not(HasSubstr("sandbox")));
}

TEST_F(SandboxedShell, D150_UnreachableServerWithoutNetwork_NamesTheSandbox) {
    for (const std::string words : {"Couldn't connect to server", "Could not connect to server",
                                    "connect: Connection refused"}) {
        const std::string text =
            tool_text(shell_tool(sessions(true)), {{"command", "echo \"" + words + "\"; exit 7"}});
        EXPECT_THAT(text, HasSubstr("the sandbox may be the reason for")) << words;
        EXPECT_THAT(text, HasSubstr("and no network")) << words;
    }
}

TEST_F(SandboxedShell, D278_FirstCommand_MakesTheSandbox) {
    const AgentTool shell = shell_tool(sessions(true));
    EXPECT_TRUE(has_argument(shell));
    EXPECT_EQ(*made, 0);
    (void)tool_text(shell, {{"command", "true"}, {"without_sandbox", true}});
    EXPECT_EQ(*made, 0);
    (void)tool_text(shell, {{"command", "true"}});
    EXPECT_EQ(*made, 1);
    (void)tool_text(shell, {{"command", "echo x > made"}});
    EXPECT_EQ(*made, 1);
}

TEST_F(SandboxedShell, D151_Argument_IsOfferedOnlyIfAsked) {
    EXPECT_TRUE(has_argument(shell_tool(sessions(true))));
    EXPECT_FALSE(has_argument(shell_tool(sessions(false))));
    EXPECT_FALSE(has_argument(shell_tool(sessions(true), true)));
    const auto plain = std::make_shared<LocalWorkspace>(directory.path());
    ShellOptions options;
    options.offers_unsandboxed = true;
    EXPECT_FALSE(has_argument(shell_tool(ShellSessions::create(plain, options))));
    run_tool(shell_tool(sessions(true)), {{"command", "echo x > ../b"}, {"without_sandbox", true}});
    EXPECT_TRUE(std::filesystem::exists(directory / "b"));
}

TEST_F(SandboxedShell, D150_CommandOfUser_IsFree) {
    run_tool(shell_tool(sessions(true), true), {{"command", "echo x > ../b"}});
    EXPECT_TRUE(std::filesystem::exists(directory / "b"));
}

TEST_F(SandboxedShell, D150_BackgroundCommand_IsConfined) {
    const auto commands = sessions(false);
    run_tool(shell_tool(commands),
             {{"command", "echo x > ../b; echo x > a; sleep 1000"}, {"background", true}});
    run(until(exists(directory / "ws/a")));
    EXPECT_FALSE(std::filesystem::exists(directory / "b"));
    EXPECT_TRUE(commands->kill_all().empty());
    run(until([] { return !has_children(); }));
}

TEST_F(SandboxedShell, D151_ReadingCommand_WritesNothing) {
    EXPECT_TRUE(only_reads("git status"));
    EXPECT_FALSE(only_reads("git status > a"));
    EXPECT_FALSE(only_reads("make"));
    const auto commands = sessions(false);
    run_tool(shell_tool(commands), {{"command",
                                     "git init -q . 2>&1; git config core.fsmonitor "
                                     "'touch made'"}});
    run_tool(shell_tool(commands), {{"command", "git status"}});
    EXPECT_FALSE(std::filesystem::exists(directory / "ws/made"));
}

}  // namespace cubepi::detail
