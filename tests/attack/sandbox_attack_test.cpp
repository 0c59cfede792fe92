// Commands that try to leave their sandbox, with each version of Landlock, with and without namespaces, with bubblewrap alone, and
// without a sandbox, where the same attempts succeed.
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/process/environment.hpp>
#include <cubepi/process/process_test.hpp>
#include <cubepi/process/sandbox.hpp>
#include <cubepi/process/sandbox/bubblewrap.hpp>

#include "attack.hpp"

namespace cubepi::attack {

namespace {

using P = SandboxProperty;

/// A version of Landlock, with or without namespaces. With neither, bubblewrap.
struct Level {
    int landlock;
    bool namespaces;
    bool is_wrapped() const { return landlock == 0 && !namespaces; }
    bool has_mounts() const { return namespaces || is_wrapped(); }
    std::string text() const {
        if (is_wrapped()) return "bubblewrap";
        return "Landlock " + std::to_string(landlock) + (namespaces ? " and namespaces" : "");
    }
};

/// Those that this kernel has.
std::vector<Level> levels() {
    const SandboxSupport& support = sandbox_support();
    std::vector<Level> all;
    for (const int version : {1, 2, 4, support.landlock_abi}) {
        if (version > support.landlock_abi) continue;
        if (version > 0) all.push_back({version, false});
        if (support.namespaces) all.push_back({version, true});
    }
    if (support.namespaces) all.push_back({0, true});
    if (detail::bubblewrap().problem.empty()) all.push_back({0, false});
    return all;
}

/// The promises of docs/guides/sandbox.md, independently of the implementation.
bool is_promised(P property, const Level& level) {
    switch (property) {
        case P::metadata:
        case P::read_only: return level.has_mounts();
        case P::signals: return level.landlock >= 6 || level.is_wrapped();
        case P::process_limit: return level.namespaces && ::geteuid() != 0;
        default: return true;
    }
}

/// A listening or bound socket of this process.
struct Listener {
    detail::UniqueFd fd;
    Listener(int family, int type) : fd(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}

    std::string port() {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(address);
        bind_to(&address, size);
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
        return std::to_string(ntohs(address.sin_port));
    }
    void listen_at(const std::string& name, bool is_abstract) {
        sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        name.copy(address.sun_path + (is_abstract ? 1 : 0), sizeof(address.sun_path) - 2);
        bind_to(&address,
                static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 1));
    }
    /// Returns true if something has arrived since the last call.
    bool received() {
        char bytes[64];
        bool any = false;
        while (::recv(fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT) > 0) any = true;
        return any;
    }

private:
    template <class Address>
    void bind_to(Address* address, socklen_t size) {
        EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(address), size), 0)
            << std::strerror(errno);
        (void)::listen(fd.get(), 64);
    }
};

struct Attempt {
    P property;
    std::string command;
    /// False: the attempt may fail without a sandbox, too, because this machine forbids it or this user lacks the rights.
    bool works_otherwise = true;
    std::function<bool()> succeeded = nullptr;  ///< null: the command exits with 0
};

Task<bool> run_command(std::shared_ptr<const SandboxProfile> sandbox, std::string directory,
                       std::vector<std::string> environment, std::string line) {
    ProcessOptions options("/bin/bash");
    options.arguments = {"-c", std::move(line)};
    options.directory = std::move(directory);
    options.environment = std::move(environment);
    options.input = false;
    options.merge_errors = true;
    const std::shared_ptr<ProcessLauncher> launcher =
        launcher_of(*Runtime::standard(), std::move(sandbox));
    const std::shared_ptr<Process> process = co_await launcher->start(std::move(options));
    const ExitStatus status = co_await process->wait();
    co_await process->terminate(std::chrono::nanoseconds::zero());
    co_return status.ok();
}

class SandboxAttack : public ::testing::Test {
protected:
    // Not below /tmp by its name alone: the parent directory is not writable for the commands.
    ScopedTestDirectory base;
    SandboxProfile profile;
    std::vector<std::string> environment = child_environment(EnvironmentPolicy());

