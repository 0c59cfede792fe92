#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/workspace/files/file_access.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/workspace_test.hpp>

namespace cubepi {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t any_size = 1 << 20;

template <class F>
ErrorCode code_of(F call) {
    try {
        call();
    } catch (const Error& error) {
        return error.code();
    }
    return ErrorCode::unknown;
}

class LocalWorkspaceTest : public ::testing::Test {
protected:
    ScopedTestDirectory outside;
    ScopedTestDirectory directory;
    LocalWorkspace workspace{directory.path()};

    std::string read(const std::string& path) { return workspace.read(path, any_size); }
    void link(const std::string& target, const char* name) {
        std::filesystem::create_symlink(target, directory / name);
    }
};

TEST_F(LocalWorkspaceTest, FilesBelowRoot_AreReadAndWritten) {
    EXPECT_TRUE(workspace.write("a/b/c.txt", "one"));
    EXPECT_FALSE(workspace.write("a/b/c.txt", "two"));
    EXPECT_EQ(directory.get("a/b/c.txt"), "two");
    EXPECT_EQ(read("a/b/c.txt"), "two");
    EXPECT_EQ(read("./a//b/../b/c.txt"), "two");
    EXPECT_EQ(read(directory / "a/b/c.txt"), "two");
    EXPECT_EQ(workspace.stat("a").kind, FileKind::directory);
    EXPECT_EQ(workspace.stat("a/b/c.txt").size, 3u);
    EXPECT_EQ(workspace.stat("").kind, FileKind::directory);
}

TEST_F(LocalWorkspaceTest, List_IsSortedWithKinds) {
    directory.put("b.txt", "x");
    directory.put("a/x", "");
    link("b.txt", "c");
    const auto entries = workspace.list(".");
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[0].name, "a");
    EXPECT_EQ(entries[0].info.kind, FileKind::directory);
    EXPECT_EQ(entries[1].info.kind, FileKind::file);
    EXPECT_EQ(entries[2].info.kind, FileKind::symlink);
}

TEST_F(LocalWorkspaceTest, LinksDisabled_RefusesThemAnywhereInAPath) {
    directory.put("dir/f", "fine");
    link("dir/f", "link");
    link("dir", "other");
    LocalWorkspace strict(directory.path(), WorkspacePolicy().without_links());
    EXPECT_EQ(strict.read("dir/f", any_size), "fine");
    for (const char* path : {"link", "other/f", "dir/../link"}) {
        EXPECT_EQ(read(path), "fine");
        EXPECT_EQ(code_of([&] { strict.open(path); }), ErrorCode::permission_denied) << path;
        EXPECT_EQ(code_of([&] { strict.write(path, "x"); }), ErrorCode::permission_denied) << path;
    }
    EXPECT_EQ(code_of([&] { strict.list("other"); }), ErrorCode::permission_denied);
    EXPECT_EQ(directory.get("dir/f"), "fine");
    EXPECT_EQ(strict.list(".").size(), 3u) << "a link is listed as one";
}

/// Otherwise undoing the change of one would change the other.
TEST_F(LocalWorkspaceTest, D72_ViewWithoutLinks_RefusesThem) {
    directory.put("docs/a", "a");
    std::filesystem::create_directory_symlink("docs", directory.path() / "d");
    std::filesystem::create_symlink("a", directory.path() / "docs/link");
    LocalWorkspace all(directory.path());
    const std::shared_ptr<Workspace> view = all.without_links();
    EXPECT_EQ(view->read("docs/a", 10), "a");
    for (const char* const path : {"d/a", "docs/link", "d/new"}) {
        const auto ignore = [](const FileBefore&) { return std::optional<std::string>("b"); };
        EXPECT_THROW((void)view->open(path), Error) << path;
        EXPECT_THROW(view->rewrite(path, 10, ignore), Error) << path;
        EXPECT_THROW((void)view->write_target(path), Error) << path;
    }
    EXPECT_THROW((void)view->list("d"), Error);
    EXPECT_EQ(all.read("d/link", 10), "a") << "the workspace itself follows them";
}

