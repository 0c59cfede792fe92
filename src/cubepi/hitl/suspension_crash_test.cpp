#include <cubepi/hitl/suspension_test_support.hpp>

#include <algorithm>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/agent/run/thread_log.hpp>
#include <cubepi/agent/transcript.hpp>

// The process ends at each write of a run with an approval, and another one takes over.

namespace cubepi {
namespace {

using namespace hitl_test;
using namespace std::chrono_literals;

/// The place of a store whose process ends at its n-th write: before it, or after it was stored. From then on nothing is stored, unless
/// only this write fails.
class DyingBackend final : public ThreadBackend {
public:
    DyingBackend(std::shared_ptr<ThreadBackend> inner, int dies_at, bool after)
        : inner_(std::move(inner)), dies_at_(dies_at), after_(after) {}

    bool dead() const noexcept { return dead_; }
    void recover() noexcept { recovers_ = true; }

    Task<std::optional<CheckpointData>> read_thread(ThreadQuery query) override {
        return inner_->read_thread(std::move(query));
    }
    Task<std::int64_t> change_thread(std::string thread_id, ThreadChange change) override {
        return write(inner_->change_thread(std::move(thread_id), std::move(change)));
    }
    Task<std::vector<ThreadInfo>> list_threads() override { return inner_->list_threads(); }
    Task<ClaimResult> change_claim(std::string thread_id, ClaimChange change) override {
        const bool renews = change.step == ClaimChange::Step::renew;
        Task<ClaimResult> task = inner_->change_claim(std::move(thread_id), std::move(change));
        return renews ? std::move(task) : write(std::move(task));
    }
    Task<bool> is_run_complete(std::string thread_id, std::string run_id) override {
        return inner_->is_run_complete(std::move(thread_id), std::move(run_id));
    }
    Task<std::size_t> change_questions(std::string thread_id, QuestionChange change) override {
        return write(inner_->change_questions(std::move(thread_id), std::move(change)));
    }
    Task<std::vector<PendingRequest>> load_pending_requests(std::string thread_id) override {
        return inner_->load_pending_requests(std::move(thread_id));
    }
    Task<std::optional<Json>> load_hitl_answer(std::string thread_id, std::string run_id,
                                               std::string question_id) override {
        return inner_->load_hitl_answer(std::move(thread_id), std::move(run_id),
                                        std::move(question_id));
    }
    Task<std::optional<StartedBatch>> load_started_batch(std::string thread_id,
                                                         std::string run_id) override {
        return inner_->load_started_batch(std::move(thread_id), std::move(run_id));
    }
    Task<std::vector<AnswerRecord>> load_answer_records(std::string thread_id,
                                                        std::string run_id) override {
        return inner_->load_answer_records(std::move(thread_id), std::move(run_id));
    }
    Task<QuestionPage> list_requests(QuestionQuery query) override {
        return inner_->list_requests(std::move(query));
    }
    Task<std::vector<QuestionEntry>> expire_due(double now, std::size_t limit) override {
        return inner_->expire_due(now, limit);
    }

private:
    template <class T>
    Task<T> write(Task<T> task) {
        if (dead_) fail();
        const bool dies = ++writes_ == dies_at_;
        if (dies && !after_) fail();
        T result = co_await std::move(task);
        if (dies) fail();
        co_return result;
    }
    [[noreturn]] void fail() {
        dead_ = !recovers_;
        throw CheckpointerError(ErrorCode::storage, "the process has ended");
    }

    const std::shared_ptr<ThreadBackend> inner_;
    const int dies_at_;
    const bool after_;
    int writes_ = 0;
    bool dead_ = false;
    bool recovers_ = false;
};

class DyingStore final : public StoredThreads {
public:
    DyingStore(const StoredThreads& inner, int dies_at, bool after)
        : DyingStore(std::make_shared<DyingBackend>(inner.backend(), dies_at, after)) {}
    bool dead() const noexcept { return place_->dead(); }
    void recover() noexcept { place_->recover(); }

private:
    explicit DyingStore(std::shared_ptr<DyingBackend> place)
        : StoredThreads(place), place_(std::move(place)) {}