    SandboxAttack() {
        // Yama lets a process be traced by its own parent only, which would hide what the sandbox does.
        (void)::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        set("A", CUBEPI_SANDBOX_ATTACKER);
        set("OUT", base / "outside");
        set("SECRET", base / "secret");
        set("PARENT", std::to_string(::getpid()));
    }
    void set(const std::string& name, const std::string& value) {
        environment.push_back(name + "=" + value);
    }

    void prepare() {
        for (const char* name : {"ws", "outside", "secret"}) {
            std::filesystem::remove_all(base / name);
            std::filesystem::create_directories(base / name);
        }
        for (const char* name : {"ws/.git/hooks", "ws/private", "ws/sub"})
            std::filesystem::create_directories(base / name);
        base.put("ws/.git/config", "[core]\n");
        base.put("ws/private/key", "sk-2\n");
        base.put("ws/evil", "evil\n");
        base.put("outside/file", "old\n");
        base.put("secret/key", "sk-1\n");
        profile.writable = {base / "ws"};
        profile.read_only = {base / "ws/.git/hooks", base / "ws/.git/config"};
        profile.hidden = {base / "secret"};
    }

    bool succeeds(const Attempt& attempt, std::shared_ptr<const SandboxProfile> sandbox) {
        const bool exited =
            run(run_command(std::move(sandbox), base / "ws", environment, attempt.command));
        return attempt.succeeded ? attempt.succeeded() : exited;
    }

    /// Makes each attempt at each level. What is not promised must be reported as such.
    void attack(const std::string& name, const std::vector<Attempt>& attempts) {
        Row row("sandbox", name);
        Row outside("sandbox", name + " (without a sandbox: not prevented)");
        for (const Attempt& attempt : attempts) {
            SCOPED_TRACE(attempt.command);
            prepare();
            const bool works = succeeds(attempt, nullptr);
            EXPECT_TRUE(works || !attempt.works_otherwise) << "the attempt itself is wrong";
            outside.count(!works);
            for (const Level& level : levels()) {
                SCOPED_TRACE(level.text());
                prepare();
                adjust(level);
                const bool holds = sandbox_holds(profile, attempt.property);
                EXPECT_EQ(holds, is_promised(attempt.property, level));
                const bool got_through =
                    succeeds(attempt, std::make_shared<const SandboxProfile>(profile));
                if (holds) row.attempt(!got_through, attempt.command + ", " + level.text());
            }
        }
    }
    void adjust(const Level& level) {
        profile.max_landlock_abi = level.landlock;
        profile.use_namespaces = level.namespaces;
    }

    void TearDown() override { EXPECT_FALSE(has_children()); }
};

bool has_root() { return ::geteuid() == 0; }

}  // namespace

TEST_F(SandboxAttack, Writes_StayInside) {
    const auto changed = [this] {
        const bool same =
            std::filesystem::exists(base / "outside/file") && base.get("outside/file") == "old\n";
        std::size_t entries = 0;
        for ([[maybe_unused]] const auto& one :
             std::filesystem::directory_iterator(base / "outside"))
            ++entries;
        return !same || entries != 1;
    };
    std::vector<Attempt> attempts;
    for (const char* command : {
             "$A write $OUT/file",
             "$A write $OUT/new",
             "$A write ../outside/file",
             "echo evil > $OUT/file",
             "$A mkdir $OUT/directory",
             "$A symlink x $OUT/link",
             "$A unlink $OUT/file",
             "$A rename $OUT/file stolen",
             "$A rename evil $OUT/file",
             "$A exchange evil $OUT/file",
             "$A link evil $OUT/hard",
             "$A link $OUT/file hard && $A write hard",
             "ln -s $OUT link && $A write link/file",
             "ln -s $OUT/file link && echo evil > link",
             "mv sub old && ln -s $OUT sub && $A write sub/file",
             "ln -s $OUT other && $A exchange sub other && $A write sub/file",
             "$A write /proc/self/root$OUT/file",
             "$A write /proc/self/cwd/../outside/file",
             "$A write $PWD/../outside/file",
             "cd $OUT && $A write file",
             "exec 9>$OUT/file; echo evil >&9",
             "setsid -w $A write $OUT/file",
             "env -i $A write $OUT/file",
             "cp evil $OUT/file",
             "sed -i s/old/evil/ $OUT/file",
         })
        attempts.push_back({P::writes, command, true, changed});
    // A race: the directory is a link at some moments.
    attempts.push_back({P::writes,
                        "ln -s $OUT l; (while :; do $A exchange sub l; done) & "
                        "for i in {1..20}; do $A write sub/file; done; kill $!",
                        false, changed});
    attempts.push_back({P::writes, "$A write_own_memory"});
    attempts.push_back({P::writes, "$A mknod device", has_root()});
    attack("writes outside of the workspace", attempts);
}

