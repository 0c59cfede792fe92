#include <gtest/gtest.h>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/testing/manual_clock.hpp>

// A claim on a tape is held until its turn has been merged into the tape (D50).

namespace bub {
namespace {

using namespace cubepi;

/// Agents of two processes, as far as their store can tell, on one tape.
class TwoProcesses : public ::testing::Test {
protected:
    struct Process {
        std::string owner;
        std::shared_ptr<FileTapeStore> store;
        std::shared_ptr<TurnTransaction> fork;
        std::shared_ptr<TapeCheckpointer> memory;
    };

    /// Starts a turn under a claim.
    Process begin(const std::string& owner) { return begin(owner, directory_.options()); }
    Process begin(const std::string& owner, FileTapeOptions files) {
        Process one;
        one.owner = owner;
        one.store = std::make_shared<FileTapeStore>(std::move(files));
        TurnTransactionOptions options;
        options.turn_id = "turn-of-" + owner;
        one.fork = std::make_shared<TurnTransaction>(one.store, tape, std::move(options));
        TapeCheckpointerOptions how;
        how.clock = clock_;
        one.memory = std::make_shared<TapeCheckpointer>(one.fork, std::move(how));
        claim(one, "run-of-" + owner);
        return one;
    }
    static ClaimResult claim(const Process& one, std::string run_id) {
        ClaimOwner owner;
        owner.owner_id = one.owner;
        owner.description = one.owner;
        return run(one.memory->claim_run(tape, std::move(run_id), owner, ClaimKind::new_run));
    }
    static void say(const Process& one, const std::string& text) {
        MessageList messages;
        messages.push_back(user_message(text + "?", text).with_run_id("run-of-" + one.owner));
        AssistantMessage answer;
        answer.content.emplace_back(TextContent{text + "!"});
        messages.push_back(Message(std::move(answer)).with_run_id("run-of-" + one.owner));
        AppendOptions options = AppendOptions().claim("run-of-" + one.owner, one.owner);
        (void)run(one.memory->append(tape, std::move(messages), std::move(options)));
    }
    static void complete(const Process& one) {
        run(one.memory->mark_run_complete(tape, "run-of-" + one.owner));
    }
    /// Completes the run under its claim, as an agent does.
    static void complete_under_claim(const Process& one) {
        run(one.memory->complete_run(tape, "run-of-" + one.owner, one.owner));
    }
    void sleep_past_the_lease() { clock_->advance(std::chrono::seconds(61)); }

    /// Returns the texts of the messages that an agent would load.
    std::string conversation() const {
        TapeCheckpointer memory(std::make_shared<FileTapeStore>(directory_.options()));
        const auto data = run(memory.load(tape));
        std::string texts;
        if (!data) return texts;
        for (const Message& message : data->messages) texts += message.text() + " ";
        EXPECT_EQ(data->position, static_cast<std::int64_t>(data->messages.size()));
        return texts;
    }
    std::optional<TapeEntry> refused() const {
        return run(FileTapeStore(directory_.options()).find_event(tape, "turn.refused"));
    }

    static constexpr const char* tape = "w__s";
    const TestDirectory directory_;
    const std::shared_ptr<cubepi::testing::ManualClock> clock_ =
        std::make_shared<cubepi::testing::ManualClock>();
};

}  // namespace

TEST_F(TwoProcesses, D50_TurnOnFullDisk_DoesNotBlockNext) {
    const Process first = begin("a");
    say(first, "stored");
    run(first.memory->release_claim(tape, "run-of-a", "a"));
    {
        const FullDisk full;
        try {
            run(first.fork->merge(TurnStatus::error));
            ADD_FAILURE() << "the disk is full";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::storage_full) << error.what();
        }
    }
    // The same program and store: the next turn has another agent.
    Process next;
    next.owner = "b";
    next.store = first.store;
    next.memory = std::make_shared<TapeCheckpointer>(first.store);
    const ClaimResult claimed = claim(next, "run-of-b");
    EXPECT_FALSE(claimed.superseded) << "it was given up, not lost";
}

TEST_F(TwoProcesses, D50_UnmergedTurn_KeepsTheTapeFromOtherOwners) {
    const Process first = begin("first");
    say(first, "one");
    complete(first);
    EXPECT_THROW(begin("second"), RunAlreadyClaimedError);
    run(first.fork->merge());
    const Process second = begin("second");
    say(second, "two");
    run(second.fork->merge());
    EXPECT_EQ(conversation(), "one? one! two? two! ");
}

