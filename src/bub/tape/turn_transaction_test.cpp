#include <bub/tape/turn_transaction.hpp>

#include <gtest/gtest.h>

#include <future>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace bub {
namespace {

void say(const Tape& tape, std::string_view role, std::string text) {
    run(tape.append(message_entry(role, std::move(text))));
}

/// "role:text" of messages, the status of markers, the names of anchors.
std::string shape(const Tape& tape) {
    std::string found;
    for (const TapeEntry& entry : run(tape.query(TapeQuery()))) {
        if (entry.kind == "message") {
            found += std::string(entry.payload.at("role").as_string()) + ":" +
                     std::string(entry.payload.at("content").as_string());
        } else if (entry.kind == "event" && entry_name(entry) == "turn") {
            found += "turn=" + std::string(entry.payload.at("data").at("status").as_string());
            EXPECT_FALSE(is_in_context(entry)) << "B9: out of the context";
        } else {
            found += entry_name(entry);
        }
        found += ' ';
    }
    return found;
}

/// The directory as left by a killed process: the journal exists, and its lock is free.
class Killed {
public:
    explicit Killed(const TestDirectory& living) {
        std::filesystem::copy(living.path(), after.path(),
                              std::filesystem::copy_options::recursive);
    }
    TestDirectory after;
};

/// The turn "t1" on a clock of its own, whose journal is written by the only thread of a pool.
struct TimedTurn {
    TurnTransactionOptions options() const {
        TurnTransactionOptions options = turn("t1");
        options.flush_interval = std::chrono::milliseconds(500);
        options.runtime = std::make_shared<const cubepi::Runtime>(
            cubepi::Runtime().with_clock(clock).with_workers(workers));
        return options;
    }
    /// Moves the clock, and runs the callbacks of timers that are due.
    void advance(std::chrono::milliseconds time) const {
        const auto play = [&]() -> Task<void> {
            clock->advance(time);
            for (int i = 0; i < 3; ++i) co_await cubepi::yield_now();
        };
        run(play());
    }
    /// Returns the shape of the tape that the next process finds if this one is killed after the thread has written.
    std::string shape_after_kill() const {
        std::promise<void> written;
        workers->post([&] { written.set_value(); });
        written.get_future().wait();
        const Killed killed(directory);
        return shape(tape_in(killed.after));
    }

    const TestDirectory directory = {};
    const std::shared_ptr<cubepi::testing::ManualClock> clock =
        std::make_shared<cubepi::testing::ManualClock>();
    const std::shared_ptr<cubepi::WorkerPool> workers = std::make_shared<cubepi::WorkerPool>(1);
    const Tape tape = tape_in(directory);
    const std::shared_ptr<TurnTransaction> fork = tape.fork(options());
};

}  // namespace

TEST(TurnTransaction, B9_Turn_IsSeenWhenItIsWhole) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    const auto fork = tape.fork(turn("t1"));
    const Tape inside = tape.in(fork);
    say(inside, "user", "hi");
    fork->add_text("hel");
    say(inside, "assistant", "hello");
    EXPECT_EQ(shape(tape), "");
    EXPECT_EQ(shape(inside), "user:hi assistant:hello ");
    EXPECT_EQ(directory.count("w__s.jsonl.turns"), 1u);
    run(fork->merge());
    EXPECT_EQ(shape(tape), "user:hi assistant:hello turn=ok ");
    EXPECT_FALSE(directory.has("w__s.jsonl.turns"));
    EXPECT_THROW(run(fork->merge()), cubepi::Error);
}

TEST(TurnTransaction, B9_KilledTurn_IsClosedWithPartialText) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    const auto fork = tape.fork(turn("t1"));
    say(tape.in(fork), "user", "hi");
    fork->add_text("All is w");
    fork->add_text("ell, größ");
    run(fork->flush());
    fork->add_text("never flushed");
    const Killed killed(directory);
    const Tape after = tape_in(killed.after);
    EXPECT_EQ(shape(after), "user:hi assistant:All is well, größ turn=interrupted ");
    EXPECT_FALSE(killed.after.has("w__s.jsonl.turns"));
    EXPECT_EQ(shape(tape_in(killed.after)),
              "user:hi assistant:All is well, größ turn=interrupted ");
    EXPECT_EQ(shape(tape), "") << "the living turn is not touched";
}

