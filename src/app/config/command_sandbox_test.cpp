// The sandbox of commands in a linked work tree of git.

#include "command_sandbox.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/process/sandbox.hpp>
#include <cubepi/workspace/local_workspace.hpp>

#include "../project/git.hpp"

namespace cubepi::app {
namespace {

namespace fs = std::filesystem;

/// A workspace that is the home directory.
class HomeAsWorkspace : public ::testing::Test {
protected:
    HomeAsWorkspace() {
        for (const char* const name : {"HOME", "XDG_CONFIG_HOME", "BUB_HOME"}) {
            const char* const before = std::getenv(name);
            saved.emplace_back(name, before ? std::optional<std::string>(before) : std::nullopt);
            unsetenv(name);
        }
        setenv("HOME", home.path().c_str(), 1);
        for (const char* const name :
             {".ssh/id_rsa", ".config/cubepi/config.yaml", "notes/a", ".bub/spill/x/result"})
            home.put(name, "text\n");
        fs::create_directory_symlink(".ssh", home.path() / "innocent");
    }
    ~HomeAsWorkspace() override {
        for (const auto& [name, value] : saved) {
            if (value) {
                setenv(name, value->c_str(), 1);
            } else {
                unsetenv(name);
            }
        }
    }
    /// Returns true if the mode `all` does not run the call.
    bool asks(const std::string& tool, const std::string& path, const SandboxSettings& settings) {
        ToolRules rules(home.path().string());
        restrict_hidden(rules, settings, {home.path()}, home.path() / ".bub/spill/x");
        const ToolRisk risk = tool == "write" ? ToolRisk::writes : ToolRisk::read_only;
        return rules.decide(tool, risk, {{"path", path}}, *workspace).always_asks;
    }