TEST_F(LocalWorkspaceTest, FileOfAnotherRoot_StaysApart) {
    ScopedTestDirectory other;
    directory.put("f", "main");
    other.put("f", "other");
    WorkspacePolicy policy;
    policy.more_roots = {other.path()};
    LocalWorkspace both(directory.path(), std::move(policy));
    const std::string path = both.write_target((other.path() / "f").string());
    EXPECT_EQ(path, (std::filesystem::canonical(other.path()) / "f").string());
    both.replace(path, 100, [](const FileBefore& before) {
        EXPECT_EQ(before.content, "other");
        return std::optional<FileAfter>(FileAfter());
    });
    EXPECT_FALSE(std::filesystem::exists(other.path() / "f"));
    EXPECT_EQ(directory.get("f"), "main");
}

TEST_F(LocalWorkspaceTest, WriteTargets_AreResolved) {
    directory.put("dir/sub/f", "");
    directory.put(".git/config", "");
    link(".git", "plain");
    link("../.git/config", "dir/notes.md");
    link("dir/sub", "short");
    for (const auto& [path, target] : std::initializer_list<std::pair<const char*, const char*>>{
             {"dir/./sub//f", "dir/sub/f"},
             {"dir/sub/../new", "dir/new"},
             {"plain/config", ".git/config"},
             {"plain/hooks/new/one", ".git/hooks/new/one"},
             {"dir/notes.md", ".git/config"},
             {"short/../x", "dir/x"},
             {"short/../../.git/x", ".git/x"},
             {"new/directory/f", "new/directory/f"}}) {
        EXPECT_EQ(workspace.write_target(path), target) << path;
    }
    EXPECT_EQ(workspace.write_target(directory / "plain/config"), ".git/config");
    for (const char* path : {"../x", "/etc/passwd", "new/../.git/config"})
        EXPECT_THROW(workspace.write_target(path), Error) << path;
}

TEST_F(LocalWorkspaceTest, FilesLinksAndEmptyDirectories_AreRemoved) {
    directory.put("a/x", "");
    link("a/x", "l");
    EXPECT_EQ(code_of([&] { workspace.remove("a"); }), ErrorCode::invalid_argument);
    workspace.remove("l");
    workspace.remove("a/x");
    workspace.remove("a");
    EXPECT_TRUE(workspace.list("").empty());
    EXPECT_EQ(code_of([&] { workspace.remove("a"); }), ErrorCode::not_found);
}

TEST_F(LocalWorkspaceTest, PathsOutsideTheRoot_AreRefused) {
    outside.put("secret", "s");
    directory.put("a/x", "");
    for (const std::string& path :
         {std::string("../x"), std::string("a/../../x"), std::string("/etc/passwd"),
          outside / "secret", std::string("/"), directory.path().string() + "x",
          directory.path().string() + "/../x"}) {
        EXPECT_EQ(code_of([&] { read(path); }), ErrorCode::permission_denied) << path;
        EXPECT_EQ(code_of([&] { workspace.write(path, "x"); }), ErrorCode::permission_denied)
            << path;
        EXPECT_EQ(code_of([&] { workspace.list(path); }), ErrorCode::permission_denied) << path;
        EXPECT_EQ(code_of([&] { workspace.stat(path); }), ErrorCode::permission_denied) << path;
        EXPECT_EQ(code_of([&] { workspace.remove(path); }), ErrorCode::permission_denied) << path;
    }
    EXPECT_EQ(code_of([&] { read(std::string("a\0b", 3)); }), ErrorCode::invalid_argument);
}

TEST_F(LocalWorkspaceTest, Links_AreFollowedOnlyInsideTheRoot) {
    outside.put("secret", "s");
    directory.put("dir/in.txt", "in");
    link("dir", "d");
    link("in.txt", "dir/l.txt");
    link(outside.path().string(), "out");
    link("../" + outside.path().filename().string(), "relative_out");
    link(outside / "secret", "file_out");
    EXPECT_EQ(read("d/l.txt"), "in");
    for (const char* path : {"out/secret", "relative_out/secret", "file_out", "d/../out/secret"}) {
        EXPECT_EQ(code_of([&] { read(path); }), ErrorCode::permission_denied) << path;
        EXPECT_EQ(code_of([&] { workspace.write(path, "x"); }), ErrorCode::permission_denied)
            << path;
    }
    EXPECT_EQ(code_of([&] { workspace.write("out/new/file", "x"); }), ErrorCode::permission_denied);
    EXPECT_EQ(code_of([&] { workspace.list("out"); }), ErrorCode::permission_denied);
    EXPECT_EQ(code_of([&] { workspace.remove("out/secret"); }), ErrorCode::permission_denied);
    EXPECT_EQ(outside.get("secret"), "s");
    EXPECT_FALSE(std::filesystem::exists(outside / "new"));
    workspace.remove("out");
    EXPECT_EQ(outside.get("secret"), "s");
}