TEST(TurnTransaction, B9_TurnOfDeadProcess_IsClosedByNext) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    EXPECT_EQ(shape(tape), "") << "this process has looked already";
    std::filesystem::create_directory(directory.path() / "w__s.jsonl.turns");
    TapeEntry entry = message_entry("user", "from the dead");
    entry.date = "2026-03-01T00:00:00+00:00";
    directory.write(
        "w__s.jsonl.turns/x.journal",
        "{\"turn\": \"x\"}\n" + tape_line(entry) + "{\"text\": \"I\"}\n{\"text\": \" am\"}\n{\"sa");
    const auto fork = tape.fork(turn("t2"));
    say(tape.in(fork), "user", "next");
    run(fork->merge());
    EXPECT_EQ(shape(tape), "user:from the dead assistant:I am turn=interrupted user:next turn=ok ");
    EXPECT_EQ(run(tape.query(TapeQuery().limit(1))).at(0).date, "2026-03-01T00:00:00+00:00");
}

TEST(TurnTransaction, B9_TextOfEntry_IsNotRepeated) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    const auto fork = tape.fork(turn("t1"));
    const Tape inside = tape.in(fork);
    say(inside, "user", "hi");
    fork->add_text("first");
    say(inside, "assistant", "first");
    fork->add_text("second");
    run(fork->flush());
    const Killed killed(directory);
    EXPECT_EQ(shape(tape_in(killed.after)),
              "user:hi assistant:first assistant:second turn=interrupted ");
}

TEST(TurnTransaction, B9_FailedTurn_KeepsItsPartialText) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    const auto fork = tape.fork(turn("t1"));
    say(tape.in(fork), "user", "hi");
    fork->add_text("I was ab");
    run(fork->merge(TurnStatus::cancelled));
    EXPECT_EQ(shape(tape), "user:hi assistant:I was ab turn=cancelled ");
}

TEST(TurnTransaction, B9_FlushInterval_WritesPartialTextToTheJournal) {
    const TimedTurn turn;
    say(turn.tape.in(turn.fork), "user", "hi");
    turn.fork->add_text("shown");
    turn.advance(std::chrono::milliseconds(500));
    EXPECT_EQ(turn.shape_after_kill(), "user:hi assistant:shown turn=interrupted ");
}

/// A turn that continues an earlier one, whose entries are on the tape.
TEST(TurnTransaction, B9_TextBeforeEntries_IsWrittenToTheJournal) {
    const TimedTurn turn;
    say(turn.tape, "user", "hi");
    run(turn.fork->open());
    turn.fork->add_text("shown");
    turn.advance(std::chrono::milliseconds(500));
    EXPECT_EQ(turn.shape_after_kill(), "user:hi assistant:shown turn=interrupted ");
}