TEST_F(SandboxAttack, Devices_AreNotOpened) {
    // Appending a line to the kernel's log, and reading the first disk.
    attack("devices", {{P::devices, "$A write /dev/kmsg", false},
                       {P::devices, "$A read /dev/kmsg", false},
                       {P::devices,
                        "for d in /dev/vda /dev/sda /dev/nvme0n1 /dev/loop0; do "
                        "$A read $d && exit 0; done; exit 1",
                        false}});
}

TEST_F(SandboxAttack, Truncation_StaysInside) {
    const auto cut = [this] { return base.get("outside/file") != "old\n"; };
    attack("truncation outside of the workspace",
           {{P::truncation, "$A truncate $OUT/file", true, cut},
            {P::truncation, "$A truncate_by_open $OUT/file", true, cut},
            {P::truncation, "ln -s $OUT/file l; $A truncate l", true, cut},
            {P::truncation, "truncate -s 0 $OUT/file", true, cut},
            {P::truncation, ": > $OUT/file", true, cut}});
}

TEST_F(SandboxAttack, Metadata_StaysOutside) {
    attack("modes, times and attributes outside of the workspace",
           {{P::metadata, "$A chmod $OUT/file"},
            {P::metadata, "$A touch $OUT/file"},
            {P::metadata, "$A attribute $OUT/file", false}});
}

TEST_F(SandboxAttack, ProtectedFiles_StayInPlace) {
    const auto steered = [this] {
        return std::filesystem::exists(base / "ws/.git/hooks/pre-commit") ||
               !std::filesystem::exists(base / "ws/.git/config") ||
               base.get("ws/.git/config") != "[core]\n";
    };
    std::vector<Attempt> attempts;
    for (const char* command : {
             "$A write .git/hooks/pre-commit",
             "$A write .git/config",
             "$A unlink .git/config",
             "$A rename evil .git/config",
             "$A exchange evil .git/config",
             "$A truncate .git/config",
             "$A rename .git/hooks .git/old; mkdir .git/hooks; $A write .git/hooks/pre-commit",
             "$A rename .git g; mkdir -p .git/hooks; $A write .git/hooks/pre-commit",
             "$A exchange .git sub; mkdir -p .git/hooks; $A write .git/hooks/pre-commit",
             "$A link .git/config other; $A write other",
             "ln -s .git/hooks h; $A write h/pre-commit",
             "rm -rf .git; mkdir -p .git/hooks; $A write .git/hooks/pre-commit",
             "chmod 777 .git/hooks; touch .git/hooks/pre-commit",
         })
        attempts.push_back({P::read_only, command, true, steered});
    attack("the hooks and the configuration of git", attempts);
}

TEST_F(SandboxAttack, Keys_AreNotRead) {
    std::vector<Attempt> attempts;
    for (const char* command : {
             "$A read $SECRET/key",
             "cat $SECRET/key",
             "ln -s $SECRET s; $A read s/key",
             "$A link $SECRET/key k && $A read k",
             "$A rename $SECRET/key k; $A read k",
             "$A read /proc/self/root$SECRET/key",
             "cd $SECRET && $A read key",
             "cp -r $SECRET copy && $A read copy/key",
         })
        attempts.push_back({P::hidden, command});
    attack("reading a file with keys", attempts);
}