TEST_F(TwoProcesses, D50_SupersededSleepingTurn_IsRefusedAtMerge) {
    const Process first = begin("first");
    say(first, "one");
    complete(first);
    sleep_past_the_lease();
    const Process second = begin("second");
    say(second, "two");
    complete(second);
    run(second.fork->merge());
    try {
        run(first.fork->merge());
        ADD_FAILURE() << "was merged";
    } catch (const StaleAppendError& error) {
        EXPECT_NE(std::string(error.what()).find("turn.refused"), std::string::npos);
        EXPECT_EQ(error.thread_id(), tape);
    }
    EXPECT_EQ(conversation(), "two? two! ");
}

TEST_F(TwoProcesses, D50_RefusedTurn_IsStoredOutsideTheConversation) {
    const Process first = begin("first");
    say(first, "one");
    first.fork->add_text("and more");
    sleep_past_the_lease();
    const Process second = begin("second");
    say(second, "two");
    run(second.fork->merge());
    EXPECT_THROW(run(first.fork->merge(TurnStatus::error)), StaleAppendError);
    const std::optional<TapeEntry> event = refused();
    ASSERT_TRUE(event);
    EXPECT_FALSE(is_in_context(*event));
    const JsonObject& data = event->payload.at("data").as_object();
    EXPECT_EQ(data.at("turn"), Json("turn-of-first"));
    EXPECT_EQ(data.at("status"), Json("error"));
    const JsonArray& stored = data.at("entries").as_array();
    ASSERT_EQ(stored.size(), 3u);
    EXPECT_EQ(stored[0].at("payload").at("content"), Json("one?"));
    EXPECT_EQ(stored[1].at("payload").at("content"), Json("one!"));
    EXPECT_EQ(stored[2].at("payload").at("content"), Json("and more"));
    EXPECT_FALSE(directory_.has("w__s.jsonl.turns")) << "the journal has served";
    // Its input is not on the tape and may be submitted again.
    EXPECT_FALSE(run(TapeCheckpointer(first.store).find_message(tape, "one")));
}

TEST_F(TwoProcesses, D50_RefusedTurn_DoesNotDisturbTheNewOwner) {
    const Process first = begin("first");
    say(first, "one");
    sleep_past_the_lease();
    const auto store = std::make_shared<FileTapeStore>(directory_.options());
    TapeCheckpointerOptions how;
    how.clock = clock_;
    TapeCheckpointer memory(store, std::move(how));
    ClaimOwner owner;
    owner.owner_id = "second";
    (void)run(memory.claim_run(tape, "r", owner, ClaimKind::new_run));
    MessageList question;
    question.push_back(user_message("two?"));
    AppendOptions here = AppendOptions().claim("r", "second").expected_position(0);
    const std::int64_t at = run(memory.append(tape, std::move(question), std::move(here)));
    EXPECT_THROW(run(first.fork->merge()), StaleAppendError);
    MessageList more;
    more.push_back(user_message("three?"));
    AppendOptions then = AppendOptions().claim("r", "second").expected_position(at);
    EXPECT_EQ(run(memory.append(tape, std::move(more), std::move(then))), at + 1);
}

TEST_F(TwoProcesses, D50_TurnKilledInSleep_IsStoredOutsideConversation) {
    Process first = begin("first");
    say(first, "one");
    sleep_past_the_lease();
    const Process second = begin("second");
    say(second, "two");
    run(second.fork->merge());
    first = Process();
    EXPECT_EQ(conversation(), "two? two! ");
    const std::optional<TapeEntry> event = refused();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->payload.at("data").at("status"), Json("interrupted"));
    EXPECT_EQ(event->payload.at("data").at("entries").as_array().size(), 2u);
    EXPECT_FALSE(directory_.has("w__s.jsonl.turns"));
}

TEST_F(TwoProcesses, D50_SleepingTurnNotSuperseded_IsMerged) {
    const Process first = begin("first");
    say(first, "one");
    complete(first);
    sleep_past_the_lease();
    run(first.fork->merge());
    EXPECT_EQ(conversation(), "one? one! ");
    EXPECT_FALSE(refused());
}

TEST_F(TwoProcesses, B9_KilledTurnWithoutNewOwner_IsInterrupted) {
    Process first = begin("first");
    say(first, "one");
    first = Process();
    sleep_past_the_lease();
    EXPECT_EQ(conversation(), "one? one! ");
    const Process second = begin("second");
    say(second, "two");
    run(second.fork->merge());
    EXPECT_EQ(conversation(), "one? one! two? two! ");
    EXPECT_FALSE(refused());
}