    const std::shared_ptr<DyingBackend> place_;
};

enum class Way { answered_live, detached, denied_live };

/// One run over two processes, and its effects.
struct Case {
    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    std::shared_ptr<MemoryCheckpointer> memory =
        std::make_shared<MemoryCheckpointer>(MemoryOptions{.clock = clock});
    FauxProvider faux;
    std::vector<std::string> effects;
    int asked = 0;
    int approved = 0;

    /// An effect that the process has after its end is none.
    std::function<void(AgentOptions&, const std::shared_ptr<HitlChannel>&)> guarded(
        std::shared_ptr<DyingStore> store) {
        return [this, store](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
            options.tools = ToolList();
            options.tools.push_back(
                tool<PathArgs>("rm", "Removes a file.", [this, store](PathArgs args) {
                    if (!store->dead()) effects.push_back(args.path);
                    return "removed " + args.path;
                }));
        };
    }

    void first_process(std::shared_ptr<DyingStore> store, Way way) {
        Process first(store, faux, effects, clock, guarded(store));
        try {
            const RunResult result = first.prompt([&](const HitlRequest& request) {
                ++asked;
                if (way == Way::detached) {
                    (void)first.agent->detach();
                } else {
                    approved += way == Way::answered_live ? 1 : 0;
                    first.answer(request.question_id,
                                 way == Way::answered_live ? approve() : deny("no"));
                }
            });
            if (result.outcome == RunOutcome::suspended) {
                ++approved;
                (void)first.respond("c1", approve());
            }
        } catch (const std::exception&) {
            EXPECT_TRUE(store->dead());
        }
    }

    void second_process() {
        clock->advance(2min);  // the lease of the dead process
        Process second(memory, faux, effects, clock);
        try {
            (void)second.run_with(second.agent->resume(), [&](const HitlRequest& request) {
                ++approved;
                second.answer(request.question_id, approve());
            });
        } catch (const Error& error) {
            const bool nothing = error.code() == ErrorCode::cannot_continue ||
                                 error.code() == ErrorCode::no_messages;
            EXPECT_TRUE(nothing) << error.what();
        }
        faux.set_responses({"next"});
        EXPECT_EQ(second.prompt().outcome, RunOutcome::completed);
    }

    void check(Way way, const std::string& where) {
        const MessageList messages = run(memory->load("t"))->messages;
        EXPECT_TRUE(is_legal_transcript(messages)) << where;
        EXPECT_EQ(run(memory->load_pending_requests("t")).size(), 0u) << where;
        EXPECT_LE(effects.size(), 1u) << where;
        if (way != Way::denied_live) {
            EXPECT_LE(effects.size(), static_cast<std::size_t>(approved)) << where;
        }
        bool done = false;
        for (const Message& message : messages) done |= message.text() == "removed /a";
        if (done) {
            EXPECT_EQ(effects.size(), 1u) << where;
        }
    }
};

void kill_at_every_write(Way way) {
    int cases = 0;
    for (const bool after : {false, true}) {
        for (int write = 1;; ++write) {
            Case one;
            one.faux.set_responses({calling({rm_call("/a", "c1")}), "done", "done"});
            auto store = std::make_shared<DyingStore>(*one.memory, write, after);
            one.first_process(store, way);
            if (!store->dead()) break;
            one.faux.set_responses({"done", "done"});
            one.second_process();
            one.check(way, "write " + std::to_string(write) + (after ? " stored" : " lost"));
            ++cases;
        }
    }
    EXPECT_GT(cases, 12);
}

TEST(SuspensionCrash, D62_CrashDuringApprovedCall_CausesNoSecondEffect) {
    kill_at_every_write(Way::answered_live);
}
TEST(SuspensionCrash, D62_CrashDuringDeniedCall_CausesNoSecondEffect) {
    kill_at_every_write(Way::denied_live);
}
TEST(SuspensionCrash, D62_CrashDuringSuspendedRun_CausesNoSecondEffect) {
    kill_at_every_write(Way::detached);
}

TEST(SuspensionCrash, D62_AppendFailsOnce_NextRemovesTheRequest) {
    const auto memory = std::make_shared<MemoryCheckpointer>();
    HitlRequest request;
    request.question_id = "c1";
    request.payload = ConfirmRequest{"Really?"};
    run(memory->save_pending_request("t", "r", std::move(request)));
    const auto store = std::make_shared<DyingStore>(*memory, 1, false);
    store->recover();
    AgentState state;
    detail::ThreadLog log(state, store, "t");
    AssistantMessage closing;
    closing.run_id = "r";
    log.settle_with_next({"c1"});
    EXPECT_THROW(run(log.append(closing)), CheckpointerError);
    EXPECT_EQ(run(memory->load_pending_requests("t")).size(), 1u);
    run(log.append(closing));
    EXPECT_TRUE(run(memory->load_pending_requests("t")).empty());
}

/// One run with a batch of a call that may run again and one that must not, over two processes.
struct BatchCase {
    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    std::shared_ptr<MemoryCheckpointer> memory =
        std::make_shared<MemoryCheckpointer>(MemoryOptions{.clock = clock});
    FauxProvider faux;
    std::vector<std::string> removed;
    std::vector<std::string> read;
    int approved = 0;