TEST(TurnTransaction, D272_FirstAnchorWithoutMore_IsJournaledLater) {
    const TimedTurn turn;
    run(turn.tape.in(turn.fork).bootstrap());
    turn.advance(std::chrono::milliseconds(1'000));
    EXPECT_EQ(turn.shape_after_kill(), "session/start handoff turn=interrupted ");
}

TapeEntry end_of_run() {
    JsonObject data{{"run_id", "r1"}, {"status", "complete"}};
    return event_entry("cubepi.run", std::move(data), hidden_from_context());
}

TEST(TurnTransaction, D272_EndOfRun_IsJournaledWithWhatFollows) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    const auto fork = tape.fork(turn("t1"));
    const Tape inside = tape.in(fork);
    say(inside, "user", "hi");
    say(inside, "assistant", "hello");
    run(inside.append(end_of_run()));
    EXPECT_EQ(shape(inside), "user:hi assistant:hello cubepi.run ");
    {
        const Killed killed(directory);
        EXPECT_EQ(shape(tape_in(killed.after)), "user:hi assistant:hello turn=interrupted ");
    }
    say(inside, "user", "more");
    const Killed killed(directory);
    EXPECT_EQ(shape(tape_in(killed.after)),
              "user:hi assistant:hello cubepi.run user:more "
              "turn=interrupted ");
    run(fork->merge());
    EXPECT_EQ(shape(tape), "user:hi assistant:hello cubepi.run user:more turn=ok ");
}

TEST(TurnTransaction, D272_EndOfRunWithoutMore_IsJournaledLater) {
    const TimedTurn turn;
    say(turn.tape.in(turn.fork), "assistant", "hello");
    run(turn.tape.in(turn.fork).append(end_of_run()));
    turn.advance(std::chrono::milliseconds(1'000));
    EXPECT_EQ(turn.shape_after_kill(), "assistant:hello cubepi.run turn=interrupted ");
}

cubepi::Message answer_with(cubepi::AssistantContent block, std::string_view stop_reason) {
    cubepi::AssistantMessage answer;
    answer.content.push_back(std::move(block));
    answer.stop_reason = std::string(stop_reason);
    return answer;
}

TEST(TurnTransaction, D272_LastAnswer_IsJournaledLikeShownText) {
    const TimedTurn turn;
    TapeCheckpointer memory(turn.fork);
    const auto add = [&](cubepi::Message message) {
        cubepi::MessageList one;
        one.push_back(std::move(message));
        run(memory.append("w__s", std::move(one), cubepi::AppendOptions()));
    };
    add(cubepi::user_message("hi", "m1"));
    EXPECT_EQ(turn.shape_after_kill(), "user:hi turn=interrupted ");
    add(answer_with(cubepi::TextContent{"hello"}, cubepi::stop_reason::stop));
    EXPECT_EQ(turn.shape_after_kill(), "user:hi turn=interrupted ");
    turn.advance(std::chrono::milliseconds(500));
    EXPECT_EQ(turn.shape_after_kill(), "user:hi assistant:hello turn=interrupted ");
}

/// Completes a run in a turn with messages of the run `run_id`. Returns whether the end of the run is there after the process was killed.
bool has_end_after_kill(std::vector<cubepi::Message> messages, const std::string& run_id = "r1") {
    const TestDirectory directory;
    const auto fork = tape_in(directory).fork(turn("t1"));
    TapeCheckpointer memory(fork);
    const cubepi::ClaimOwner owner = cubepi::current_process_owner();
    run(memory.claim_run("w__s", "r1", owner, cubepi::ClaimKind::new_run));
    for (cubepi::Message& message : messages) {
        cubepi::MessageList one;
        one.push_back(std::move(message).with_run_id(run_id));
        run(memory.append("w__s", std::move(one), cubepi::AppendOptions()));
    }
    run(memory.complete_run("w__s", "r1", owner.owner_id));
    EXPECT_TRUE(run(fork->find_run("w__s", "r1"))) << "the turn itself sees it";
    const Killed killed(directory);
    return run(tape_in(killed.after).store()->find_run("w__s", "r1")).has_value();
}

TEST(TurnTransaction, D272_RunWithoutAnswer_EndsInTheJournal) {
    const cubepi::Message input = cubepi::user_message("hi", "m1");
    const cubepi::Message calls =
        answer_with(cubepi::ToolCall{.id = "c1", .name = "t"}, cubepi::stop_reason::tool_use);
    cubepi::ToolResultMessage done;
    done.tool_call_id = "c1";
    done.tool_name = "t";
    done.content.emplace_back(cubepi::TextContent{"done"});
    const cubepi::Message result = done;
    const auto says = [](std::string_view stop_reason) {
        return answer_with(cubepi::TextContent{"hello"}, stop_reason);
    };
    EXPECT_FALSE(has_end_after_kill({input, says(cubepi::stop_reason::stop)}))
        << "the answer says it";
    EXPECT_FALSE(has_end_after_kill({input, calls, result, says(cubepi::stop_reason::stop)}));
    EXPECT_TRUE(has_end_after_kill({input, calls, result})) << "ended by a limit, or by the tool";
    EXPECT_TRUE(has_end_after_kill({input, calls}));
    EXPECT_TRUE(has_end_after_kill({input, says(cubepi::stop_reason::error)}));
    EXPECT_TRUE(has_end_after_kill({input, says(cubepi::stop_reason::aborted)}));
    EXPECT_TRUE(has_end_after_kill({input, says("pause_turn")}));
    EXPECT_TRUE(has_end_after_kill(
        {input, says(cubepi::stop_reason::stop), cubepi::user_message("more", "m2")}))
        << "limited before it has answered a second message";
    EXPECT_TRUE(has_end_after_kill({input, says(cubepi::stop_reason::stop)}, "r2"));
    EXPECT_TRUE(has_end_after_kill({})) << "an earlier turn has the messages";
}

TEST(TurnTransaction, D20_EntryOnFullDisk_IsOmittedUnlikeNext) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    const auto fork = tape.fork(turn("t1"));
    const Tape inside = tape.in(fork);
    say(inside, "user", "hi");
    fork->add_text("half a sen");
    run(fork->flush());
    const std::string name = fork->tape();
    const TapePosition before = run(fork->position(name));
    const std::size_t written = directory.read("w__s.jsonl.turns/t1.journal").size();
    for (const std::size_t more : {0U, 20U}) {
        const FullDisk full(written + more);
        try {
            say(inside, "assistant", "half a sentence");
            ADD_FAILURE() << "the disk is full";
        } catch (const cubepi::CheckpointerError& error) {
            EXPECT_EQ(error.code(), cubepi::ErrorCode::storage_full) << error.what();
        }
        EXPECT_EQ(run(fork->position(name)).messages, before.messages);
        EXPECT_EQ(fork->entries().size(), 1U);
    }
    std::vector<TapeEntry> entries;
    entries.push_back(message_entry("user", "again"));
    TapeAppend expecting = TapeAppend().expected_position(before.messages);
    (void)run(fork->append(name, std::move(entries), std::move(expecting)));
    const Killed killed(directory);
    EXPECT_EQ(shape(tape_in(killed.after)),
              "user:hi user:again assistant:half a sen turn=interrupted ");
    run(fork->merge());
    EXPECT_EQ(shape(tape), "user:hi user:again turn=ok ");
}

TEST(TurnTransaction, D20_UnbegunJournal_IsBegunLater) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    say(tape, "user", "before");
    const auto fork = tape.fork(turn("t1"));
    const Tape inside = tape.in(fork);
    {
        const FullDisk full(10);
        EXPECT_THROW(say(inside, "user", "hi"), cubepi::Error);
    }
    say(inside, "user", "again");
    const Killed killed(directory);
    EXPECT_EQ(shape(tape_in(killed.after)), "user:before user:again turn=interrupted ");
}

TEST(TurnTransaction, B9_DiscardedTurn_LeavesNothing) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    const auto fork = tape.fork(turn("t1"));
    say(tape.in(fork), "user", "hi");
    run(fork->discard());
    EXPECT_FALSE(directory.has("w__s.jsonl.turns"));
    EXPECT_FALSE(directory.has("w__s.jsonl"));
    EXPECT_THROW(say(tape.in(fork), "user", "late"), cubepi::Error);
}

