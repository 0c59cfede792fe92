#include <cubepi/process/sandbox.hpp>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/process/local_process.hpp>
#include <cubepi/process/process_test.hpp>
#include <cubepi/process/sandbox/bubblewrap.hpp>
#include <cubepi/process/sandbox/sandbox_plan.hpp>
#include <cubepi/process/supervisor/command_supervisor.hpp>

// The hostile scripts are in tests/attack/sandbox_attack_test.cpp; here is what must work, and what is reported.

namespace cubepi {
namespace {

using ::testing::HasSubstr;

struct Ran {
    std::string output;
    ExitStatus status;
};

Task<Ran> run_sandboxed(SandboxProfile profile, std::string directory, std::string line) {
    ProcessOptions options("/bin/bash");
    options.arguments = {"-c", std::move(line)};
    options.directory = std::move(directory);
    options.input = false;
    options.merge_errors = true;
    const auto sandbox = std::make_shared<const SandboxProfile>(std::move(profile));
    const std::shared_ptr<ProcessLauncher> launcher = launcher_of(*Runtime::standard(), sandbox);
    const std::shared_ptr<Process> process = co_await launcher->start(std::move(options));
    Ran ran;
    for (bool more = true; more;) more = co_await process->read(ran.output);
    ran.status = co_await process->wait();
    co_await process->wait_all();
    co_return ran;
}

void kill_children() {
    detail::ProcessTree processes;
    ASSERT_TRUE(processes.scan());
    for (const detail::ListedProcess& one : processes) {
        if (one.parent == ::getpid()) (void)detail::send_signal(one, SIGKILL);
    }
}

/// Kills the supervisor when the command runs. Returns when no process has its output any more.
Task<> lose_supervisor(SandboxProfile profile, std::string directory) {
    ProcessOptions options("/bin/bash");
    options.arguments = {"-c", "setsid sleep 100000 & echo started; wait"};
    options.directory = std::move(directory);
    const auto sandbox = std::make_shared<const SandboxProfile>(std::move(profile));
    const std::shared_ptr<ProcessLauncher> launcher = launcher_of(*Runtime::standard(), sandbox);
    const std::shared_ptr<Process> process = co_await launcher->start(std::move(options));
    std::string output;
    bool killed = false;
    for (bool more = true; more;) {
        more = co_await process->read(output);
        if (killed || output.empty()) continue;
        kill_children();
        killed = true;
    }
    EXPECT_TRUE(killed);
}

class SandboxTest : public ::testing::Test {
protected:
    ScopedTestDirectory base;
    SandboxProfile profile;

