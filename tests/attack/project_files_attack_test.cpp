// AGENTS.md and skills of a hostile repository: their contents, and changes while they are read.
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <bub/builtin/project_files.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

#include "attack.hpp"

namespace cubepi::attack {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view secret = "SECRET-OF-ANOTHER-FILE";
constexpr std::size_t most_bytes = 64 * 1024 + 200;  // with the note that a file was cut

std::string skill_text(std::string_view body) {
    return "---\nname: helper\ndescription: Helps.\n---\n" + std::string(body) + "\n";
}

/// A workspace, and files outside of it.
class ProjectFilesAttack : public ::testing::Test {
protected:
    ProjectFilesAttack() {
        outside.put("secret", skill_text(secret));
        outside.put("skills/helper/SKILL.md", skill_text(secret));
    }

    /// All text that would become part of a system prompt.
    std::string loaded() const {
        const bub::AgentsFile agents = bub::read_agents_file(work());
        std::string text = agents.text;
        const bub::FoundSkills skills = bub::find_skills(bub::skill_directories(work(), false, {}));
        for (const bub::Skill& skill : skills.skills) text += skill.description + skill.body;
        return text;
    }

    /// The paths that a turn reads, and those of the directories above them.
    std::vector<fs::path> places() const {
        return {work() / "AGENTS.md",
                work() / ".agents",
                work() / ".agents/skills",
                work() / ".agents/skills/helper",
                work() / ".agents/skills/helper/SKILL.md",
                work() / ".agent",
                work() / ".agent/skills",
                work() / ".agent/skills/helper",
                work() / ".agent/skills/helper/SKILL.md"};
    }

    /// A link from one of those paths to the skill or the file outside.
    fs::path target_of(const fs::path& place) const {
        const std::string name = place.filename().string();
        if (name == "skills") return outside.path() / "skills";
        if (name == "helper") return outside.path() / "skills/helper";
        return name.starts_with(".agent") ? outside.path() : outside.path() / "secret";
    }

    void clear() {
        for (const auto& entry : fs::directory_iterator(work())) fs::remove_all(entry.path());
    }

    const fs::path& work() const { return directory.path(); }

    ScopedTestDirectory outside;
    ScopedTestDirectory directory;
};

}  // namespace

TEST_F(ProjectFilesAttack, FollowsNoLinks) {
    Row row("project files",
            "symbolic link in the place of AGENTS.md, a skill or a directory of them");
    const std::vector<fs::path> inside = {"/proc/self/environ", "/proc/self/root/etc/passwd",
                                          "/proc/self/cwd", "/dev/stdin", "/etc/passwd"};
    for (const fs::path& place : places()) {
        std::vector<fs::path> targets = inside;
        const fs::path target = target_of(place);
        targets.push_back(target);
        targets.push_back(fs::relative(target, place.parent_path()));
        // A link to a link, and one to a file of the workspace: it is not followed although it stays inside.
        targets.push_back("chain");
        targets.push_back("own");
        for (const fs::path& to : targets) {
            clear();
            fs::create_directories(place.parent_path());
            if (to == "chain") fs::create_symlink(target, place.parent_path() / "chain");
            if (to == "own") std::ofstream(place.parent_path() / "own") << skill_text(secret);
            fs::create_symlink(to, place);
            row.attempt(loaded().empty(), place.string() + " -> " + to.string());
        }
    }
}

TEST_F(ProjectFilesAttack, ReadsOnlyRegularFiles) {
    Row row("project files", "pipe, device, socket or directory in the place of a file");
    for (const char* name : {"AGENTS.md", ".agents/skills/helper/SKILL.md"}) {
        const fs::path place = work() / name;
        for (const char* kind : {"pipe", "directory", "zero", "null", "full"}) {
            clear();
            fs::create_directories(place.parent_path());
            const std::string_view what = kind;
            if (what == "pipe") {
                ASSERT_EQ(::mkfifo(place.c_str(), 0600), 0);
            } else if (what == "directory") {
                fs::create_directory(place);
            } else {
                // Only root can create a device; for other users it is a link to one.
                const unsigned minor = what == "zero" ? 5 : what == "null" ? 3 : 7;
                if (::mknod(place.c_str(), S_IFCHR | 0600, ::makedev(1, minor)) != 0)
                    fs::create_symlink(std::string("/dev/") + kind, place);
            }
            row.attempt(loaded().empty(), std::string(kind) + " at " + name);
        }
    }
}