TEST_F(LocalWorkspaceTest, LinkInsideTheRoot_IsWrittenThrough) {
    directory.put("dir/real", "old");
    link("dir/real", "l");
    link("l", "l2");
    EXPECT_FALSE(workspace.write("l2", "new"));
    EXPECT_EQ(directory.get("dir/real"), "new");
    EXPECT_TRUE(std::filesystem::is_symlink(directory / "l"));
    link("loop", "loop");
    EXPECT_EQ(code_of([&] { workspace.write("loop", "x"); }), ErrorCode::permission_denied);
    EXPECT_EQ(code_of([&] { read("loop"); }), ErrorCode::permission_denied);
}

TEST_F(LocalWorkspaceTest, MagicLinks_AreRefused) {
    EXPECT_EQ(code_of([&] { read("/proc/self/environ"); }), ErrorCode::permission_denied);
    link("/proc/self/root", "r");
    EXPECT_EQ(code_of([&] { read("r/etc/passwd"); }), ErrorCode::permission_denied);
}

TEST_F(LocalWorkspaceTest, Errors_NameTheCause) {
    directory.put("f", "x");
    EXPECT_EQ(code_of([&] { read("nothing"); }), ErrorCode::not_found);
    EXPECT_EQ(code_of([&] { read("f/x"); }), ErrorCode::not_found);
    EXPECT_EQ(code_of([&] { read(""); }), ErrorCode::invalid_argument);
    EXPECT_EQ(code_of([&] { workspace.list("f"); }), ErrorCode::not_found);
    EXPECT_EQ(code_of([&] { workspace.write("", "x"); }), ErrorCode::invalid_argument);
    EXPECT_EQ(code_of([&] { workspace.read("f", 0); }), ErrorCode::too_large);
    try {
        read("nothing");
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("List the parent directory"));
    }
    EXPECT_EQ(code_of([&] { LocalWorkspace("/nowhere/at/all"); }), ErrorCode::not_found);
}

TEST_F(LocalWorkspaceTest, Pipe_IsNotWaitedFor) {
    ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
    EXPECT_EQ(code_of([&] { read("pipe"); }), ErrorCode::invalid_argument);
    EXPECT_EQ(code_of([&] { workspace.write("pipe", "x"); }), ErrorCode::invalid_argument);
}