TEST_F(SandboxAttack, KeysInWorkspace_NeedMounts) {
    Row row("sandbox", "reading a file with keys below the workspace");
    for (const Level& level : levels()) {
        for (const char* command :
             {"$A read private/key", "$A rename private p; $A read p/key",
              "$A exchange private sub; $A read sub/key", "rm -rf private; $A write private/key"}) {
            prepare();
            adjust(level);
            profile.hidden.push_back(base / "ws/private");
            ASSERT_EQ(sandbox_holds(profile, P::hidden), level.has_mounts()) << level.text();
            const bool got_through =
                succeeds({P::hidden, command}, std::make_shared<const SandboxProfile>(profile));
            if (level.has_mounts())
                row.attempt(!got_through && base.get("ws/private/key") == "sk-2\n",
                            std::string(command) + ", " + level.text());
        }
    }
}

TEST_F(SandboxAttack, Network_IsNotReached) {
    Listener tcp(AF_INET, SOCK_STREAM);
    Listener udp(AF_INET, SOCK_DGRAM);
    set("TCP", tcp.port());
    set("UDP", udp.port());
    const auto arrived = [&udp] { return udp.received(); };
    attack("the network", {{P::network, "$A tcp $TCP"},
                           {P::network, "echo > /dev/tcp/127.0.0.1/$TCP"},
                           {P::network, "$A udp $UDP", true, arrived},
                           {P::network, "echo x > /dev/udp/127.0.0.1/$UDP", true, arrived},
                           {P::network, "$A dns $UDP", true, arrived},
                           {P::network, "setsid -w $A tcp $TCP"},
                           {P::network, "$A vsock", false},
                           {P::network, "$A ring", false}});
}

TEST_F(SandboxAttack, UnixSockets_AreNotReached) {
    Listener path(AF_UNIX, SOCK_STREAM);
    Listener datagrams(AF_UNIX, SOCK_DGRAM);
    Listener name(AF_UNIX, SOCK_STREAM);
    std::filesystem::create_directories(base / "run");
    path.listen_at(base / "run/docker.sock", false);
    datagrams.listen_at(base / "run/log", false);
    const std::string abstract = "cubepi-attack-" + std::to_string(::getpid());
    name.listen_at(abstract, true);
    set("SOCKET", base / "run/docker.sock");
    set("LOG", base / "run/log");
    set("NAME", abstract);
    const auto arrived = [&datagrams] { return datagrams.received(); };
    attack("Unix sockets", {{P::path_unix, "$A unix $SOCKET"},
                            {P::path_unix, "ln -s $SOCKET s; $A unix s"},
                            {P::path_unix, "$A unix_by_pair $LOG", true, arrived},
                            {P::abstract_unix, "$A abstract $NAME"}});
    for (const bool network : {false, true}) {
        profile.unix_sockets = true;
        profile.network = network;
        Row row("sandbox", network ? "abstract sockets, with sockets and the network allowed"
                                   : "abstract sockets, with sockets allowed");
        for (const Level& level : levels()) {
            prepare();
            adjust(level);
            const bool holds = sandbox_holds(profile, P::abstract_unix);
            EXPECT_EQ(holds, (level.has_mounts() && !network) || level.landlock >= 6);
            const bool got_through = succeeds({P::abstract_unix, "$A abstract $NAME"},
                                              std::make_shared<const SandboxProfile>(profile));
            if (holds) row.attempt(!got_through, level.text());
        }
    }
}

TEST_F(SandboxAttack, OtherProcesses_AreNotTouched) {
    std::ostringstream address;
    static const char content = 'x';
    address << std::hex << reinterpret_cast<std::uintptr_t>(&content);
    set("ADDRESS", address.str());
    attack("other processes", {{P::processes, "$A trace $PARENT"},
                               {P::processes, "$A memory $PARENT"},
                               {P::processes, "$A read_vm $PARENT $ADDRESS"},
                               {P::processes, "$A environment $PARENT"},
                               {P::processes, "$A write_through_root $PARENT $OUT/file"},
                               {P::processes, "$A read_through_root $PARENT $SECRET/key"},
                               {P::processes, "$A read_through_root $PPID $SECRET/key", has_root()},
                               {P::processes, "$A trace $PPID", has_root()},
                               {P::processes, "$A limit $PARENT"},
                               {P::signals, "$A signal $PARENT"},
                               // In a namespace of processes, 1 is the sandbox's own.
                               {P::signals, "test $PPID -ne 1 && $A signal $PPID"}});
}

