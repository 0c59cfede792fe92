#include <bub/builtin/project_files.hpp>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "builtin_test_support.hpp"
#include "source_tree.hpp"

namespace bub::test {

namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class ProjectFiles : public Builtin {
protected:
    void write_skill(const std::filesystem::path& directory, const std::string& body) {
        const std::string name = directory.filename().string();
        write(directory / "SKILL.md",
              "---\nname: " + name + "\ndescription: Does it.\n---\n" + body + "\n");
    }
    FoundSkills skills() { return find_skills(skill_directories(work, false, {root / "more"})); }

    const std::filesystem::path work = root / "work";
};

TEST_F(ProjectFiles, AgentsFile_IsReadWithItsSize) {
    EXPECT_EQ(read_instructions(work).text, "");
    EXPECT_THAT(read_instructions(work).problems, IsEmpty()) << "most projects have none";
    write(work / "AGENTS.md", "Tabs.\n \n");
    const Instructions found = read_instructions(work);
    EXPECT_EQ(found.text, "Tabs.");
    ASSERT_THAT(found.files, SizeIs(1));
    EXPECT_EQ(found.files[0].size, 8u);
    EXPECT_THAT(found.problems, IsEmpty());
}

TEST_F(ProjectFiles, B30_Links_AreRejectedAndReported) {
    write(root / "secret", "KEY=1");
    for (const std::filesystem::path& target : {root / "secret", std::filesystem::path("other.md"),
                                                std::filesystem::path("/proc/self/environ")}) {
        write(work / "other.md", "inside");
        std::filesystem::create_symlink(target, work / "AGENTS.md");
        const Instructions found = read_instructions(work);
        EXPECT_EQ(found.text, "") << target;
        EXPECT_THAT(found.problems, ElementsAre(HasSubstr("symbolic link"))) << target;
        std::filesystem::remove(work / "AGENTS.md");
    }
}

TEST_F(ProjectFiles, B30_LongerFile_IsCutAndReported) {
    write(work / "AGENTS.md", std::string(64 * 1024, 'a'));
    EXPECT_EQ(read_instructions(work).text.size(), 64u * 1024);
    EXPECT_THAT(read_instructions(work).problems, IsEmpty());

    // The last character that fits is cut in two.
    write(work / "AGENTS.md", std::string(64 * 1024 - 1, 'a') + "ß and more");
    const Instructions found = read_instructions(work);
    EXPECT_THAT(found.text,
                EndsWith("a\n\n[AGENTS.md has 65.5 KB. Only its first 64 KiB are above; read the "
                         "file for the rest.]"));
    EXPECT_THAT(found.problems,
                ElementsAre("AGENTS.md has 65.5 KB; only its first 64 KiB are loaded."));
}

TEST_F(ProjectFiles, Total_IsLimitedToTheNearestFiles) {
    std::filesystem::create_directories(work / ".git");
    write(work / "AGENTS.md", std::string(60'000, 'a'));
    write(work / "one/AGENTS.md", std::string(60'000, 'b'));
    write(work / "one/two/AGENTS.md", std::string(60'000, 'c'));
    const Instructions found = read_instructions(work / "one/two", InstructionScope::user);
    EXPECT_THAT(found.problems, ElementsAre("../../AGENTS.md is not loaded: the instructions "
                                            "exceed 128 KiB in total."));
    EXPECT_EQ(found.text.find("aa"), std::string::npos);
    EXPECT_LT(found.text.find("bb"), found.text.find("cc"));
}

TEST_F(ProjectFiles, D155_UntrustedWorkspace_IsOnlyListed) {
    write(work / "AGENTS.md", "Tabs.\n");
    write_skill(work / ".agents/skills/one", "Body");
    write_skill(root / "more/two", "Body");
    const LoadedFiles files =
        look_at_project_files(work, false, {root / "more"}, InstructionScope::workspace, false);
    EXPECT_EQ(files.untrusted, "AGENTS.md (6 bytes), 1 skill");
    EXPECT_EQ(files.summary, "Loaded 1 skill") << "that of the user";
}

TEST_F(ProjectFiles, D155_TurnInUntrustedWorkspace_LoadsNothingOfIt) {
    write(work / "AGENTS.md", "Tabs.\n");
    write_skill(work / ".agents/skills/one", "Body");
    bool is_trusted = false;
    std::vector<std::string> prompts;
    const auto answer = [&prompts](const cubepi::ModelRequest& request) {
        prompts.push_back(request.system_prompt.str());
        return faux_assistant_message("done");
    };
    BuiltinOptions options;
    options.trusts = [&](const std::filesystem::path& workspace) {
        EXPECT_EQ(workspace, work);
        return is_trusted;
    };
    add_builtin({answer, answer}, std::move(options));
    (void)say("Hello $one");
    is_trusted = true;
    (void)say("Hello $one");
    ASSERT_THAT(prompts, SizeIs(2));
    for (const char* part : {"Tabs.", "- one: Does it.", "Body"}) {
        EXPECT_THAT(prompts[0], Not(HasSubstr(part)));
        EXPECT_THAT(prompts[1], HasSubstr(part));
    }
}

TEST_F(ProjectFiles, SkillFileInLowerCase_IsASkill) {
    write(work / ".agents/skills/one/skill.md", "---\nname: one\ndescription: Does.\n---\nBody\n");
    ASSERT_THAT(skills().skills, SizeIs(1));
    EXPECT_EQ(skills().skills[0].location.filename(), "skill.md");
}

TEST_F(ProjectFiles, IrregularFile_IsNotWaitedFor) {
    ASSERT_EQ(mkfifo((work / "AGENTS.md").c_str(), 0600), 0);
    EXPECT_THAT(read_instructions(work).problems, ElementsAre(HasSubstr("not a regular file")));
}

TEST_F(ProjectFiles, UserScope_LoadsTheRepositoryNearestLast) {
    const std::filesystem::path inner = work / "a" / "b";
    std::filesystem::create_directories(inner);
    std::filesystem::permissions(work, std::filesystem::perms::owner_all);
    write(root / "AGENTS.md", "Above the repository.");
    write(work / "AGENTS.md", "Root.");
    write(work / "a" / "CLAUDE.md", "Middle.");
    write(inner / "AGENTS.md", "Replaced.");
    write(inner / "AGENTS.override.md", "Inner.");
    const auto texts = [&inner] { return read_instructions(inner, InstructionScope::user).text; };
    EXPECT_THAT(texts(), HasSubstr("Inner.")) << "no repository: the directory alone";
    EXPECT_THAT(texts(), Not(HasSubstr("Root.")));
    std::filesystem::create_directory(work / ".git");
    const std::string all = texts();
    EXPECT_THAT(all, EndsWith("Instructions of ../../AGENTS.md:\n\nRoot.\n\n"
                              "Instructions of ../CLAUDE.md:\n\nMiddle.\n\n"
                              "Instructions of AGENTS.override.md:\n\nInner."));
    EXPECT_THAT(all, Not(HasSubstr("Above")));
    EXPECT_THAT(all, Not(HasSubstr("Replaced")));
    EXPECT_EQ(read_instructions(inner).text, "Replaced.") << "in a gateway";
}

TEST_F(ProjectFiles, DirectoryThatOthersWrite_HasNoInstructions) {
    std::filesystem::create_directories(work / "a");
    std::filesystem::create_directory(work / ".git");
    write(work / "AGENTS.md", "Root.");
    std::filesystem::permissions(work, std::filesystem::perms::all);
    EXPECT_THAT(read_instructions(work / "a", InstructionScope::user).text,
                Not(HasSubstr("Root.")));
}

TEST_F(ProjectFiles, Skills_ComeFromDirectoriesWithoutLinks) {
    write_skill(work / ".agents" / "skills" / "one", "Run $SKILL_DIR/x.");
    write_skill(work / ".agent" / "skills" / "one", "A later directory.");
    write_skill(root / "more" / "two", "More.");
    write_skill(root / "outside" / "three", "Outside.");
    std::filesystem::create_symlink(root / "outside" / "three", root / "more" / "three");
    std::filesystem::create_directory(root / "more" / "four");
    std::filesystem::create_symlink(root / "outside" / "three" / "SKILL.md",
                                    root / "more" / "four" / "SKILL.md");
    const FoundSkills found = skills();
    ASSERT_THAT(found.skills, SizeIs(2));
    EXPECT_EQ(found.skills[0].name, "one");
    EXPECT_EQ(found.skills[0].body, "Run " + (work / ".agents/skills/one").string() + "/x.");
    EXPECT_EQ(found.skills[0].location, work / ".agents/skills/one/SKILL.md");
    EXPECT_EQ(found.skills[1].name, "two");
    EXPECT_THAT(found.problems, ElementsAre(HasSubstr("four is not loaded"),
                                            HasSubstr("three is not loaded: it is a symbolic")));
}

TEST_F(ProjectFiles, LinkedSkillDirectory_IsRefused) {
    write_skill(root / "outside" / "skills" / "one", "Outside.");
    std::filesystem::create_symlink(root / "outside", work / ".agents");
    const FoundSkills found = skills();
    EXPECT_THAT(found.skills, IsEmpty());
    EXPECT_THAT(found.problems, ElementsAre(HasSubstr("symbolic link")));
}

TEST_F(ProjectFiles, BrokenSkills_AreNamed) {
    const auto broken = [this](const std::string& name, const std::string& text) {
        write(root / "more" / name / "SKILL.md", text);
        const FoundSkills found = skills();
        EXPECT_THAT(found.skills, IsEmpty());
        std::filesystem::remove_all(root / "more" / name);
        return found.problems.empty() ? std::string() : found.problems.front();
    };
    EXPECT_THAT(broken("plain", "Do it."), HasSubstr("plain is not loaded: it does not begin"));
    EXPECT_THAT(broken("yaml", "---\nname: [\n---\n"), HasSubstr("not valid YAML"));
    EXPECT_THAT(broken("other", "---\nname: another\ndescription: x\n---\n"), HasSubstr("`name`"));
    EXPECT_THAT(broken("empty", "---\nname: empty\n---\n"), HasSubstr("0 characters"));
}

/// The verdicts of skills-ref, the reference library of the format (tests/conformance/skills_in_skills_ref.py).
TEST_F(ProjectFiles, AgentSkills_AreLoadedAsTheReferenceSays) {
    std::ifstream in(cubepi::testing::source_path("tests/conformance/skills/cases.json"));
    const Json file = boost::json::parse(in);
    const JsonArray& cases = file.at("cases").as_array();
    EXPECT_THAT(cases, SizeIs(::testing::Gt(50u)));
    for (const Json& one : cases) {
        const auto text = [&one](const char* key) { return std::string(one.at(key).as_string()); };
        write(root / "more" / text("directory") / text("file"), text("content"));
        const FoundSkills found = skills();
        // A difference has a reason.
        const Json* const loaded = one.as_object().if_contains("loaded");
        const bool expected = (loaded ? *loaded : one.at("valid")).as_bool();
        EXPECT_EQ(found.skills.size(), expected ? 1u : 0u)
            << text("directory") << ": " << text("content") << "\n"
            << (found.problems.empty() ? std::string() : found.problems.front());
        std::filesystem::remove_all(root / "more" / text("directory"));
    }
}

TEST_F(ProjectFiles, LongSkill_IsCut) {
    write_skill(root / "more" / "long", std::string(70'000, 'x'));
    const FoundSkills found = skills();
    ASSERT_THAT(found.skills, SizeIs(1));
    EXPECT_THAT(found.skills[0].body, EndsWith("read the file for the rest.]"));
    EXPECT_THAT(found.problems, ElementsAre(HasSubstr("only the first 64 KiB")));
}

TEST_F(ProjectFiles, LoadedFiles_AreSummarizedInOneLine) {
    EXPECT_EQ(look_at_project_files(work, false), LoadedFiles());
    write_skill(work / ".agents" / "skills" / "one", "One.");
    EXPECT_EQ(look_at_project_files(work, false).summary, "Loaded 1 skill");
    write_skill(work / ".agents" / "skills" / "two", "Two.");
    write(work / "AGENTS.md", std::string(2149, 'a'));
    EXPECT_EQ(look_at_project_files(work, false).summary, "Loaded AGENTS.md (2.1 KB), 2 skills");
    write(work / "AGENTS.md", "");
    EXPECT_EQ(look_at_project_files(work, false).summary, "Loaded 2 skills");
    std::filesystem::remove(work / "AGENTS.md");
    std::filesystem::create_symlink("x", work / "AGENTS.md");
    EXPECT_THAT(look_at_project_files(work, false).problems,
                ElementsAre(HasSubstr("AGENTS.md is not loaded")));
}

TEST_F(ProjectFiles, TurnLoadingOtherFiles_NotifiesTheUser) {
    std::vector<std::string> warnings;
    FrameworkOptions framework_options;
    framework_options.workspace = work;
    framework_options.on_warning = [&warnings](const std::string& text) {
        warnings.push_back(text);
    };
    framework = std::make_unique<Framework>(std::move(framework_options));
    BuiltinOptions options;
    write(work / "AGENTS.md", "One.");
    options.loaded_files = look_at_project_files(work, false);
    std::vector<cubepi::FauxStep> steps;
    for (int i = 0; i < 3; ++i)
        steps.emplace_back(
            [](const cubepi::ModelRequest&) { return faux_assistant_message("done"); });
    add_builtin(std::move(steps), std::move(options));
    (void)say("go");
    EXPECT_THAT(warnings, IsEmpty());
    write(work / "AGENTS.md", "Two, and longer.");
    (void)say("go");
    (void)say("go");
    EXPECT_THAT(warnings, ElementsAre("The project's files have changed: Loaded AGENTS.md (16 "
                                      "bytes)"));
}

}  // namespace

}  // namespace bub::test