TEST_F(TwoProcesses, D50_AbandonedTurnThatReleased_DoesNotBlockNext) {
    Process first = begin("first");
    say(first, "one");
    run(first.memory->release_claim(tape, "run-of-first", "first"));
    // The same program and store: the time for the end of the turn was over before the merge.
    first.memory.reset();
    first.fork.reset();
    EXPECT_EQ(conversation(), "one? one! ") << "the next turn closes it";
    Process next;
    next.owner = "next";
    next.store = first.store;
    next.memory = std::make_shared<TapeCheckpointer>(first.store);
    EXPECT_FALSE(claim(next, "run-of-next").superseded);
    EXPECT_FALSE(refused());
}

TEST(TapeClaims, D50_AbandonedTurnInMemory_DoesNotBlockNext) {
    const auto store = std::make_shared<MemoryTapeStore>();
    ClaimOwner owner;
    owner.owner_id = "first";
    {
        TapeCheckpointer memory(std::make_shared<TurnTransaction>(store, "w__s"));
        (void)run(memory.claim_run("w__s", "r", owner, ClaimKind::new_run));
        run(memory.release_claim("w__s", "r", "first"));
    }
    TapeCheckpointer next(store);
    owner.owner_id = "next";
    const ClaimResult claimed = run(next.claim_run("w__s", "r2", owner, ClaimKind::new_run));
    EXPECT_FALSE(claimed.superseded);
}

TEST_F(TwoProcesses, D50_DiscardedTurn_ReleasesItsClaim) {
    const Process first = begin("first");
    say(first, "one");
    complete(first);
    run(first.fork->discard());
    const Process second = begin("second");
    say(second, "two");
    run(second.fork->merge());
    EXPECT_EQ(conversation(), "two? two! ");
}

TEST_F(TwoProcesses, D50_Turn_MayTakeSuccessiveRuns) {
    const Process first = begin("first");
    say(first, "one");
    run(first.memory->release_claim(tape, "run-of-first", "first"));
    claim(first, "another run");
    run(first.memory->mark_run_complete(tape, "another run"));
    run(first.fork->merge());
    EXPECT_EQ(conversation(), "one? one! ");
    const Process second = begin("second");
    run(second.fork->merge());
}

/// Two owners on a tape without turns: appends reach the tape immediately.
class TwoOwners : public ::testing::Test {
protected:
    TapeCheckpointer memory() const {
        TapeCheckpointerOptions how;
        how.clock = clock_;
        return TapeCheckpointer(store_, std::move(how));
    }
    ClaimResult claim(const std::string& owner_id, ClaimKind kind) {
        ClaimOwner owner;
        owner.owner_id = owner_id;
        return run(memory().claim_run("w__s", "r", owner, kind));
    }
    void append(const std::string& owner_id) {
        MessageList messages;
        messages.push_back(user_message("from " + owner_id).with_run_id("r"));
        (void)run(
            memory().append("w__s", std::move(messages), AppendOptions().claim("r", owner_id)));
    }

    const std::shared_ptr<MemoryTapeStore> store_ = std::make_shared<MemoryTapeStore>();
    const std::shared_ptr<cubepi::testing::ManualClock> clock_ =
        std::make_shared<cubepi::testing::ManualClock>();
};

TEST_F(TwoOwners, D50_FormerOwner_DoesNotCompleteTheRun) {
    claim("first", ClaimKind::new_run);
    clock_->advance(std::chrono::seconds(61));
    EXPECT_TRUE(claim("second", ClaimKind::continue_run).superseded);
    EXPECT_THROW(run(memory().complete_run("w__s", "r", "first")), StaleAppendError);
    EXPECT_FALSE(run(memory().is_run_complete("w__s", "r")));
    append("second");
    run(memory().renew_claim("w__s", "r", "second"));
    run(memory().complete_run("w__s", "r", "second"));
    EXPECT_TRUE(run(memory().is_run_complete("w__s", "r")));
    EXPECT_TRUE(run(store_->read_state("w__s")).empty()) << "claim and open run are gone";
    run(memory().complete_run("w__s", "r", "first"));  // idempotent once complete
}

TEST_F(TwoOwners, D269_FreshRun_IsCompletedLikeOthers) {
    claim("first", ClaimKind::fresh_run);
    EXPECT_THROW(claim("first", ClaimKind::fresh_run), RunAlreadyClaimedError);
    clock_->advance(std::chrono::seconds(61));
    EXPECT_TRUE(claim("second", ClaimKind::continue_run).superseded);
    EXPECT_THROW(run(memory().complete_run("w__s", "r", "first")), StaleAppendError);
    run(memory().complete_run("w__s", "r", "second"));
    run(memory().complete_run("w__s", "r", "first"));  // idempotent once complete
}