TEST_F(SandboxAttack, Terminals_AreNotUsed) {
    const detail::UniqueFd terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(terminal && ::grantpt(terminal.get()) == 0 && ::unlockpt(terminal.get()) == 0);
    char name[64] = {};
    ASSERT_EQ(::ptsname_r(terminal.get(), name, sizeof(name)), 0);
    set("TERMINAL", name);
    const auto shown = [&terminal] {
        char bytes[64];
        ::fcntl(terminal.get(), F_SETFL, O_NONBLOCK);
        return ::read(terminal.get(), bytes, sizeof(bytes)) > 0;
    };
    attack("the terminal of the user", {{P::terminals, "$A terminal $TERMINAL"},
                                        {P::terminals, "echo evil > $TERMINAL", true, shown}});
    // A command's own terminals work, where it can have some.
    for (const Level& level : levels()) {
        prepare();
        adjust(level);
        const bool works = succeeds({P::terminals, "$A new_terminal"},
                                    std::make_shared<const SandboxProfile>(profile));
        EXPECT_EQ(works, level.has_mounts()) << level.text();
    }
}

TEST_F(SandboxAttack, Privileges_AreNotGained) {
    if (has_root()) {
        std::filesystem::copy_file(CUBEPI_SANDBOX_ATTACKER, base / "setuid");
        ASSERT_EQ(::chown((base / "setuid").c_str(), 65534, 65534), 0);
        ASSERT_EQ(::chmod((base / "setuid").c_str(), 04755), 0);
    }
    set("SETUID", base / "setuid");
    attack("privileges", {{P::privileges, "$A may_gain_privileges"},
                          {P::privileges, "test -e $SETUID && $A setuid $SETUID", has_root()},
                          {P::privileges, "$A user_namespace", false},
                          {P::privileges, "$A clone_namespace", false},
                          {P::privileges, "unshare -Ur true", false},
                          {P::privileges, "$A keys", false}});
}

TEST_F(SandboxAttack, Mounts_AreNotChanged) {
    // Never without a sandbox: as root these would succeed.
    Row row("sandbox", "changes of mounts");
    for (const Level& level : levels()) {
        for (const char* command : {"$A mount sub", "$A unmount /proc", "$A unmount $SECRET",
                                    "$A unmount .git/hooks", "umount -l $PWD"}) {
            prepare();
            adjust(level);
            const bool got_through =
                succeeds({P::privileges, command}, std::make_shared<const SandboxProfile>(profile));
            row.attempt(!got_through, std::string(command) + ", " + level.text());
        }
    }
}

TEST_F(SandboxAttack, Variables_ActInsideOnly) {
    // A loader outside of the sandbox would stop at a library that is empty: bubblewrap uses this one.
    set("LD_LIBRARY_PATH", ".");
    Row row("sandbox", "variables of the loader outside of the sandbox");
    for (const Level& level : levels()) {
        prepare();
        adjust(level);
        base.put("ws/libcap.so.2", "");
        const bool is_started = succeeds({P::writes, "test \"$LD_LIBRARY_PATH\" = ."},
                                         std::make_shared<const SandboxProfile>(profile));
        row.attempt(is_started, level.text());
    }
}

TEST_F(SandboxAttack, ForkBomb_IsLimitedAndEnds) {
    profile.max_processes = 64;
    attack("a fork bomb",
           {{P::process_limit, "$A bomb 100"},
            {P::process_limit,
             "b() { if [ $1 -gt 0 ]; then b $(($1-1)) & b $(($1-1)) & fi; sleep 1000; }; b 4 & "
             "$A bomb 100"}});
}

}  // namespace cubepi::attack