    SandboxTest() {
        std::filesystem::create_directories(base / "ws/.git/hooks");
        std::filesystem::create_directories(base / "secret/session");
        base.put("ws/file", "old\n");
        base.put("ws/.git/config", "[core]\n");
        base.put("secret/key", "sk-1\n");
        base.put("secret/session/note", "shown\n");
        profile.writable = {base / "ws"};
        profile.read_only = {base / "ws/.git/hooks", base / "ws/.git/config"};
        profile.hidden = {base / "secret"};
    }
    /// With each of the means that this system has.
    template <class Test>
    void for_all_means(Test test) {
        test();
        profile.use_namespaces = false;
        test();
        profile.max_landlock_abi = 0;
        SCOPED_TRACE("bubblewrap");
        if (detail::bubblewrap().problem.empty()) test();
    }
    Ran run(std::string line) { return cubepi::run(run_sandboxed(profile, base / "ws", line)); }
    void expect_output(std::string line, const std::string& output) {
        SCOPED_TRACE(line);
        const Ran ran = run(std::move(line));
        EXPECT_EQ(ran.output, output);
        EXPECT_TRUE(ran.status.ok());
    }
    void TearDown() override { EXPECT_FALSE(has_children()); }
};

TEST_F(SandboxTest, Workspace_CanBeChanged) {
    for_all_means([&] {
        expect_output("echo new > file && cat file && mkdir -p a && echo x > a/b && rm -r a",
                      "new\n");
        expect_output("pwd", base / "ws\n");
        expect_output("echo more >> file; : > file; chmod 600 file; rm file; echo again > file",
                      "");
        expect_output("echo a > /dev/null; echo b > /dev/stdout; head -c 3 /dev/zero | wc -c",
                      "b\n3\n");
        expect_output("cat <(echo c) <<< d; id -u", "c\n" + std::to_string(::geteuid()) + "\n");
    });
}

TEST_F(SandboxTest, Moves_WorkBetweenDirectories) {
    expect_output("mkdir p q; echo x > p/f; mv p/f q/g; ln q/g p/h; cat p/h", "x\n");
}

TEST_F(SandboxTest, ReadOnly_ChangesNothing) {
    for_all_means([&] {
        SandboxProfile limited = profile.without_writes();
        const Ran ran = cubepi::run(run_sandboxed(limited, base / "ws", "cat file; echo x > file"));
        EXPECT_THAT(ran.output, HasSubstr("old\n"));
        EXPECT_FALSE(ran.status.ok());
        EXPECT_EQ(base.get("ws/file"), "old\n");
    });
}

TEST_F(SandboxTest, VisibleDirectory_IsReadInHiddenOne) {
    profile.visible = {base / "secret/session"};
    for_all_means([&] {
        expect_output("cat ../secret/session/note; cat ../secret/key 2>&- || echo hidden",
                      "shown\nhidden\n");
    });
}

TEST_F(SandboxTest, WritableDirectory_MayBeInHiddenOne) {
    profile.writable.push_back(base / "secret/session");
    for_all_means([&] {
        expect_output("echo y > ../secret/session/new && cat ../secret/session/new", "y\n");
        EXPECT_EQ(base.get("secret/session/new"), "y\n");
        expect_output("cat ../secret/key 2>&- || echo hidden", "hidden\n");
    });
}

TEST_F(SandboxTest, WritableDirectory_MayBeNestedInHiddenOne) {
    // A gateway in a temporary directory: writable, in it hidden, in it writable, in it protected.
    base.put("secret/session/.git/config", "[core]\n");
    profile.writable = {base.path(), base / "secret/session"};
    profile.read_only = {base / "secret/session/.git/config"};
    for_all_means([&] {
        if (sandbox_holds(profile, SandboxProperty::hidden)) {
            expect_output("cat ../secret/key 2>&- || echo hidden", "hidden\n");
            expect_output("(echo x > ../secret/session/.git/config) 2>&- || echo same", "same\n");
            expect_output("mv ../secret/session/.git ../x 2>&- || echo pinned", "pinned\n");
            expect_output("mv ../secret ../x 2>&- || echo pinned", "pinned\n");
        }
        expect_output("echo y > ../secret/session/new && cat ../secret/session/new", "y\n");
        EXPECT_EQ(base.get("secret/session/new"), "y\n");
    });
}

TEST_F(SandboxTest, MissingPaths_HaveNoEffect) {
    profile.writable.push_back(base / "missing");
    profile.read_only.push_back(base / "ws/none");
    profile.hidden.push_back(base / "nowhere/key");
    expect_output("echo works", "works\n");
}

TEST_F(SandboxTest, Loopback_ConnectsCommands) {
    if (!sandbox_support().namespaces) {
        EXPECT_FALSE(sandbox_holds(profile, SandboxProperty::metadata));
        return;
    }
    expect_output("cat /sys/class/net/lo/operstate > /dev/null; grep -c : /proc/net/dev", "1\n");
}

TEST_F(SandboxTest, StartFailure_NamesProgram) {
    try {
        ProcessOptions options("/no/such/program");
        const auto sandbox = std::make_shared<const SandboxProfile>(profile);
        cubepi::run(launcher_of(*Runtime::standard(), sandbox)->start(std::move(options)));
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::not_found) << error.what();
    }
}

TEST_F(SandboxTest, Bubblewrap_StartsAsOtherMeans) {
    profile.use_namespaces = false;
    profile.max_landlock_abi = 0;
    if (!detail::bubblewrap().problem.empty()) {
        EXPECT_FALSE(sandbox_holds(profile, SandboxProperty::writes));
        EXPECT_THROW((void)run("true"), Error);
        return;
    }
    // Neither its descriptors nor other processes are in the sandbox; its options are not in the list of processes.
    expect_output("ls /proc/self/fd | wc -l", "4\n");
    expect_output("test -d /proc/" + std::to_string(::getpid()) + " || echo none", "none\n");
    expect_output("grep -c s[e]cret /proc/1/cmdline || true", "0\n");
    const Ran ran = run("exit 3");
    EXPECT_EQ(ran.status.code, 3);
}

TEST_F(SandboxTest, Bubblewrap_EndsWithItsSupervisor) {
    profile.use_namespaces = false;
    profile.max_landlock_abi = 0;
    if (detail::bubblewrap().problem.empty()) cubepi::run(lose_supervisor(profile, base / "ws"));
}

TEST_F(SandboxTest, Bubblewrap_MountsNoLinks) {
    const std::filesystem::path real = std::filesystem::canonical(base / "ws");
    std::filesystem::create_directory(real / "sub");
    EXPECT_TRUE(detail::open_place(real / "sub"));
    std::filesystem::create_directory_symlink(real, real / "link");
    for (const char* path : {"link", "link/sub", "none"})
        EXPECT_FALSE(detail::open_place(real / path)) << path;
}

TEST_F(SandboxTest, D281_LinkOfEarlierCommand_LeadsNowhere) {
    const std::string inner = base / "ws/a/b";
    const std::string outside = base / "outside";
    const std::string secret = base / "secret";
    std::filesystem::create_directory(outside);
    profile.writable = {base / "ws", inner};
    profile.read_only = {};
    profile.visible = {inner};
    const auto put_link_to = [&](const std::string& target) {
        std::filesystem::remove_all(base / "ws");
        std::filesystem::create_directories(inner);
        EXPECT_TRUE(run("mv a old && mkdir a && ln -s " + target + " a/b").status.ok());
    };
    for_all_means([&] {
        put_link_to(outside);
        EXPECT_FALSE(run("echo evil > a/b/file").status.ok());
        EXPECT_TRUE(std::filesystem::is_empty(outside));
        put_link_to(secret);
        EXPECT_THAT(run("cat a/b/key").output, ::testing::Not(HasSubstr("sk-1")));
        const SandboxProfile with_writes = std::exchange(profile, profile.without_writes());
        EXPECT_THAT(run("cat a/b/key").output, ::testing::Not(HasSubstr("sk-1")));
        profile = with_writes;
        expect_output("echo new > a/file && cat a/file", "new\n");
    });
}

TEST_F(SandboxTest, DirectoryInHiddenOne_IsNotEntered) {
    if (!detail::shared_namespaces().problem.empty()) return;
    try {
        cubepi::run(run_sandboxed(profile, base / "secret", "true"));
        FAIL();
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("its sandbox could not be set up: directory"));
    }
}

