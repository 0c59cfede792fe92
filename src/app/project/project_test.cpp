#include "project.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include <cubepi/core/scoped_test_directory.hpp>

#include "../config/paths.hpp"
#include "../conversation/tool_approval.hpp"
#include "trust.hpp"

namespace cubepi::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> names(const std::vector<BoundFile>& files) {
    std::vector<std::string> found;
    for (const BoundFile& file : files) found.push_back(file.name);
    return found;
}

/// Directories of a test, and a home of its own.
class ProjectTrust : public ::testing::Test {
protected:
    ProjectTrust() : home(place.path() / "home"), work(place.path() / "work") {
        std::filesystem::create_directories(home);
        std::filesystem::create_directories(work);
        for (const char* name : {"HOME", "XDG_STATE_HOME"}) {
            const char* const before = std::getenv(name);
            saved.emplace_back(name, before ? std::optional<std::string>(before) : std::nullopt);
        }
        setenv("HOME", home.c_str(), 1);
        setenv("XDG_STATE_HOME", (home / "state").c_str(), 1);
    }
    ~ProjectTrust() override {
        for (const auto& [name, value] : saved) {
            if (value) {
                setenv(name, value->c_str(), 1);
            } else {
                unsetenv(name);
            }
        }
    }
    static void put(const std::filesystem::path& path, const std::string& text) {
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    Project find() const { return find_project(work, TrustSettings()); }

    ScopedTestDirectory place;
    std::filesystem::path home;
    std::filesystem::path work;
    std::vector<std::pair<const char*, std::optional<std::string>>> saved;
};

TEST_F(ProjectTrust, D155_NewDirectory_IsNotTrusted) {
    put(work / ".mcp.json", R"({"mcpServers": {"git": {"command": "git-server"}}})");
    put(work / ".cubepi/config.yaml",
        "allow: ['write: *']\ndeny: ['shell: rm *']\nhooks: {Stop: [{hooks: [{command: x}]}]}\n");
    put(work / ".cubepi/prompts/fix.md", "Fix it.\n");
    const Project project = find();
    EXPECT_FALSE(project.is_trusted);
    EXPECT_THAT(project.trusted, IsEmpty());
    EXPECT_EQ(project.untrusted_text(), ".cubepi/config.yaml, .mcp.json, 1 prompt");
    const ProjectSettings settings = settings_of(project);
    EXPECT_THAT(settings.allow, IsEmpty());
    EXPECT_THAT(settings.hooks, IsEmpty());
    EXPECT_THAT(settings.servers, IsEmpty());
    EXPECT_THAT(settings.prompts, IsEmpty());
    EXPECT_THAT(settings.deny, ElementsAre("shell: rm *")) << "it only narrows";
    EXPECT_THAT(effects_of_untrusted(project),
                ElementsAre(".cubepi/config.yaml allows without a question: write: *",
                            ".cubepi/config.yaml runs at Stop: x", ".mcp.json runs: git-server",
                            "prompts as commands: fix"));
}

TEST_F(ProjectTrust, D155_Record_BindsTheContentThatWasRead) {
    put(work / ".cubepi/config.yaml", "allow: ['write: *']\n");
    Project project = find();
    put(work / ".cubepi/config.yaml", "allow: ['shell: curl *']\n");
    record_trust(project);
    project.trust();
    EXPECT_THAT(settings_of(project).allow, ElementsAre("write: *"))
        << "the text that the user has seen";
    const Project later = find();
    EXPECT_TRUE(later.is_trusted);
    EXPECT_THAT(names(later.untrusted), ElementsAre(".cubepi/config.yaml"));
    EXPECT_THAT(settings_of(later).allow, IsEmpty());
}

TEST_F(ProjectTrust, D155_ChangedFile_AsksForItAlone) {
    put(work / ".mcp.json", R"({"mcpServers": {}})");
    put(work / ".cubepi/prompts/a.md", "One.");
    record_trust(find());
    EXPECT_THAT(names(find().untrusted), IsEmpty());
    put(work / ".cubepi/prompts/a.md", "Two.");
    put(work / ".cubepi/prompts/b.md", "New.");
    EXPECT_THAT(names(find().untrusted),
                ElementsAre(".cubepi/prompts/a.md", ".cubepi/prompts/b.md"));
    EXPECT_THAT(names(find().trusted), ElementsAre(".mcp.json"));
}

TEST_F(ProjectTrust, D155_Record_IsPrivateAndRequiredToBe) {
    record_trust(find());
    ASSERT_THAT(trust_records(), SizeIs(1));
    const std::filesystem::path file =
        std::filesystem::directory_iterator(trust_directory())->path();
    struct stat info = {};
    ASSERT_EQ(stat(file.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    ASSERT_EQ(chmod(file.c_str(), 0666), 0);
    EXPECT_FALSE(find().is_trusted) << "another user could have written it";
    ASSERT_EQ(chmod(file.c_str(), 0600), 0);
    EXPECT_TRUE(find().is_trusted);
    // The record of one directory does not speak for another.
    const std::filesystem::path other = work.parent_path() / "other";
    std::filesystem::create_directories(other);
    record_trust(find_project(other, TrustSettings()));
    for (const auto& entry : std::filesystem::directory_iterator(trust_directory())) {
        if (entry.path() != file)
            std::filesystem::copy_file(file, entry.path(),
                                       std::filesystem::copy_options::overwrite_existing);
    }
    EXPECT_FALSE(is_trusted(other, TrustSettings()));
}

TEST_F(ProjectTrust, D155_Repository_IsTrustedAsAWhole) {
    std::filesystem::create_directories(work / ".git");
    std::filesystem::create_directories(work / "src/deep");
    std::filesystem::create_directories(work / "vendor/other/.git");
    record_trust(find_project(work / "src", TrustSettings()));
    EXPECT_TRUE(is_trusted(work / "src/deep", TrustSettings()));
    EXPECT_TRUE(is_trusted(work, TrustSettings()));
    EXPECT_FALSE(is_trusted(work / "vendor/other", TrustSettings())) << "another repository";
    EXPECT_TRUE(remove_trust(find().root));
    EXPECT_FALSE(is_trusted(work / "src/deep", TrustSettings()));
}

/// A linked work tree of `work`, made of the files that git makes.
TEST_F(ProjectTrust, D244_WorkTree_IsTrustedWithItsRepository) {
    const std::filesystem::path tree = place.path() / "tree";
    const std::filesystem::path linked = work / ".git/worktrees/tree";
    put(work / ".git/HEAD", "ref: refs/heads/main\n");
    std::filesystem::create_directories(work / ".git/objects");
    put(linked / "HEAD", "ref: refs/heads/tree\n");
    put(linked / "commondir", "../..\n");
    put(linked / "gitdir", (tree / ".git").string() + "\n");
    put(tree / ".git", "gitdir: " + linked.string() + "\n");
    for (const std::filesystem::path& one : {work, tree}) put(one / ".cubepi/prompts/a.md", "One.");
    put(tree / ".mcp.json", R"({"mcpServers": {}})");
    EXPECT_FALSE(is_trusted(tree, TrustSettings()));
    record_trust(find());
    Project project = find_project(tree, TrustSettings());
    EXPECT_TRUE(project.is_trusted);
    EXPECT_THAT(names(project.trusted), ElementsAre(".cubepi/prompts/a.md"));
    EXPECT_THAT(names(project.untrusted), ElementsAre(".mcp.json")) << "by content";
    record_trust(project);
    EXPECT_THAT(names(find_project(tree, TrustSettings()).untrusted), IsEmpty());
    EXPECT_TRUE(remove_trust(project.root));
    EXPECT_TRUE(is_trusted(tree, TrustSettings()));
    // A repository that does not name the directory.
    put(linked / "gitdir", (place.path() / "other/.git").string() + "\n");
    EXPECT_FALSE(is_trusted(tree, TrustSettings()));
    put(linked / "gitdir", (tree / ".git").string() + "\n");
    EXPECT_TRUE(remove_trust(find().root));
    EXPECT_FALSE(is_trusted(tree, TrustSettings()));
    EXPECT_TRUE(is_trusted(tree, {{work.string()}})) << "the setting names the repository";
}

TEST_F(ProjectTrust, D155_DirectoryWithoutRepository_IsTrustedAlone) {
    std::filesystem::create_directories(work / "below");
    record_trust(find());
    EXPECT_FALSE(is_trusted(work / "below", TrustSettings()));
    EXPECT_FALSE(is_trusted(work.string() + "c", TrustSettings()));
}

TEST_F(ProjectTrust, D155_HomeAsRepository_DoesNotExtendToDirectories) {
    std::filesystem::create_directories(home / ".git");
    std::filesystem::create_directories(home / "downloads");
    record_trust(find_project(home, TrustSettings()));
    EXPECT_TRUE(is_trusted(home, TrustSettings()));
    EXPECT_FALSE(is_trusted(home / "downloads", TrustSettings()));
}

TEST_F(ProjectTrust, D155_RepositoryOfAnotherUser_DoesNotCoverDirectories) {
    const std::filesystem::path shared = work / "shared";
    std::filesystem::create_directories(shared / ".git");
    std::filesystem::create_directories(shared / "mine");
    ASSERT_EQ(chmod(shared.c_str(), 0777), 0);
    record_trust(find_project(shared / "mine", TrustSettings()));
    ASSERT_THAT(trust_records(), SizeIs(1));
    EXPECT_EQ(trust_records()[0].directory, std::filesystem::canonical(shared / "mine"));
}

TEST_F(ProjectTrust, D155_Link_IsTheDirectoryItNames) {
    record_trust(find());
    const std::filesystem::path link = place.path() / "link";
    std::filesystem::create_directory_symlink(work, link);
    EXPECT_TRUE(is_trusted(link, TrustSettings()));
    const std::filesystem::path other = place.path() / "other";
    std::filesystem::create_directories(other);
    std::filesystem::remove(link);
    std::filesystem::create_directory_symlink(other, link);
    EXPECT_FALSE(is_trusted(link, TrustSettings()));
}

TEST_F(ProjectTrust, D155_Setting_CoversWhatIsBelow) {
    std::filesystem::create_directories(work / "below");
    std::filesystem::create_directories(work.string() + "c");
    const TrustSettings settings{{work.string()}};
    EXPECT_TRUE(is_trusted(work, settings));
    EXPECT_TRUE(is_trusted(work / "below", settings));
    EXPECT_FALSE(is_trusted(work.string() + "c", settings)) << "only the beginning is the same";
    EXPECT_FALSE(is_trusted(work.parent_path(), settings));
    EXPECT_TRUE(is_trusted(work.parent_path(), {{work.string() + "/..", "/nowhere"}}));
}

TEST_F(ProjectTrust, D155_LinksAndLargeFiles_AreNotLoaded) {
    put(place.path() / "outside.json", R"({"mcpServers": {}})");
    std::filesystem::create_symlink(place.path() / "outside.json", work / ".mcp.json");
    put(work / ".cubepi/config.yaml", std::string(70'000, '#'));
    std::filesystem::create_directories(work / ".cubepi/prompts");
    std::filesystem::create_symlink("/proc/self/environ", work / ".cubepi/prompts/a.md");
    const Project project = find_project(work, {{}, true});
    EXPECT_THAT(project.trusted, IsEmpty());
    ASSERT_THAT(project.problems, SizeIs(3));
    EXPECT_THAT(project.problems[0], HasSubstr(".cubepi/config.yaml is not loaded: "));
    EXPECT_THAT(project.problems[1], HasSubstr(".mcp.json is not loaded: "));
    EXPECT_THAT(project.problems[2], HasSubstr(".cubepi/prompts/a.md is not loaded: "));
}

TEST_F(ProjectTrust, D155_InvalidFiles_AreReported) {
    put(work / ".mcp.json",
        R"({"mcpServers": {"good": {"command": "./server", "alwaysAllow": []}, "bad": {}}})");
    put(work / ".cubepi/config.yaml", "allow: ['write: *']\nmodel: other\n");
    const ProjectSettings settings = settings_of(find_project(work, {{}, true}));
    ASSERT_THAT(settings.servers, SizeIs(1));
    EXPECT_EQ(settings.servers[0].name, "good");
    EXPECT_EQ(settings.servers[0].command,
              (std::filesystem::canonical(work) / "./server").string());
    EXPECT_THAT(settings.allow, IsEmpty()) << "a file that is not understood allows nothing";
    ASSERT_THAT(settings.problems, SizeIs(3));
    EXPECT_THAT(settings.problems[0], HasSubstr("unknown key 'model'"));
    EXPECT_THAT(settings.problems[1], HasSubstr("Every tool call needs approval"));
    EXPECT_THAT(settings.problems[2], HasSubstr("'bad': it needs either a command or a url"));
}

TEST_F(ProjectTrust, D156_UnreadableRules_AskAboutEveryCall) {
    const auto decide = [this] {
        const ProjectSettings settings = settings_of(find());
        const ToolRules rules = rules_of(ConfigFile(), settings);
        return rules.decide("read", ToolRisk::read_only, {{"path", "a"}}).always_asks;
    };
    const std::filesystem::path file = work / ".cubepi/config.yaml";
    EXPECT_FALSE(decide());
    for (const std::string& text :
         {std::string("deny: ['shell: rm *']\n"), std::string("allow: ['shell: ((']\n")}) {
        put(file, text);
        EXPECT_FALSE(decide()) << text;
    }
    for (const std::string& text :
         {std::string("deny: ['none']\n"), std::string("ask: ['fetch: a*b']\n"),
          std::string("deny: ['bash: *']\n"), std::string("deny: 1\n"), std::string("other: 1\n"),
          std::string("deny: ['write: \xFF']\n"), std::string(70'000, '#')}) {
        put(file, text);
        EXPECT_TRUE(decide()) << text.substr(0, 40);
    }
    put(work / "real.yaml", "deny: ['shell: rm *']\n");
    std::filesystem::remove(file);
    std::filesystem::create_symlink("../real.yaml", file);
    EXPECT_TRUE(decide());
    EXPECT_THAT(settings_of(find()).problems.back(), HasSubstr("Every tool call needs approval"));
}

}  // namespace
}  // namespace cubepi::app