TEST_F(LocalWorkspaceTest, Write_KeepsModeAndLeavesNoTemporaryFiles) {
    directory.put("run.sh", "old");
    ASSERT_EQ(::chmod((directory / "run.sh").c_str(), 0751), 0);
    workspace.write("run.sh", "new");
    struct stat info{};
    ASSERT_EQ(::stat((directory / "run.sh").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0751u);
    EXPECT_EQ(workspace.list("").size(), 1u);
}

TEST_F(LocalWorkspaceTest, ConcurrentRead_SeesOldOrNewContent) {
    const std::string old_text(300000, 'a');
    const std::string new_text(300000, 'b');
    workspace.write("f", old_text);
    std::atomic<bool> done = false;
    std::thread writer([&] {
        for (int i = 0; i < 50; ++i) workspace.write("f", i % 2 == 0 ? new_text : old_text);
        done = true;
    });
    bool torn = false;
    do {
        const auto seen = read("f");
        torn = torn || (seen != old_text && seen != new_text);
    } while (!done);
    writer.join();
    EXPECT_FALSE(torn);
}

TEST_F(LocalWorkspaceTest, ConcurrentUpdates_LoseNothing) {
    workspace.write("count", "");
    const auto add = [&] {
        for (int i = 0; i < 50; ++i)
            workspace.update("count", any_size, [](std::string text) { return text + "x"; });
    };
    std::thread other(add);
    add();
    other.join();
    EXPECT_EQ(read("count").size(), 100u);
}

TEST_F(LocalWorkspaceTest, FailedUpdate_ChangesNothing) {
    workspace.write("f", "old");
    EXPECT_THROW(
        workspace.update("f", any_size,
                         [](std::string) -> std::string { throw std::runtime_error("no"); }),
        std::runtime_error);
    EXPECT_EQ(directory.get("f"), "old");
}

TEST_F(LocalWorkspaceTest, ReadOnlyRoots_AreReadAndNeverWritten) {
    outside.put("spilled.txt", "text");
    LocalWorkspace both(directory.path(), WorkspacePolicy().also_read(outside.path()));
    EXPECT_EQ(both.read(outside / "spilled.txt", any_size), "text");
    EXPECT_EQ(both.list(outside.path().string()).size(), 1u);
    EXPECT_EQ(code_of([&] { both.write(outside / "spilled.txt", "x"); }),
              ErrorCode::permission_denied);
    EXPECT_EQ(code_of([&] { both.remove(outside / "spilled.txt"); }), ErrorCode::permission_denied);
    EXPECT_EQ(code_of([&] { both.read(outside.path().string() + "/../x", any_size); }),
              ErrorCode::permission_denied);
}

TEST_F(LocalWorkspaceTest, ReadOnlyWorkspace_RefusesWritesAndCommands) {
    directory.put("f", "x");
    LocalWorkspace fixed(directory.path(), WorkspacePolicy().read_only());
    EXPECT_EQ(fixed.read("f", any_size), "x");
    EXPECT_EQ(code_of([&] { fixed.write("f", "y"); }), ErrorCode::permission_denied);
    EXPECT_EQ(code_of([&] { fixed.update("f", any_size, [](std::string s) { return s; }); }),
              ErrorCode::permission_denied);
    EXPECT_EQ(code_of([&] { run(fixed.start(ProcessRequest("true"))); }),
              ErrorCode::permission_denied);
}

Task<std::string> output_of(LocalWorkspace* workspace, ProcessRequest request) {
    const std::shared_ptr<Process> process = co_await workspace->start(std::move(request));
    std::string output;
    for (bool more = true; more;) more = co_await process->read(output);
    co_return output;
}

TEST_F(LocalWorkspaceTest, Command_RunsInTheRequestedDirectory) {
    directory.put("a/x", "");
    EXPECT_EQ(run(output_of(&workspace, ProcessRequest("pwd; pwd >&2"))),
              directory.path().string() + "\n" + directory.path().string() + "\n");
    EXPECT_EQ(run(output_of(&workspace, ProcessRequest("pwd", "a"))), directory / "a\n");
    for (const char* where : {"..", "none"})
        EXPECT_THROW(run(workspace.start(ProcessRequest("pwd", where))), Error) << where;
    WorkspacePolicy policy;
    policy.shell = "/no/such/shell";
    LocalWorkspace broken(directory.path(), std::move(policy));
    EXPECT_EQ(code_of([&] { run(broken.start(ProcessRequest("true"))); }), ErrorCode::not_found);
}

TEST_F(LocalWorkspaceTest, B12_StandardInput_IsEmpty) {
    EXPECT_EQ(
        run(output_of(&workspace, ProcessRequest("readlink /proc/self/fd/0; cat; echo done"))),
        "/dev/null\ndone\n");
}

TEST_F(LocalWorkspaceTest, D58_Environment_ContainsNoSecrets) {
    ::setenv("CUBEPI_TEST_API_KEY", "SECRET", 1);
    ::setenv("CUBEPI_TEST_OTHER", "SECRET2", 1);
    WorkspacePolicy policy;
    policy.hidden_variables = {"CUBEPI_TEST_OTHER"};
    policy.extra_environment = {"CUBEPI_TEST_GIVEN=yes", "TERM=vt100"};
    LocalWorkspace other(directory.path(), std::move(policy));
    const std::string output = run(output_of(&other, ProcessRequest("env")));
    EXPECT_THAT(output, Not(HasSubstr("SECRET")));
    EXPECT_THAT(output, HasSubstr("CUBEPI_TEST_GIVEN=yes\n"));
    EXPECT_THAT(output, HasSubstr("TERM=vt100\n"));
    EXPECT_THAT(output, HasSubstr("PAGER=cat\n"));
    EXPECT_THAT(output, HasSubstr("PATH="));
}

TEST_F(LocalWorkspaceTest, AliasOfTheRoot_IsAccepted) {
    std::filesystem::create_directory_symlink(directory.path(), outside / "alias");
    directory.put("f", "x");
    LocalWorkspace other(outside / "alias");
    EXPECT_EQ(other.read(directory / "f", any_size), "x");
    EXPECT_EQ(other.read(outside / "alias/f", any_size), "x");
    EXPECT_EQ(other.root(), outside / "alias");
}

/// While one thread repeatedly replaces a directory by a link to the outside, no access may leave the root.
TEST_F(LocalWorkspaceTest, SwappedLink_NeverLeadsOut) {
    outside.put("f", "SECRET");
    directory.put("dir/f", "fine");
    link(outside.path().string(), "link");
    std::atomic<bool> done = false;
    std::thread swapper([&] {
        const auto dir = directory / "dir";
        const auto other = directory / "link";
        while (!done) ::renameat2(AT_FDCWD, dir.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
    });
    int read_fine = 0;
    int refused = 0;
    for (int i = 0; i < 500 || (i < 300000 && (read_fine == 0 || refused == 0)); ++i) {
        try {
            const auto text = read("dir/f");
            if (text == "SECRET") {
                ADD_FAILURE() << "read the file outside";
                break;
            }
            ++read_fine;
        } catch (const Error&) {
            ++refused;
        }
        try {
            workspace.write("dir/w", "x");
            workspace.write("dir/new/w", "x");
        } catch (const Error&) {
        }
    }
    done = true;
    swapper.join();
    EXPECT_GT(read_fine, 0);
    EXPECT_GT(refused, 0);
    EXPECT_EQ(outside.get("f"), "SECRET");
    EXPECT_FALSE(std::filesystem::exists(outside / "w"));
    EXPECT_FALSE(std::filesystem::exists(outside / "new"));
}

/// The fallback for kernels without openat2.
class WalkTest : public LocalWorkspaceTest {
protected:
    const detail::UniqueFd root = detail::open_file(directory.path().c_str(), O_PATH | O_DIRECTORY);

    int failure(const std::string& path, int flags = O_RDONLY) {
        const auto fd = detail::open_beneath_walk(root.get(), path, flags);
        return fd ? 0 : errno;
    }
};

TEST_F(WalkTest, Walk_OpensWhatOpenat2Opens) {
    directory.put("a/b/f", "x");
    link("a/b", "l");
    link("../../a/b/f", "a/b/up");
    outside.put("f", "s");
    link(outside.path().string(), "out");
    link("..", "parent");
    link("loop", "loop");
    for (const char* path : {"a/b/f", "./a/./b//f", "l/f", "a/../a/b/f", "a/b/up", "", ".",
                             "a/b/f/..", "a/..", "l/.."}) {
        const auto fast = detail::open_beneath(root.get(), path, O_RDONLY);
        const int code = fast ? 0 : errno;
        EXPECT_EQ(failure(path), code) << path;
    }
    for (const char* path : {"..", "a/../..", "/etc", "out/f", "parent", "parent/x", "loop",
                             "nothing", "a/nothing", "a/b/f/x"}) {
        const auto fast = detail::open_beneath(root.get(), path, O_RDONLY);
        ASSERT_FALSE(fast) << path;
        const int code = errno;
        // The walk treats every path as relative; openat2 refuses an absolute one.
        if (path[0] == '/') continue;
        EXPECT_EQ(failure(path), code) << path;
    }
}

TEST_F(WalkTest, SwappedLink_NeverLeadsOut) {
    outside.put("f", "SECRET");
    directory.put("dir/f", "fine");
    link(outside.path().string(), "link");
    std::atomic<bool> done = false;
    std::thread swapper([&] {
        const auto dir = directory / "dir";
        const auto other = directory / "link";
        while (!done) ::renameat2(AT_FDCWD, dir.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
    });
    int opened = 0;
    for (int i = 0; i < 1000 || (opened == 0 && i < 300000); ++i) {
        const auto fd = detail::open_beneath_walk(root.get(), "dir/f", O_RDONLY);
        char text[16] = {};
        if (!fd || ::read(fd.get(), text, 15) <= 0) continue;
        ++opened;
        ASSERT_STREQ(text, "fine");
    }
    done = true;
    swapper.join();
    EXPECT_GT(opened, 0);
}

TEST_F(WalkTest, Links_AreRefusedAsByOpenat2) {
    directory.put("dir/f", "fine");
    link("dir", "other");
    link("dir/f", "file");
    for (const char* path : {"other/f", "file", "dir/../other/f"}) {
        for (const auto open : {&detail::open_beneath, &detail::open_beneath_walk}) {
            EXPECT_FALSE(open(root.get(), path, O_RDONLY, detail::Links::refused)) << path;
            EXPECT_EQ(errno, ELOOP) << path;
            EXPECT_TRUE(open(root.get(), "dir/f", O_RDONLY, detail::Links::refused));
        }
    }
}

}  // namespace

}  // namespace cubepi