/// As far as its store can tell, another process has completed the run meanwhile.
TEST_F(TwoOwners, D269_FreshRunCompletedByOther_IsComplete) {
    TapeCheckpointer own(store_);
    ClaimOwner owner;
    owner.owner_id = "first";
    run(own.claim_run("w__s", "r", owner, ClaimKind::fresh_run));
    run(memory().mark_run_complete("w__s", "r"));
    run(own.complete_run("w__s", "r", "first"));
    EXPECT_TRUE(run(memory().is_run_complete("w__s", "r")));
}

TEST_F(TwoOwners, D50_RunCompletedByOther_IsNotReclaimed) {
    claim("first", ClaimKind::new_run);
    run(memory().complete_run("w__s", "r", "first"));
    EXPECT_THROW(claim("second", ClaimKind::continue_run), RunAlreadyCompletedError);
}

TEST_F(TwoOwners, D50_RepeatedCompletion_RemovesTheRemainingClaim) {
    claim("first", ClaimKind::new_run);
    const JsonObject claimed = run(store_->read_state("w__s"));
    run(memory().complete_run("w__s", "r", "first"));
    // The process could not write the side state after the event.
    run(store_->edit_state("w__s", [&](JsonObject& state) {
        state = claimed;
        return Json();
    }));
    run(memory().complete_run("w__s", "r", "first"));
    EXPECT_TRUE(run(store_->read_state("w__s")).empty());
}

TEST_F(TwoOwners, D50_CompletionOfUnknownRun_IsRefused) {
    EXPECT_THROW(run(memory().complete_run("w__s", "r", "first")), RunNotClaimedError);
}

TEST_F(TwoProcesses, D50_Turn_CompletesItsRunUnderItsClaim) {
    const Process first = begin("first");
    say(first, "one");
    complete_under_claim(first);
    complete_under_claim(first);
    EXPECT_THROW(begin("second"), RunAlreadyClaimedError) << "the claim lasts until the merge";
    run(first.fork->merge());
    EXPECT_TRUE(run(first.store->read_state(tape)).empty());
}

TEST_F(TwoProcesses, D50_SupersededTurn_DoesNotCompleteItsRun) {
    const Process first = begin("first");
    say(first, "one");
    sleep_past_the_lease();
    const Process second = begin("second");
    EXPECT_THROW(complete_under_claim(first), StaleAppendError);
}

TEST_F(TwoProcesses, D50_RefusedTurn_LeavesClaimOfAnotherOwner) {
    for (const bool under_claim : {true, false}) {
        const Process first = begin("first");
        say(first, "one");
        if (under_claim) {
            complete_under_claim(first);
        } else {
            complete(first);
        }
        sleep_past_the_lease();
        const auto store = std::make_shared<FileTapeStore>(directory_.options());
        TapeCheckpointerOptions how;
        how.clock = clock_;
        TapeCheckpointer other(store, std::move(how));
        ClaimOwner owner;
        owner.owner_id = "second";
        (void)run(other.claim_run(tape, "run-of-first", owner, ClaimKind::continue_run));
        EXPECT_THROW(run(first.fork->merge()), StaleAppendError);
        run(other.renew_claim(tape, "run-of-first", "second"));
        EXPECT_FALSE(run(other.is_run_complete(tape, "run-of-first")));
        // The claim still belongs to an open run: no new run with this id starts.
        EXPECT_THROW((void)run(other.claim_run(tape, "run-of-first", owner, ClaimKind::new_run)),
                     RunAlreadyClaimedError);
        run(store->reset(tape));
        run(store->edit_state(tape, [](JsonObject& side_state) {
            side_state.clear();
            return Json();
        }));
    }
}

TEST(TapeClaims, D50_NestedFork_LeavesClaimToTheOuterOne) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const auto outer = std::make_shared<TurnTransaction>(store, "w__s");
    const auto inner = std::make_shared<TurnTransaction>(outer, "w__s");
    TapeCheckpointer memory(inner);
    ClaimOwner owner;
    owner.owner_id = "first";
    (void)run(memory.claim_run("w__s", "r", owner, ClaimKind::new_run));
    MessageList messages;
    messages.push_back(user_message("one?"));
    AppendOptions options = AppendOptions().claim("r", "first");
    (void)run(memory.append("w__s", std::move(messages), std::move(options)));
    run(memory.mark_run_complete("w__s", "r"));
    run(inner->merge());
    EXPECT_TRUE(run(store->read_state("w__s")).contains("claims"));
    run(outer->merge());
    EXPECT_FALSE(run(store->read_state("w__s")).contains("claims"));
    EXPECT_EQ(run(store->position("w__s")).messages, 1);
}

}  // namespace bub