TEST(TurnTransaction, B9_EmptyTurn_LeavesNoMarker) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    run(tape.fork(turn("t1"))->merge());
    EXPECT_FALSE(directory.has("w__s.jsonl"));
}

TEST(TurnTransaction, B9_AbandonedTurn_IsClosedByTheNext) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    {
        const auto fork = tape.fork(turn("t1"));
        say(tape.in(fork), "user", "hi");
    }
    const auto fork = tape.fork(turn("t2"));
    say(tape.in(fork), "user", "again");
    run(fork->merge());
    EXPECT_EQ(shape(tape), "user:hi turn=interrupted user:again turn=ok ");
}

TEST(TurnTransaction, B9_AbandonedTurn_PrecedesTheNextOne) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    {
        const auto failed = tape.fork(turn("t1"));
        run(tape.in(failed).bootstrap());
        say(tape.in(failed), "user", "1");
    }
    const auto next = tape.fork(turn("t2"));
    const Tape inside = tape.in(next);
    run(inside.bootstrap());
    EXPECT_EQ(run(inside.anchors()).size(), 1u);
    say(inside, "user", "2");
    run(next->merge());
    EXPECT_EQ(run(tape.anchors()).size(), 1u);
}

TEST(TurnTransaction, B9_ResetInKilledTurn_IsPreserved) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    say(tape, "user", "old");
    const auto fork = tape.fork(turn("t1"));
    const Tape inside = tape.in(fork);
    say(inside, "user", "dropped");
    run(inside.restart());
    say(inside, "user", "new");
    const Killed killed(directory);
    EXPECT_EQ(shape(tape_in(killed.after)), "session/start handoff user:new turn=interrupted ");
    EXPECT_EQ(shape(tape), "user:old ");
}

