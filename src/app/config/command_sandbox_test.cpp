// The sandbox of commands in a linked work tree of git.

#include "command_sandbox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <cubepi/core/scoped_test_directory.hpp>

#include "../project/git_state.hpp"

namespace cubepi::app {
namespace {

namespace fs = std::filesystem;

/// A repository `project`, and a directory `roof` whose file `.git` names it.
class LinkedWorkTree : public ::testing::Test {
protected:
    LinkedWorkTree() {
        const char* const before = std::getenv("HOME");
        home_ = before ? before : "";
        setenv("HOME", (root / "home").c_str(), 1);
        fs::create_directories(root / "home");
        put(linked / "commondir", "../..\n");
        put(linked / "gitdir", (tree / ".git").string() + "\n");
        put(linked / "HEAD", "ref: refs/heads/roof\n");
        put(tree / ".git", "gitdir: " + linked.string() + "\n");
    }
    ~LinkedWorkTree() override { setenv("HOME", home_.c_str(), 1); }
    static void put(const fs::path& path, const std::string& text) {
        fs::create_directories(path.parent_path());
        std::ofstream(path) << text;
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
        if (writable) EXPECT_TRUE(has(profile->read_only, root / "project" / ".git" / "hooks"));
        return writable;
    }

    ScopedTestDirectory temporary;
    const fs::path root = fs::canonical(temporary.path());
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

TEST_F(LinkedWorkTree, Branch_IsThatOfTheTree) {
    EXPECT_EQ(git_branch(tree), "roof");
    fs::create_directories(tree / "src");
    EXPECT_EQ(git_branch(tree / "src"), "roof");
}

}  // namespace
}  // namespace cubepi::app
