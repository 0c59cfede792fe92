// Work trees of git that the program makes, and which repositories it refuses.

#include "git.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

namespace cubepi::app {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// A repository `app` with a commit on the branch `main`.
class OpenWorkTree : public ::testing::Test {
protected:
    OpenWorkTree() {
        fs::create_directories(app);
        git(app, "init -q -b main");
        put(app / "a.txt", "one\n");
        git(app, "add .");
        git(app, "-c user.name=a -c user.email=a@b commit -q -m start");
    }
    static void git(const fs::path& directory, const std::string& arguments) {
        const std::string command = "git -C '" + directory.string() + "' " + arguments;
        if (std::system(command.c_str()) != 0) throw std::runtime_error(command);
    }
    static void put(const fs::path& path, const std::string& text) {
        fs::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    static WorkTree open(const fs::path& directory, const std::string& name) {
        return run(open_work_tree(directory, name, {}));
    }
    /// The reason for which no work tree is opened; empty: one is.
    static std::string refusal(const fs::path& directory, const std::string& name) {
        try {
            (void)open(directory, name);
        } catch (const Error& error) {
            return error.what();
        }
        return {};
    }

    ScopedTestDirectory place;
    const fs::path root = fs::canonical(place.path());
    const fs::path app = root / "app";
};

TEST_F(OpenWorkTree, D244_NewName_IsTreeAndBranch) {
    fs::create_directories(app / "src");
    const WorkTree made = open(app / "src", "fix-1");
    EXPECT_TRUE(made.is_new);
    EXPECT_EQ(made.branch, "fix-1");
    EXPECT_EQ(made.directory, root / "app-fix-1");
    EXPECT_TRUE(fs::exists(made.directory / "a.txt"));
    EXPECT_EQ(git_file_line(app / ".git/worktrees/app-fix-1/HEAD", ""), "ref: refs/heads/fix-1");
    EXPECT_EQ(main_tree_of(made.directory), app);
    const WorkTree again = open(app, "fix-1");
    EXPECT_FALSE(again.is_new);
    EXPECT_EQ(again.directory, made.directory);
    EXPECT_EQ(open(made.directory, "fix-2").directory, root / "app-fix-2")
        << "from another work tree";
    git(app, "branch old");
    EXPECT_TRUE(open(app, "old").is_new) << "a branch that exists";
    fs::remove_all(made.directory);
    EXPECT_TRUE(open(app, "fix-1").is_new) << "its directory was removed without git";
}

TEST_F(OpenWorkTree, D244_HostileName_IsRefused) {
    for (const char* name : {"", "-b", "..", ".", "a/b", "../x", "a b", "a\nb", "\x1b[31m",
                             "x.lock", "a..b", "ä", ".git", "$(touch x)"}) {
        EXPECT_THAT(refusal(app, name), HasSubstr("is not a name of a work tree")) << name;
    }
    EXPECT_THAT(refusal(app, std::string(65, 'x')), HasSubstr("at most 64"));
    EXPECT_EQ(refusal(app, "\x1b[31m").find('\x1b'), std::string::npos);
}

TEST_F(OpenWorkTree, D244_UsedBranchOrDirectory_IsNamed) {
    EXPECT_THAT(refusal(app, "main"),
                HasSubstr("the branch 'main' is checked out in " + app.string()));
    put(root / "app-mine/a.txt", "mine");
    EXPECT_THAT(refusal(app, "mine"), HasSubstr("exists and is not a work tree of"));
    // A link in the place of a work tree that git knows.
    (void)open(app, "fix");
    fs::remove_all(root / "app-fix");
    fs::create_directory_symlink(root / "app-mine", root / "app-fix");
    EXPECT_THAT(refusal(app, "fix"), HasSubstr("exists and is not a work tree of"));
}

TEST_F(OpenWorkTree, D244_UnfinishedTree_IsNotUsed) {
    (void)open(app, "fix");
    // The mark of git while it creates the work tree, which stays after a kill.
    put(app / ".git/worktrees/app-fix/locked", "initializing");
    EXPECT_THAT(refusal(app, "fix"), HasSubstr("its creation was stopped"));
    git(app, "worktree remove -f -f '" + (root / "app-fix").string() + "'");
    EXPECT_TRUE(open(app, "fix").is_new);
}

TEST_F(OpenWorkTree, D244_NoRepositoryOrCommit_IsNamed) {
    const fs::path plain = root / "plain";
    fs::create_directories(plain);
    EXPECT_THAT(refusal(plain, "x"), HasSubstr("is not in a git repository"));
    git(plain, "init -q");
    EXPECT_THAT(refusal(plain, "x"), HasSubstr("has no commit yet"));
    EXPECT_FALSE(fs::exists(root / "plain-x"));
}

/// A downloaded directory may name the repository of another project in several ways.
TEST_F(OpenWorkTree, D244_DirectoryOfOthers_OpensNoOtherRepository) {
    (void)open(app, "fix");
    const std::string refused = "is in another place";
    const fs::path file = root / "file";
    put(file / ".git", "gitdir: " + (app / ".git/worktrees/app-fix").string() + "\n");
    EXPECT_THAT(refusal(file, "x"), HasSubstr(refused));
    const fs::path link = root / "link";
    fs::create_directories(link);
    fs::create_directory_symlink(app / ".git", link / ".git");
    EXPECT_THAT(refusal(link, "x"), HasSubstr(refused));
    const fs::path common = root / "common";
    put(common / ".git/HEAD", "ref: refs/heads/main\n");
    put(common / ".git/commondir", (app / ".git").string() + "\n");
    EXPECT_THAT(refusal(common, "x"), HasSubstr(refused));
    const fs::path inner = root / "inner";
    fs::create_directories(inner);
    git(inner, "init -q -b main");
    git(inner, "-c user.name=a -c user.email=a@b commit -q --allow-empty -m start");
    fs::create_directory_symlink(app / ".git/worktrees", inner / ".git/worktrees");
    EXPECT_THAT(refusal(inner, "x"), HasSubstr(refused));
    EXPECT_FALSE(fs::exists(app / ".git/worktrees/inner-x"));
    for (const char* made : {"app-x", "file-x", "link-x", "common-x", "inner-x"})
        EXPECT_FALSE(fs::exists(root / made)) << made;
}

TEST_F(OpenWorkTree, D244_ProgramsOfTheRepository_AreNotRun) {
    put(app / ".git/hooks/post-checkout", "#!/bin/sh\ntouch '" + (root / "ran").string() + "'\n");
    fs::permissions(app / ".git/hooks/post-checkout", fs::perms::owner_all);
    put(app / ".gitattributes", "*.txt filter=evil\n");
    git(app, "add .");
    git(app, "-c user.name=a -c user.email=a@b commit -q -m filter");
    git(app, "config filter.evil.smudge 'touch " + (root / "ran").string() + "; cat'");
    git(app, "config core.fsmonitor 'touch " + (root / "ran").string() + "'");
    EXPECT_TRUE(fs::exists(open(app, "fix").directory / "a.txt"));
    EXPECT_FALSE(fs::exists(root / "ran"));
    // A condition that holds in the new work tree only.
    git(app, "config --unset filter.evil.smudge");
    put(app / ".git/evil",
        "[filter \"evil\"]\n\tsmudge = touch " + (root / "ran").string() + "; cat\n");
    git(app, "config 'includeIf.gitdir:**/worktrees/**.path' evil");
    EXPECT_THAT(refusal(app, "other"), HasSubstr("conditional includes"));
    EXPECT_FALSE(fs::exists(root / "ran"));
}

}  // namespace
}  // namespace cubepi::app