TEST(TurnTransaction, Turns_LockNothing) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    const auto first = tape.fork(turn("t1"));
    const auto second = tape_in(directory).fork(turn("t2"));
    say(tape.in(first), "user", "1");
    say(tape.in(second), "user", "2");
    say(tape, "user", "between");
    run(second->merge());
    run(first->merge());
    EXPECT_EQ(shape(tape), "user:between user:2 turn=ok user:1 turn=ok ");
}

TEST(TurnTransaction, B9_TurnsEndingTogether_FollowEachOther) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    const auto play = [&](cubepi::TaskScope& scope) -> Task<void> {
        for (int number = 0; number < 8; ++number) {
            const auto fork = tape_in(directory).fork(turn("t" + std::to_string(number)));
            const Tape inside = tape.in(fork);
            co_await inside.bootstrap();
            for (int entry = 0; entry < 3; ++entry) {
                TapeEntry one = message_entry("user", std::to_string(number));
                co_await inside.append(std::move(one));
            }
            scope.spawn(fork->merge());
        }
        co_await scope.join();
    };
    run(cubepi::with_task_scope(play));
    std::vector<std::string> texts;
    for (const TapeEntry& entry : run(tape.query(TapeQuery().kinds({"message"}))))
        texts.emplace_back(entry.payload.at("content").as_string());
    ASSERT_EQ(texts.size(), 24u);
    for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], texts[i - i % 3]) << i;
    EXPECT_EQ(run(tape.anchors()).size(), 1u) << "one first anchor, regardless of the order";
}

TEST(TurnTransaction, B17_FailureOfParent_IsPassedOn) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape(store, "w__s");
    say(tape, "user", "without an anchor");
    const Tape inside = tape.in(tape.fork());
    EXPECT_THROW((void)run(inside.query(TapeQuery().last_anchor())), cubepi::Error);
    EXPECT_THROW((void)run(inside.query(TapeQuery().between_dates("no date", "2026-01-01"))),
                 cubepi::Error);
    const TestDirectory directory;
    const Tape broken = tape_in(directory);
    std::filesystem::create_directory(directory.path() / "w__s.jsonl");
    EXPECT_THROW((void)run(broken.in(broken.fork()).query(TapeQuery())), cubepi::Error);
}

TEST(TurnTransaction, B9_ResultOfAnyBytes_IsStored) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    const auto fork = tape.fork(turn("t1"));
    JsonObject payload;
    payload["results"] = JsonArray{"\xff\xfe bytes"};
    TapeEntry odd = tape_entry("tool_result", std::move(payload));
    run(tape.in(fork).append(std::move(odd)));
    run(fork->merge());
    const std::vector<TapeEntry> entries = run(tape.query(TapeQuery()));
    ASSERT_EQ(entries.size(), 2u);
    const Json& stored = entries[0].payload.at("results").as_array().at(0);
    EXPECT_EQ(stored, Json(std::string("\uFFFD\uFFFD bytes")));
}

/// Returns nested lists.
Json nested(std::size_t depth) {
    Json value = JsonArray();
    while (--depth > 0) value = JsonArray{std::move(value)};
    return value;
}

TapeEntry deep_entry(std::size_t depth) {
    JsonObject payload;
    payload["results"] = nested(depth);
    return tape_entry("tool_result", std::move(payload));
}