TEST_F(ProjectFilesAttack, ALongFileUsesLittleMemory) {
    Row row("project files", "file beyond 64 KiB, up to 3 GB sparse");
    for (const char* name : {"AGENTS.md", ".agents/skills/helper/SKILL.md"}) {
        const fs::path place = work() / name;
        for (const std::uintmax_t size : {std::uintmax_t{64 * 1024 + 1}, std::uintmax_t{1} << 20U,
                                          std::uintmax_t{1} << 30U, std::uintmax_t{3} << 30U}) {
            clear();
            fs::create_directories(place.parent_path());
            std::ofstream(place) << skill_text("begin");
            fs::resize_file(place, size);
            rusage before{};
            ::getrusage(RUSAGE_SELF, &before);
            const std::string text = loaded();
            rusage after{};
            ::getrusage(RUSAGE_SELF, &after);
            const long grown = after.ru_maxrss - before.ru_maxrss;  // KiB
            row.attempt(text.size() <= most_bytes && grown < 64 * 1024 &&
                            text.find("Only its first 64 KiB are above") != std::string::npos,
                        std::string(name) + " of " + std::to_string(size) + " bytes");
        }
    }
}

TEST_F(ProjectFilesAttack, MalformedContentsAreNeitherASkillNorACrash) {
    Row row("project files", "hostile front matter, names and bytes");
    const std::string deep(60'000, '[');
    std::string aliases = "a0: &a0 [x]\n";
    for (int i = 1; i < 40; ++i) {
        const std::string before = "*a" + std::to_string(i - 1);
        aliases += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before + "," +
                   before + "]\n";
    }
    const std::vector<std::string> fronts = {
        "name: helper\ndescription: " + deep,
        "name: helper\ndescription: " + std::string(60'000, '{'),
        aliases + "name: helper",
        "name: ../../etc\ndescription: x",
        "name: helper\ndescription: [a, b]",
        "name: helper\ndescription: " + std::string(2000, 'd'),
        "name: helper\ndescription: \"\"",
        "- " + std::string(30'000, '-'),
        "? ? ? ?",
        "name: !!binary helper",
        std::string("name: \0helper", 13),
        "\xff\xfe\xff"};
    for (const std::string& front : fronts) {
        directory.put(".agents/skills/helper/SKILL.md", "---\n" + front + "\n---\nbody\n");
        row.attempt(loaded().empty(), front.substr(0, 60));
    }
    clear();
    for (const std::string& name :
         {std::string("\x1b]52;c;x\x07"), std::string("a\nb"), std::string("UPPER"),
          std::string("-x"), std::string("..."), std::string(200, 'a'), std::string("\xff")}) {
        fs::create_directories(work() / ".agents/skills" / name);
        std::ofstream(work() / ".agents/skills" / name / "SKILL.md")
            << "---\nname: \"" << name << "\"\ndescription: x\n---\nbody\n";
        row.attempt(loaded().empty(), "a skill with the name " + name);
    }
}

TEST_F(ProjectFilesAttack, DoesNotFollowASwappedLink) {
    Row row("project files", "file swapped for a link while it is read");
    for (const fs::path& place : {places()[0], places()[3], places()[4]}) {
        clear();
        directory.put("AGENTS.md", "fine");
        directory.put(".agents/skills/helper/SKILL.md", skill_text("fine"));
        const fs::path link = work() / "link";
        fs::create_symlink(target_of(place), link);
        std::atomic<bool> done = false;
        std::thread swapper([&] {
            while (!done) {
                ::renameat2(AT_FDCWD, place.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
            }
        });
        const std::size_t count = rounds(1500);
        std::size_t seen = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::string text = loaded();
            row.count(text.find(secret) == std::string::npos);
            if (text.find(secret) != std::string::npos) ++seen;
        }
        done = true;
        swapper.join();
        EXPECT_EQ(seen, 0u) << place;
    }
}

}  // namespace cubepi::attack
