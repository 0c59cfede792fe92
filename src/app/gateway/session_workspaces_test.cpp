#include "gateway_instance.hpp"

#include <gtest/gtest.h>

#include <string>

#include <sys/stat.h>

#include <bub/framework.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

namespace cubepi::app {
namespace {

TEST(SessionWorkspaces, HaveNamesThatCannotLeaveTheRoot) {
    const std::filesystem::path root = "/srv";
    for (const char* id : {"telegram:-100:7", "../../etc", "a/b", "", ".", "ü"}) {
        const std::filesystem::path made = session_workspace(root, id);
        EXPECT_EQ(made.parent_path(), root) << id;
        EXPECT_NE(made.filename(), "..") << id;
    }
    EXPECT_NE(session_workspace(root, "a:b"), session_workspace(root, "a-b"));
    EXPECT_LT(session_workspace(root, std::string(5'000, 'x')).filename().string().size(), 100u);
}

TEST(SessionWorkspaces, B26_EachSessionHasItsOwn) {
    const ScopedTestDirectory directory;
    bub::FrameworkOptions options;
    options.workspace = directory.path();
    bub::Framework framework(std::move(options));
    framework.add(session_workspaces(directory.path()));
    const auto workspace_of = [&](const std::string& chat) {
        const bub::TurnResult result =
            run(framework.process_inbound(bub::Envelope("hi").on("http", chat)));
        return result.state.text(bub::TurnState::workspace_key);
    };
    const std::string one = workspace_of("1");
    EXPECT_EQ(workspace_of("1"), one);
    EXPECT_NE(workspace_of("2"), one);
    struct stat info = {};
    ASSERT_EQ(::stat(one.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0700U);
}

}  // namespace
}  // namespace cubepi::app