TEST(TurnTransaction, B9_DeeplyNestedEntry_CanBeReadAgain) {
    constexpr std::size_t deepest = cubepi::max_stored_json_depth - 2;  // the line, the payload
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    const auto fork = tape.fork(turn("t1"));
    say(tape.in(fork), "user", "before");
    run(tape.in(fork).append(deep_entry(deepest)));
    for (const Tape& where : {tape.in(fork), tape}) {
        try {
            run(where.append(deep_entry(deepest + 1)));
            ADD_FAILURE() << "it was stored";
        } catch (const cubepi::Error& error) {
            EXPECT_EQ(error.code(), cubepi::ErrorCode::invalid_argument);
            EXPECT_NE(std::string_view(error.what()).find("'w__s'"), std::string_view::npos)
                << error.what();
        }
    }
    say(tape.in(fork), "user", "after");
    const Killed killed(directory);
    run(fork->merge());
    for (const Tape& read : {tape, tape_in(directory), tape_in(killed.after)}) {
        const std::vector<TapeEntry> entries = run(read.query(TapeQuery()));
        ASSERT_EQ(entries.size(), 4u) << "two messages, the result, the marker";
        EXPECT_EQ(entries[1].payload.at("results"), nested(deepest));
        EXPECT_EQ(run(read.info()).entries, 4);
    }
}

TEST(TurnTransaction, B9_DeepestArgumentsOfModel_ArePreserved) {
    const TestDirectory directory;
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    JsonObject arguments;
    arguments["a"] = nested(cubepi::max_json_depth - 1);
    cubepi::AssistantMessage answer;
    answer.content.emplace_back(cubepi::ToolCall{.id = "c1", .name = "t", .arguments = arguments});
    cubepi::MessageList messages;
    messages.push_back(cubepi::user_message("hi", "m1"));
    messages.push_back(cubepi::Message(std::move(answer)));
    run(TapeCheckpointer(store).append("w__s", messages, cubepi::AppendOptions()));
    const auto again = std::make_shared<FileTapeStore>(directory.options());
    const auto loaded = run(TapeCheckpointer(again).load("w__s"));
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->messages.back().assistant()->tool_calls().at(0)->arguments, arguments);
}

TEST(TurnTransaction, OtherTapes_AreThoseOfTheStore) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape(store, "w__s");
    const auto fork = tape.fork();
    const Tape other(fork, "w__other");
    say(other, "user", "at once");
    EXPECT_EQ(run(store->info("w__other")).entries, 1);
    EXPECT_EQ(shape(other), "user:at once ");
    run(fork->discard());
}

TEST(TurnTransaction, EntriesAppendedBehind_AreSeenAfterTheMerge) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    const auto fork = tape.fork(turn("t1"));
    say(tape.in(fork), "user", "one");
    std::vector<TapeEntry> child;
    child.push_back(message_entry("user", "three"));
    run(fork->append_behind(std::move(child)));
    say(tape.in(fork), "user", "two");
    EXPECT_EQ(run(tape.in(fork).query(TapeQuery())).size(), 2u);
    const Killed killed(directory);
    run(fork->merge());
    for (const TestDirectory* where : {&directory, &killed.after}) {
        const std::vector<TapeEntry> entries = run(tape_in(*where).query(TapeQuery()));
        ASSERT_EQ(entries.size(), 4u);
        EXPECT_EQ(entries[1].payload.at("content"), Json("two"));
        EXPECT_EQ(entries[2].payload.at("content"), Json("three"));
        EXPECT_EQ(entry_name(entries[3]), "turn");
    }
}

TEST(TurnTransaction, SearchInside_ReadsBothPartsUpToLimit) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape(store, "w__s");
    for (const char* text : {"a", "b", "c"}) say(tape, "user", text);
    const auto fork = tape.fork();
    for (const char* text : {"d", "e"}) say(tape.in(fork), "user", text);
    const auto seen = [&](TapeQuery query) {
        std::string text;
        std::function<bool(const TapeEntry&)> look = [&text](const TapeEntry& entry) {
            text += entry.payload.at("content").as_string();
            return true;
        };
        run(fork->visit("w__s", std::move(query), std::move(look)));
        return text;
    };
    EXPECT_EQ(seen(TapeQuery()), "abcde");
    EXPECT_EQ(seen(TapeQuery().newest_first()), "edcba");
    EXPECT_EQ(seen(TapeQuery().newest_first().limit(3)), "edc");
    EXPECT_EQ(seen(TapeQuery().limit(4)), "abcd");
    EXPECT_EQ(seen(TapeQuery().text("B")), "b");
}

}  // namespace bub