TEST_F(SandboxTest, Descriptors_AreNotInherited) {
    expect_output("ls /proc/self/fd | wc -l", "4\n");  // the three streams, and that of ls
    const std::size_t before = open_files();
    expect_output("true", "");
    EXPECT_EQ(open_files(), before);
}

TEST_F(SandboxTest, Guarantees_FollowMeans) {
    profile.use_namespaces = false;
    profile.max_landlock_abi = 2;
    EXPECT_FALSE(sandbox_holds(profile, SandboxProperty::read_only));
    EXPECT_FALSE(sandbox_holds(profile, SandboxProperty::metadata));
    EXPECT_FALSE(sandbox_holds(profile, SandboxProperty::signals));
    EXPECT_TRUE(sandbox_holds(profile, SandboxProperty::truncation));
    EXPECT_TRUE(sandbox_holds(profile, SandboxProperty::hidden));
    profile.hidden = {base / "ws/.git"};
    EXPECT_FALSE(sandbox_holds(profile, SandboxProperty::hidden));
    profile.network = true;
    EXPECT_FALSE(sandbox_holds(profile, SandboxProperty::network));
}

TEST_F(SandboxTest, RuntimeLauncher_IsUnchanged) {
    struct Other final : ProcessLauncher {
        Task<std::shared_ptr<Process>> start(ProcessOptions) override { co_return nullptr; }
    };
    const auto other = std::make_shared<Other>();
    Runtime runtime(*Runtime::standard());
    runtime.processes = other;
    EXPECT_EQ(launcher_of(runtime, std::make_shared<const SandboxProfile>()), other);
}

TEST(SandboxPaths, PathOfNothing_IsNotTheRoot) {
    SandboxProfile profile;
    profile.writable = {"", "/usr"};
    EXPECT_EQ(detail::SandboxPaths(profile).writable, std::vector<std::string>{"/usr"});
    const ScopedTestDirectory base;
    std::filesystem::create_directory(base / "removed");
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(base / "removed");
    std::filesystem::remove(base / "removed");
    profile.writable = {".", "", "/usr"};
    const detail::SandboxPaths paths(profile);
    std::filesystem::current_path(before);
    EXPECT_EQ(paths.writable, std::vector<std::string>{"/usr"});
}

TEST(SandboxPaths, Devices_AreFound) {
    const detail::SandboxPaths paths{SandboxProfile()};
    EXPECT_THAT(paths.devices, ::testing::Contains("/dev/null"));
    for (const std::string& device : paths.devices) {
        EXPECT_FALSE(std::filesystem::is_symlink(device)) << device;
        EXPECT_TRUE(detail::open_place(device)) << device;
    }
}

TEST(SandboxPaths, Nesting_HasPrecedence) {
    EXPECT_TRUE(detail::is_within("/a/b", "/a"));
    EXPECT_TRUE(detail::is_within("/a", "/"));
    EXPECT_FALSE(detail::is_within("/ab", "/a"));
    SandboxProfile profile;
    profile.writable = {"/usr", "/etc"};
    profile.hidden = {"/usr", "/etc/passwd", "/dev"};
    profile.visible = {"/dev/pts", "/proc", "/usr/bin"};
    const detail::SandboxPaths paths(profile);
    EXPECT_EQ(paths.hidden, (std::vector<std::string>{"/dev", "/etc/passwd"}));
    EXPECT_EQ(paths.visible, (std::vector<std::string>{"/dev/pts"}));
}

}  // namespace
}  // namespace cubepi