    ScopedTestDirectory home;
    std::shared_ptr<LocalWorkspace> workspace = std::make_shared<LocalWorkspace>(home.path());
    std::vector<std::pair<const char*, std::optional<std::string>>> saved;
};

TEST_F(HomeAsWorkspace, D150_FilesThatCommandsCannotSee_AreAskedAbout) {
    SandboxSettings settings;
    for (const char* const tool : {"read", "grep", "write"}) {
        for (const char* const path :
             {".ssh/id_rsa", "innocent/id_rsa", ".SSH/id_rsa", "~/.ssh/id_rsa",
              ".config/cubepi/config.yaml", ".bub/tapes/x", ".netrc"}) {
            const std::string full =
                path[0] == '~' ? home.path().string() + (path + 1) : std::string(path);
            EXPECT_TRUE(asks(tool, full, settings)) << tool << " " << path;
        }
        EXPECT_FALSE(asks(tool, "notes/a", settings)) << tool;
    }
    EXPECT_TRUE(asks("grep", ".", settings)) << "the keys are below it";
    EXPECT_FALSE(asks("read", ".bub/spill/x/result", settings)) << "a result of the agent";
    settings.readable = {home.path() / ".ssh"};
    EXPECT_FALSE(asks("read", ".ssh/id_rsa", settings));
}

TEST_F(HomeAsWorkspace, D150_OtherWorkspace_HasNoSuchRules) {
    ToolRules rules;
    restrict_hidden(rules, SandboxSettings(), {home.path() / "notes", home.path() / ".bub/x"});
    EXPECT_TRUE(rules.restrictions().empty());
}

/// A repository `project`, and a directory `roof` whose file `.git` names it.
class LinkedWorkTree : public ::testing::Test {
protected:
    LinkedWorkTree() {
        const char* const before = std::getenv("HOME");
        home_ = before ? before : "";
        setenv("HOME", (root / "home").c_str(), 1);
        fs::create_directories(root / "home");
        put(root / "project" / ".git" / "HEAD", "ref: refs/heads/main\n");
        fs::create_directories(root / "project" / ".git" / "objects");
        put(linked / "commondir", "../..\n");
        put(linked / "gitdir", (tree / ".git").string() + "\n");
        put(linked / "HEAD", "ref: refs/heads/roof\n");
        put(tree / ".git", "gitdir: " + linked.string() + "\n");
    }
    ~LinkedWorkTree() override {
        setenv("HOME", home_.c_str(), 1);
        std::error_code ignored;
        fs::remove_all(root, ignored);
    }
    /// Not a temporary directory: those are writable for commands.
    static fs::path new_root() {
        const fs::path cache = fs::path(std::getenv("HOME")) / ".cache";
        fs::create_directories(cache);
        std::string name = (cache / "cubepi-test-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no directory");
        return fs::canonical(name);
    }
    static void put(const fs::path& path, const std::string& text) {
        fs::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    std::vector<fs::path> writable_in(const fs::path& workspace) const {
        SandboxSettings settings;
        settings.mode = SandboxSettings::Mode::workspace;
        const auto profile = CommandSandboxes(settings, {}).profile(workspace);
        return profile ? profile->writable : std::vector<fs::path>();
    }
    bool repository_is_writable() const {
        SandboxSettings settings;
        settings.mode = SandboxSettings::Mode::workspace;
        const auto profile = CommandSandboxes(settings, {}).profile(tree);
        if (!profile) return supported = false;
        const auto has = [](const std::vector<fs::path>& paths, const fs::path& path) {
            return std::find(paths.begin(), paths.end(), path) != paths.end();
        };
        const bool writable = has(profile->writable, root / "project" / ".git");
        if (writable) {
            EXPECT_TRUE(has(profile->read_only, root / "project" / ".git" / "hooks"));
        }
        return writable;
    }

    const fs::path root = new_root();
    const fs::path linked = root / "project" / ".git" / "worktrees" / "roof";
    const fs::path tree = root / "roof";
    mutable bool supported = true;

private:
    std::string home_;
};

TEST_F(LinkedWorkTree, D212_Repository_IsWritableIfItNamesTheTree) {
    const bool writable = repository_is_writable();
    EXPECT_EQ(writable, supported);
    put(linked / "gitdir", (root / "other" / ".git").string() + "\n");
    EXPECT_FALSE(repository_is_writable()) << "it names another one";
    fs::remove(linked / "gitdir");
    EXPECT_FALSE(repository_is_writable()) << "a file .git of others names any directory";
}

TEST_F(LinkedWorkTree, D212_CommonDirectoryElsewhere_IsNotWritable) {
    put(linked / "commondir", (root / "home").string() + "\n");
    EXPECT_FALSE(repository_is_writable());
}

/// The directory above is that of a downloaded workspace, and no repository.
TEST_F(LinkedWorkTree, D212_DirectoryNamedWorktrees_IsNotARepository) {
    const fs::path workspace = root / "worktrees";
    put(workspace / ".git", "gitdir: w\n");
    put(workspace / "w" / "HEAD", "ref: refs/heads/main\n");
    put(workspace / "w" / "gitdir", "../.git\n");
    put(workspace / "w" / "commondir", "../..\n");
    const std::vector<fs::path> writable = writable_in(workspace);
    EXPECT_EQ(std::find(writable.begin(), writable.end(), root), writable.end());
}

/// The directory of a work tree that was removed may be one in which commands write.
TEST_F(LinkedWorkTree, D212_LinkOfRemovedTree_AddsNoRepository) {
    const fs::path workspace = root / "other";
    const ScopedTestDirectory temporary;
    put(linked / "gitdir", temporary / ".git" + "\n");
    put(workspace / ".git", "gitdir: " + linked.string() + "\n");
    fs::create_symlink(workspace / ".git", temporary / ".git");
    const std::vector<fs::path> writable = writable_in(workspace);
    EXPECT_EQ(std::find(writable.begin(), writable.end(), root / "project" / ".git"),
              writable.end());
}

/// A command could replace it by a link.
TEST_F(LinkedWorkTree, D212_RepositoryInTheWorkspace_IsNotAdded) {
    const fs::path inner = tree / "a";
    put(tree / ".git", "gitdir: a/worktrees/w\n");
    put(inner / "HEAD", "ref: refs/heads/main\n");
    fs::create_directories(inner / "objects");
    put(inner / "worktrees" / "w" / "HEAD", "ref: refs/heads/main\n");
    put(inner / "worktrees" / "w" / "gitdir", (tree / ".git").string() + "\n");
    put(inner / "worktrees" / "w" / "commondir", "../..\n");
    const std::vector<fs::path> writable = writable_in(tree);
    EXPECT_EQ(std::find(writable.begin(), writable.end(), inner), writable.end());
}

TEST_F(LinkedWorkTree, D212_PipeInsteadOfAFile_DoesNotBlock) {
    fs::remove(linked / "gitdir");
    ASSERT_EQ(::mkfifo((linked / "gitdir").c_str(), 0600), 0);
    EXPECT_FALSE(repository_is_writable());
}

/// A command could name any repository of the user with a link.
TEST_F(LinkedWorkTree, LinkedRepository_GetsNoHooks) {
    const fs::path workspace = root / "other";
    fs::create_directories(workspace);
    fs::create_symlink(root / "project" / ".git", workspace / ".git");
    (void)writable_in(workspace);
    EXPECT_FALSE(fs::exists(root / "project" / ".git" / "hooks"));
    fs::remove(workspace / ".git");
    put(workspace / ".git" / "HEAD", "ref: refs/heads/main\n");
    fs::create_directories(workspace / ".git" / "objects");
    (void)writable_in(workspace);
    EXPECT_EQ(fs::exists(workspace / ".git" / "hooks"), sandbox_support().available());
}

TEST_F(LinkedWorkTree, Branch_IsThatOfTheTree) {
    EXPECT_EQ(git_branch(tree), "roof");
    fs::create_directories(tree / "src");
    EXPECT_EQ(git_branch(tree / "src"), "roof");
}

}  // namespace
}  // namespace cubepi::app
