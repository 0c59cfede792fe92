// The names of files that the popup offers.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

#include "project_names.hpp"

namespace cubepi::app {
namespace {

using Names = std::vector<std::string>;

class ProjectNames : public ::testing::Test {
protected:
    ProjectNames() {
        for (const char* name : {"b.txt", "a/c.txt", "node_modules/x.js", ".hidden/y", "out.log"}) {
            std::filesystem::create_directories((root_ / name).parent_path());
            std::ofstream(root_ / name) << name;
        }
    }
    void git(const std::string& arguments) const {
        const std::string command =
            "cd '" + root_.string() + "' && git " + arguments + " >git.out 2>&1";
        ASSERT_EQ(std::system(command.c_str()), 0) << command;
        std::filesystem::remove(root_ / "git.out");
    }
    Names names() const { return run(project_names(Runtime::standard(), root_)); }

    ScopedTestDirectory temporary_;
    const std::filesystem::path& root_ = temporary_.path();
};

TEST_F(ProjectNames, WithoutGit_AreThoseOfAWalk) {
    EXPECT_EQ(names(), (Names{"b.txt", "out.log", "a/c.txt"}));
}

TEST_F(ProjectNames, InARepository_AreThoseThatGitKnows) {
    git("init -q");
    std::ofstream(root_ / ".gitignore") << "*.log\n.hidden\n";
    git("add b.txt");
    EXPECT_EQ(names(), (Names{".gitignore", "b.txt", "a/c.txt", "node_modules/x.js"}));
}

TEST_F(ProjectNames, Monitor_OfTheRepositoryDoesNotRun) {
    git("init -q");
    git("config core.fsmonitor 'touch ran; false'");
    git("add b.txt");
    std::filesystem::remove(root_ / "ran");
    (void)names();
    EXPECT_FALSE(std::filesystem::exists(root_ / "ran"));
}

/// Versions of git before GIT_NO_LAZY_FETCH ask the remote, unless no protocol is allowed.
TEST_F(ProjectNames, OlderGit_MayUseNoProtocol) {
    const std::filesystem::path git = root_ / "bin/git";
    std::filesystem::create_directories(git.parent_path());
    std::ofstream(git) << "#!/bin/sh\nprintf 'protocol %s\\0' \"$GIT_ALLOW_PROTOCOL\"\n";
    std::filesystem::permissions(git, std::filesystem::perms::owner_all);
    const std::string path = std::getenv("PATH");
    ::setenv("PATH", (git.parent_path().string() + ":" + path).c_str(), 1);
    const Names found = names();
    ::setenv("PATH", path.c_str(), 1);
    EXPECT_EQ(found, (Names{"protocol none"}));
}

/// Git asks the remote of a partial clone for an ignore file that is in the index only.
TEST_F(ProjectNames, RemoteOfAPartialClone_IsNotAsked) {
    git("init -q");
    std::ofstream(root_ / "a/.gitignore") << "*.log\n";
    git("add a/.gitignore b.txt");
    git("update-index --skip-worktree a/.gitignore");
    std::filesystem::remove(root_ / "a/.gitignore");
    for (const char* setting :
         {"extensions.partialClone origin", "core.repositoryFormatVersion 1", "remote.origin.url .",
          "remote.origin.promisor true", "remote.origin.uploadpack 'touch ran; false'"})
        git(std::string("config ") + setting);
    // All objects.
    for (const auto& directory : std::filesystem::directory_iterator(root_ / ".git/objects"))
        if (directory.path().filename().string().size() == 2)
            std::filesystem::remove_all(directory.path());
    (void)names();
    EXPECT_FALSE(std::filesystem::exists(root_ / "ran"));
}

}  // namespace
}  // namespace cubepi::app
