// AGENTS.md and skills of a hostile repository: their contents, and changes while they are read. Tapes that others changed, links in
// their place, and a full disk.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <bub/builtin/project_files.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/run.hpp>
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
        std::string text = bub::read_instructions(work(), bub::InstructionScope::user).text;
        const bub::FoundSkills skills = bub::find_skills(bub::skill_directories(work(), false, {}));
        for (const bub::Skill& skill : skills.skills) text += skill.description + skill.body;
        return text;
    }

    /// The paths that a turn reads, and those of the directories above them.
    std::vector<fs::path> places() const {
        return {work() / "AGENTS.md",
                work() / "AGENTS.override.md",
                work() / "CLAUDE.md",
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

constexpr const char* tape_name = "w__s";

std::shared_ptr<bub::FileTapeStore> store_in(const bub::TestDirectory& directory) {
    return std::make_shared<bub::FileTapeStore>(directory.options());
}

MessageList conversation(int from, int count) {
    MessageList messages;
    for (int i = from; i < from + count; ++i) {
        const std::string id = "m" + std::to_string(i);
        messages.push_back(user_message("question " + std::to_string(i)).with_id(id));
    }
    return messages;
}

/// A tape with messages, an anchor, side state, an index and an unclosed turn.
void make_tape(const bub::TestDirectory& directory) {
    const bub::TestDirectory living;
    const auto store = store_in(living);
    const bub::Tape tape(store, tape_name);
    run(tape.bootstrap());
    bub::TapeCheckpointer memory(store);
    run(memory.append(tape_name, conversation(0, 20), AppendOptions()));
    run(memory.claim_run(tape_name, "r1", ClaimOwner(), ClaimKind::new_run));
    run(memory.append(tape_name, conversation(20, 3), AppendOptions()));
    bub::TurnTransactionOptions options;
    options.turn_id = "t1";
    const auto fork = tape.fork(std::move(options));
    run(tape.in(fork).append(bub::message_entry("user", "unclosed")));
    run(fork->flush());
    fs::copy(living.path(), directory.path(), fs::copy_options::recursive);
}

std::size_t below(std::mt19937_64& random, std::size_t limit) {
    return limit == 0 ? 0 : static_cast<std::size_t>(random() % limit);
}

std::string mutated(std::string text, std::mt19937_64& random) {
    static const std::vector<std::string> words{"null",
                                                "-1",
                                                "9223372036854775807",
                                                "1e999",
                                                "\"",
                                                "{",
                                                "}",
                                                "[",
                                                "\n",
                                                "\r",
                                                "\0x",
                                                "\xFF",
                                                "\\u0000",
                                                "\"id\": 7",
                                                "\"payload\": []",
                                                "\"meta\": 3",
                                                "\"kind\": \"anchor\"",
                                                "true"};
    const std::size_t changes = 1 + below(random, 6);
    for (std::size_t i = 0; i < changes; ++i) {
        const std::size_t at = below(random, text.size());
        const std::string& word = words[below(random, words.size())];
        switch (below(random, 7)) {
            case 0: text.insert(at, word); break;
            case 1: text.replace(at, std::min(word.size(), text.size() - at), word); break;
            case 2: text.erase(at, below(random, 40)); break;
            case 3: text.resize(at); break;
            case 4:
                text.insert(at, text.substr(below(random, text.size()), below(random, 300)));
                break;
            case 5: text.insert(at, std::string(below(random, 400), '[')); break;
            default:
                if (!text.empty()) text[at] = static_cast<char>(random() & 0xFFU);
        }
    }
    return text;
}

/// Whether an error states what failed, where, and what to do.
bool is_helpful(const Error& error) {
    const std::string text = error.what();
    const bool where = text.find(tape_name) != std::string::npos;
    const bool advice = text.find("; ") != std::string::npos;
    return where && advice && error.code() != ErrorCode::unknown;
}

/// Runs one use of a tape. Returns false and sets `why` if it fails with anything but a helpful Error.
bool held(const std::function<void()>& use, std::string& why) {
    try {
        use();
        return true;
    } catch (const Error& error) {
        why = error.what();
        return is_helpful(error);
    } catch (const std::exception& error) {
        why = std::string("std::exception: ") + error.what();
        return false;
    }
}

}  // namespace

TEST_F(ProjectFilesAttack, Links_AreNotFollowed) {
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

TEST_F(ProjectFilesAttack, OnlyRegularFiles_AreRead) {
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

TEST_F(ProjectFilesAttack, LongFile_UsesLittleMemory) {
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

TEST_F(ProjectFilesAttack, MalformedContents_CauseNeitherSkillNorCrash) {
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

TEST_F(ProjectFilesAttack, SwappedLink_IsNotFollowed) {
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

TEST(StorageAttack, ChangedFiles_AreReadOrRefused) {
    Row row("storage", "changed files of a tape");
    std::mt19937_64 random = generator("changed files of a tape");
    const std::vector<std::string> files{"w__s.jsonl",        "w__s.jsonl",
                                         "w__s.jsonl.state",  "w__s.jsonl.index",
                                         "w__s.jsonl.commit", "w__s.jsonl.turns/t1.journal"};
    const bub::TestDirectory original;
    make_tape(original);
    for (std::size_t round = 0; round < rounds(300); ++round) {
        const bub::TestDirectory directory;
        fs::copy(original.path(), directory.path(), fs::copy_options::recursive);
        const std::string& file = files[round % files.size()];
        std::string text = directory.read(file);
        if (file.ends_with(".commit"))
            text = R"({"offset": 40, "size": 9, "turn": "t1", "replaces": false})"
                   "\n012345678";
        directory.write(file, mutated(std::move(text), random));
        const auto store = store_in(directory);
        bub::TapeCheckpointer memory(store);
        const std::vector<std::function<void()>> uses{
            [&] { (void)run(store->newest_tapes()); },
            [&] { (void)run(store->position(tape_name)); },
            [&] { (void)run(store->info(tape_name)); },
            [&] { (void)run(memory.load(tape_name)); },
            [&] { (void)run(store->fetch(tape_name, bub::TapeQuery())); },
            [&] { (void)run(memory.find_message(tape_name, "m3")); },
            [&] { (void)run(memory.load_pending_requests(tape_name)); },
            [&] { run(memory.claim_run(tape_name, "r2", ClaimOwner(), ClaimKind::new_run)); },
            [&] { run(memory.append(tape_name, conversation(90, 2), AppendOptions())); },
            [&] { run(store->remove_tape(tape_name)); },
        };
        bool all = true;
        std::string why;
        for (const auto& use : uses) all = held(use, why) && all;
        row.attempt(all, file + ", round " + std::to_string(round) + ": " + why);
    }
}

TEST(StorageAttack, LinksInTapeDirectory_AreNotFollowed) {
    Row row("storage", "links in place of a tape's files");
    const bub::TestDirectory outside;
    const std::string secret(600, 's');
    outside.write("secret", secret);
    for (const char* name :
         {"w__s.jsonl", "w__s.jsonl.lock", "w__s.jsonl.commit", "w__s.jsonl.state",
          "w__s.jsonl.open", "w__s.jsonl.index", "w__s.jsonl.turns", "media", "w__s.jsonl.new",
          "w__s.jsonl.state.new"}) {
        const bub::TestDirectory directory;
        make_tape(directory);
        fs::remove_all(directory.path() / name);
        const bool is_directory =
            std::string_view(name) == "media" || std::string_view(name).ends_with(".turns");
        fs::create_symlink(is_directory ? outside.path() : outside.path() / "secret",
                           directory.path() / name);
        const auto store = store_in(directory);
        bub::TapeCheckpointer memory(store);
        std::string shown;
        const auto look = [&](const std::function<void()>& use) {
            try {
                use();
            } catch (const Error& error) {
                shown += error.what();
            }
        };
        look([&] {
            for (const auto& entry : run(store->fetch(tape_name, bub::TapeQuery())))
                shown += bub::tape_line(entry);
        });
        look([&] { (void)run(store->open_tape(tape_name)); });
        look([&] { run(memory.append(tape_name, conversation(90, 2), AppendOptions())); });
        look([&] { run(memory.claim_run(tape_name, "r2", ClaimOwner(), ClaimKind::new_run)); });
        look([&] { (void)run(store->put_media(secret)); });
        look([&] { (void)run(store->info(tape_name)); });
        look([&] {
            bub::TurnTransactionOptions options;
            options.turn_id = "t2";
            const bub::Tape tape(store, tape_name);
            const auto fork = tape.fork(std::move(options));
            run(tape.in(fork).append(bub::message_entry("user", "hi")));
            run(fork->merge());
        });
        look([&] { run(store->remove_tape(tape_name)); });
        const bool untouched = outside.read("secret") == secret && outside.count(".") == 1;
        row.attempt(untouched && shown.find("sss") == std::string::npos, name);
    }
}

TEST(StorageAttack, FullDisk_PreventsNeitherReadingNorDeletion) {
    Row row("storage", "a full disk with unclosed turns and commits");
    std::mt19937_64 random = generator("full disk");
    for (std::size_t round = 0; round < rounds(30); ++round) {
        const bub::TestDirectory directory;
        make_tape(directory);
        if (round % 2 == 1) {
            directory.write("w__s.jsonl.commit",
                            R"({"offset": 0, "size": 9, "turn": "t1", "replaces": )" +
                                std::string(round % 4 == 1 ? "true" : "false") + "}\n012345678");
        }
        if (round % 3 == 1) fs::remove(directory.path() / "w__s.jsonl.index");
        bool usable = false;
        bool removed = false;
        std::string why;
        {
            const bub::FullDisk full(below(random, 3) * 200);
            const auto store = store_in(directory);
            bub::TapeCheckpointer memory(store);
            usable = held([&] { (void)run(store->newest_tapes()); }, why) &&
                     held([&] { (void)run(store->position(tape_name)); }, why) &&
                     held([&] { (void)run(store->info(tape_name)); }, why) &&
                     held([&] { (void)run(memory.load(tape_name)); }, why) && why.empty();
            removed = held([&] { run(store->remove_tape(tape_name)); }, why) && why.empty();
        }
        row.attempt(usable && removed && directory.count(".") == 0,
                    "round " + std::to_string(round) + ": " + why);
    }
}

}  // namespace cubepi::attack