    static AssistantMessage batch() {
        return calling({faux_tool_call("read", {{"path", "/r"}}, "c0"), rm_call("/a", "c1")});
    }
    /// Approves the question. `store` is that of the process.
    void process(std::shared_ptr<Checkpointer> store, const std::function<bool()>& is_dead,
                 bool is_first) {
        const auto change = [&](AgentOptions& options, const std::shared_ptr<HitlChannel>&) {
            options.tools = ToolList();
            options.tools.push_back(
                tool<PathArgs>("rm", "Removes a file.", [this, is_dead](PathArgs args) {
                    if (!is_dead()) removed.push_back(args.path);
                    return "removed " + args.path;
                }));
            options.tools.push_back(
                tool<PathArgs>("read", "Reads a file.", [this, is_dead](PathArgs args) {
                    if (!is_dead()) read.push_back(args.path);
                    return "contents of " + args.path;
                }).replay(ReplayPolicy::idempotent));
        };
        Process one(std::move(store), faux, removed, clock, change);
        try {
            Task<RunResult> running = is_first ? one.agent->prompt("hi") : one.agent->resume();
            (void)one.run_with(std::move(running), [&](const HitlRequest& request) {
                ++approved;
                one.answer(request.question_id, approve());
            });
        } catch (const std::exception&) {
            // Its store has ended, or there is nothing to continue.
        }
        if (is_first) return;
        // Another question is asked, and not answered by what is left of the first one.
        faux.set_responses({calling({rm_call("/b", "c1")}), "next"});
        int asked = 0;
        const RunResult next = one.prompt([&](const HitlRequest& request) {
            ++asked;
            one.answer(request.question_id, deny("no"));
        });
        EXPECT_EQ(next.outcome, RunOutcome::completed);
        EXPECT_EQ(asked, 1);
    }
};

TEST(SuspensionCrash, D69_CrashDuringBatch_RepeatsOnlyWhatMayBe) {
    int cases = 0;
    for (const bool after : {false, true}) {
        for (int write = 1;; ++write) {
            SCOPED_TRACE("write " + std::to_string(write) + (after ? " stored" : " lost"));
            BatchCase one;
            one.faux.set_responses({BatchCase::batch(), "done"});
            auto store = std::make_shared<DyingStore>(*one.memory, write, after);
            one.process(store, [store] { return store->dead(); }, true);
            if (!store->dead()) break;
            one.clock->advance(2min);  // the lease of the dead process
            one.faux.set_responses({"done"});
            one.process(one.memory, [] { return false; }, false);
            EXPECT_LE(one.removed.size(), 1u);
            EXPECT_LE(one.removed.size(), static_cast<std::size_t>(one.approved));
            const MessageList messages = run(one.memory->load("t"))->messages;
            EXPECT_TRUE(is_legal_transcript(messages));
            EXPECT_EQ(run(one.memory->load_pending_requests("t")).size(), 0u);
            bool has_read = false;
            for (const Message& message : messages) has_read |= message.text() == "contents of /r";
            if (has_read) {
                EXPECT_GE(one.read.size(), 1u);
            }
            ++cases;
        }
    }
    EXPECT_GT(cases, 12);
}

}  // namespace
}  // namespace cubepi
