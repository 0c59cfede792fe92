// Files changed by others, links in their place, and a full disk.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/run.hpp>

#include "attack.hpp"

namespace cubepi::attack {

namespace {

namespace fs = std::filesystem;

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
    bub::TapeForkOptions options;
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

TEST(StorageAttack, ReadsOrRefusesChangedFiles) {
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

TEST(StorageAttack, FollowsNoLinksInATapeDirectory) {
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
            bub::TapeForkOptions options;
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

TEST(StorageAttack, AFullDiskPreventsNeitherReadingNorDeletion) {
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
