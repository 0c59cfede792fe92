// Closing of runs after a failure.

#include <cubepi/agent/agent_test_support.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <cubepi/agent/loop.hpp>
#include <cubepi/agent/store_test_support.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

std::function<void(const AgentEvent&)> throwing_at(AgentEventType type, int nth = 1) {
    return [type, nth, seen = 0](const AgentEvent& event) mutable {
        if (event.type() == type && ++seen == nth) throw std::runtime_error("boom");
    };
}

std::string failure_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const std::exception& error) {
        return error.what();
    }
    return {};
}

/// A store whose load never completes.
class StalledStore final : public Checkpointer {
public:
    Task<std::optional<CheckpointData>> load(std::string) override {
        on_load();
        co_await never_.wait();
        co_return std::nullopt;
    }
    Task<std::int64_t> append(std::string, MessageList, AppendOptions) override { co_return 0; }
    Task<void> save_extra(std::string, JsonObject) override { co_return; }
    std::function<void()> on_load;

private:
    AsyncEvent never_;
};

TEST(Closing, D42_MessagesTakenByFailedResume_WaitAgain) {
    for (const bool steering : {true, false}) {
        FauxProvider faux;
        faux.set_responses({"one", "two", "three"});
        Agent agent({.model = faux.model()});
        run(agent.prompt("hi"));
        const Receipt receipt = steering ? agent.steer("queued") : agent.follow_up("queued");
        Subscription listener = agent.subscribe(throwing_at(AgentEventType::agent_start));
        EXPECT_EQ(failure_of([&] { run(agent.resume()); }), "boom");
        EXPECT_EQ(receipt.state(), ReceiptState::queued);
        listener.cancel();
        const RunResult next = run(agent.prompt("next"));
        EXPECT_EQ(receipt.state(), ReceiptState::committed);
        // A follow-up remains a follow-up: it is added when the run would end.
        EXPECT_EQ(texts(next.new_messages),
                  steering ? std::vector<std::string>({"next", "queued", "two"})
                           : std::vector<std::string>({"next", "two", "queued", "three"}));
    }
}

TEST(Closing, D2_QueueForAnotherRun_ResumeCallsNoModel) {
    FauxProvider faux;
    faux.set_responses({"one", "never"});
    auto store = std::make_shared<MemoryCheckpointer>();
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    run(agent.prompt("hi"));
    const Receipt receipt = agent.steer("for another", "another-run");
    try {
        run(agent.resume());
        FAIL() << "resumed a finished thread";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::cannot_continue);
    }
    EXPECT_EQ(receipt.state(), ReceiptState::refused);
    EXPECT_EQ(agent.state().messages.size(), 2u);
    // The claim was released.
    Agent other({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_TRUE(run(other.prompt("hi")));
}

TEST(Closing, D6_RunAbortedWhileLoading_ReportsTheListenersException) {
    FauxProvider faux;
    auto store = std::make_shared<StalledStore>();
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    store->on_load = [&] { agent.abort(); };
    Recorder recorder(agent);
    agent.subscribe(throwing_at(AgentEventType::agent_start));
    EXPECT_EQ(failure_of([&] { run(agent.prompt("hi")); }), "boom");
    EXPECT_EQ(recorder.words(), std::vector<std::string>({"agent_start", "agent_end"}));
    EXPECT_EQ(agent.state().last_outcome, LastOutcome::abandoned);
}

TEST(Closing, D6_Exception_IsThatOfThisRun) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "two"});
    auto store = std::make_shared<FailingStore>(std::make_shared<MemoryCheckpointer>(), 3);
    Agent agent(
        {.model = faux.model(), .tools = {echo_tool()}, .checkpointer = store, .thread_id = "t"});
    std::string text = "first";
    AgentEventType at = AgentEventType::tool_execution_start;
    agent.subscribe([&](const AgentEvent& event) {
        if (event.type() == at) throw std::runtime_error(text);
    });
    // Both fail: the listener, and then the store.
    EXPECT_EQ(failure_of([&] { run(agent.prompt("hi")); }), "no space left on device");
    text = "second";
    at = AgentEventType::turn_start;
    EXPECT_EQ(failure_of([&] { run(agent.prompt("again")); }), "second");
}

TEST(Closing, D7_AbortAfterModelResponse_KeepsAnswerAndUsage) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "next"});
    AsyncEvent never;
    Agent* self = nullptr;
    Agent agent({.model = faux.model(),
                 .tools = {echo_tool()},
                 .after_model_response = [&](AssistantMessage) -> Task<std::optional<TurnAction>> {
                     self->abort();
                     co_await never.wait();
                     co_return std::nullopt;
                 }});
    self = &agent;
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(result.error().code(), ErrorCode::cancelled);
    ASSERT_EQ(roles(result.new_messages),
              std::vector<Role>({Role::user, Role::assistant, Role::tool_result}));
    const AssistantMessage& answer = *result.new_messages[1].assistant();
    EXPECT_EQ(answer.stop_reason, stop_reason::aborted);
    EXPECT_TRUE(answer.has_tool_calls());
    EXPECT_TRUE(answer.usage);
    // One message started, and the same message ended.
    EXPECT_EQ(recorder.count(AgentEventType::message_start),
              recorder.count(AgentEventType::message_end));
    EXPECT_EQ(recorder.count(AgentEventType::tool_execution_start), 0u);
}

/// Prompts an agent that `destroy` destroys in one of its hooks; the answer calls a tool if `calls_tool`.
template <class SetHook>
RunResult destroyed_in(SetHook set_hook, bool calls_tool,
                       const std::shared_ptr<MemoryCheckpointer>& store) {
    FauxProvider faux;
    if (calls_tool) {
        faux.set_responses({calling({echo_call("a")}), "never"});
    } else {
        faux.set_responses({"whole", "never"});
    }
    std::unique_ptr<Agent> agent;
    AgentOptions options{.model = faux.model(), .tools = {echo_tool()}};
    options.checkpointer = store;
    options.thread_id = "t";
    set_hook(options, agent);
    agent = std::make_unique<Agent>(std::move(options));
    RunResult result = run(agent->prompt("hi"));
    EXPECT_FALSE(agent);
    EXPECT_EQ(faux.call_count(), 1u);
    return result;
}

TEST(Closing, D7_AgentDestroyedInLateHook_EndsAsAborted) {
    using Options = AgentOptions;
    using Owner = std::unique_ptr<Agent>;
    const std::vector<std::function<void(Options&, Owner&)>> hooks = {
        [](Options& options, Owner& agent) {
            options.after_model_response = [&agent](AssistantMessage) {
                agent.reset();
                return std::optional<TurnAction>();
            };
        },
        [](Options& options, Owner& agent) {
            options.should_stop_after_turn = [&agent](ShouldStopAfterTurnContext&) {
                agent.reset();
                return true;
            };
        },
        [](Options& options, Owner& agent) {
            options.on_run_end = [&agent](HookContext&) {
                agent.reset();
                return MessageList();
            };
            options.should_stop_after_turn = [](ShouldStopAfterTurnContext&) { return false; };
        }};
    for (std::size_t i = 0; i < hooks.size(); ++i) {
        for (const bool calls_tool : {false, true}) {
            if (i == 2 && calls_tool) continue;  // a second answer would come first
            auto store = std::make_shared<MemoryCheckpointer>();
            const RunResult result = destroyed_in(hooks[i], calls_tool, store);
            EXPECT_EQ(result.outcome, RunOutcome::aborted) << i << calls_tool;
            ASSERT_TRUE(result.failure) << i << calls_tool;
            EXPECT_EQ(result.error().code(), ErrorCode::cancelled);
            EXPECT_TRUE(is_legal_transcript(stored(*store, "t"))) << i << calls_tool;
            EXPECT_FALSE(run(store->is_run_complete("t", result.run_id))) << i << calls_tool;
        }
    }
}

TEST(Closing, D7_AbortAfterModelResponse_KeepsTheChangedAnswer) {
    FauxProvider faux;
    faux.set_responses({"secret"});
    Agent* self = nullptr;
    Agent agent({.model = faux.model(), .after_model_response = [&](AssistantMessage answer) {
                     self->abort();
                     TurnAction action;
                     answer.content = {TextContent{"redacted"}};
                     action.response = std::move(answer);
                     return std::optional<TurnAction>(std::move(action));
                 }});
    self = &agent;
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(result.text(), "redacted");
}

std::vector<std::string> ran_until(ExecutionMode mode, AgentEventType type, int nth) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a", "c1"), echo_call("b", "c2")}), "never"});
    std::vector<std::string> ran;
    auto note = [&](EchoArgs args) -> Task<std::string> {
        ran.push_back(args.value);
        co_await yield_now();
        co_return args.value;
    };
    Agent agent({.model = faux.model(),
                 .tools = {tool<EchoArgs>("echo", "Says it again.", note)},
                 .tool_execution = mode});
    agent.subscribe(throwing_at(type, nth));
    Recorder recorder(agent);
    EXPECT_EQ(failure_of([&] { run(agent.prompt("hi")); }), "boom");
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
    EXPECT_EQ(recorder.count(AgentEventType::tool_execution_start), 2u);
    EXPECT_EQ(recorder.count(AgentEventType::tool_execution_end), 2u);
    return ran;
}

TEST(Closing, D6_ThrowingListener_StopsASequentialBatch) {
    constexpr ExecutionMode mode = ExecutionMode::sequential;
    using Ran = std::vector<std::string>;
    EXPECT_EQ(ran_until(mode, AgentEventType::tool_execution_start, 1), Ran());
    EXPECT_EQ(ran_until(mode, AgentEventType::tool_execution_end, 1), Ran({"a"}));
    EXPECT_EQ(ran_until(mode, AgentEventType::tool_execution_start, 2), Ran({"a"}));
}

TEST(Closing, D6_RefusedStart_OmitsOnlyThatParallelCall) {
    constexpr ExecutionMode mode = ExecutionMode::parallel;
    using Ran = std::vector<std::string>;
    EXPECT_EQ(ran_until(mode, AgentEventType::tool_execution_start, 1), Ran({"b"}));
    EXPECT_EQ(ran_until(mode, AgentEventType::tool_execution_start, 2), Ran({"a"}));
    EXPECT_EQ(ran_until(mode, AgentEventType::tool_execution_end, 1), Ran({"a", "b"}));
}

TEST(Closing, D24_EndOfTool_DoesNotEndItsListener) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    auto runtime = std::make_shared<Runtime>(*Runtime::standard());
    const auto clock = std::make_shared<testing::ManualClock>();
    runtime->clock = clock;
    auto report = [](EchoArgs, ToolContext& ctx) -> Task<std::string> {
        co_await ctx.update("half");
        co_return "whole";
    };
    AgentTool slow =
        tool<EchoArgs>("echo", "Reports.", report).timeout(std::chrono::milliseconds(1500));
    Agent agent({.model = faux.model(), .tools = {slow}, .runtime = runtime});
    bool delivered = false;
    agent.subscribe([&](const AgentEvent& event) -> Task<void> {
        if (event.type() != AgentEventType::tool_execution_update) co_return;
        // Meanwhile the tool's time limit and its grace period expire.
        for (int i = 0; i < 20; ++i) {
            clock->advance(std::chrono::seconds(1));
            co_await yield_now();
        }
        delivered = true;
    });
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_TRUE(delivered);
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_NE(result.new_messages[2].text().find("time limit of 1.5 s;"), std::string::npos);
}

TEST(Closing, D38_CancelledLoopWithoutAgent_ClosesItsRun) {
    FauxProvider faux;
    AsyncEvent never;
    faux.set_responses({FauxStep([&](ModelRequest) -> Task<AssistantMessage> {
        co_await never.wait();
        co_return faux_assistant_message("never");
    })});
    AgentContext context;
    LoopOptions options;
    options.model = faux.model();
    std::vector<std::string> words;
    const AgentListener listener = [&](const AgentEvent& event) {
        words.push_back(Recorder::word(event));
    };
    const auto parent = [&]() -> Task<void> {
        TaskScope scope(co_await this_executor);
        MessageList prompts = {user_message("hi")};
        scope.spawn(run_agent_loop(prompts, context, options, listener));
        co_await yield_now();
        scope.cancel();
        co_await scope.join();
    };
    run(parent());
    ASSERT_FALSE(words.empty());
    EXPECT_EQ(words.back(), "agent_end");
    ASSERT_EQ(context.messages.size(), 2u);
    EXPECT_EQ(context.messages[1].assistant()->stop_reason, stop_reason::aborted);
}

TEST(Closing, D24_LoopWithoutAgent_HonorsMaxDuration) {
    FauxProvider faux;
    auto runtime = std::make_shared<Runtime>(*Runtime::standard());
    const auto clock = std::make_shared<testing::ManualClock>();
    runtime->clock = clock;
    AsyncEvent never;
    faux.set_responses({FauxStep([&](ModelRequest) -> Task<AssistantMessage> {
        clock->advance(std::chrono::seconds(5));
        co_await never.wait();
        co_return faux_assistant_message("never");
    })});
    AgentContext context;
    LoopOptions options;
    options.model = faux.model();
    options.runtime = runtime;
    options.limits.max_duration = std::chrono::seconds(5);
    const RunResult result =
        run(run_agent_loop({user_message("hi")}, context, options, [](const AgentEvent&) {}));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    EXPECT_NE(std::string(result.error().what()).find("max_duration"), std::string::npos);
}

TEST(Closing, D44_HookReadingWholeAnswer_ReturnsThatAnswer) {
    FauxProvider faux;
    faux.set_responses({"read already"});
    auto read_all = [](ModelRequest request, ModelCallNext next) -> Task<MessageStream> {
        MessageStream stream = co_await next(std::move(request));
        (void)co_await stream.result();
        co_return stream;
    };
    Agent agent({.model = faux.model(), .around_model_call = read_all});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(result.text(), "read already");
    EXPECT_EQ(recorder.count(AgentEventType::message_start), 2u);
}

TEST(Closing, ToolWithoutCallback_ReportsIt) {
    FauxProvider faux;
    faux.set_responses({calling({faux_tool_call("empty", {}, "c1")}), "done"});
    AgentTool empty;
    empty.name = "empty";
    Agent agent({.model = faux.model(), .tools = {empty}});
    EXPECT_EQ(run(agent.prompt("hi")).new_messages[2].text(),
              "Tool empty has no callback (AgentTool::execute)");
}

TEST(Closing, D50_RunContinuedElsewhere_IsNotCompletedHere) {
    auto clock = std::make_shared<testing::ManualClock>();
    MemoryOptions options;
    options.clock = clock;
    auto store = std::make_shared<MemoryCheckpointer>(options);
    FauxProvider faux;
    faux.set_responses({"answered before it slept"});
    // It sleeps after its last append, before it completes the run.
    auto sleep = [&](HookContext& context) -> Task<MessageList> {
        clock->advance(std::chrono::seconds(61));
        ClaimOwner other;
        other.owner_id = "other";
        other.host = "elsewhere";
        std::string run_id(context.run_id);
        co_await store->claim_run("t", std::move(run_id), std::move(other),
                                  ClaimKind::continue_run);
        co_return MessageList();
    };
    Agent agent(
        {.model = faux.model(), .on_run_end = sleep, .checkpointer = store, .thread_id = "t"});
    EXPECT_THROW(run(agent.prompt("hi", PromptOptions().run_id("r"))), StaleAppendError);
    EXPECT_EQ(agent.state().last_outcome, LastOutcome::abandoned);
    EXPECT_FALSE(run(store->is_run_complete("t", "r")));
    EXPECT_EQ(run(store->load("t"))->messages.size(), 2u)
        << "nothing of it comes into the other's run";
    run(store->complete_run("t", "r", "other"));
    EXPECT_TRUE(run(store->is_run_complete("t", "r")));
}

/// A store that has a run superseded by another owner, which saves extra, while the run sleeps after its last append.
class SleepingRun final : public ForwardingStore {
public:
    explicit SleepingRun(const std::shared_ptr<testing::ManualClock>& clock)
        : ForwardingStore(MemoryOptions{.clock = clock}), clock_(clock) {}

    Task<std::int64_t> append(std::string thread_id, MessageList messages,
                              AppendOptions options) override {
        if (!checks_claims && messages.empty()) {
            AppendOptions unclaimed = AppendOptions().extra(*options.extra());
            options = std::move(unclaimed);
        }
        Task<std::int64_t> appending =
            ForwardingStore::append(std::move(thread_id), std::move(messages), std::move(options));
        co_return co_await std::move(appending);
    }
    Task<MessageList> sleep(HookContext& context) {
        clock_->advance(std::chrono::seconds(61));
        ClaimOwner other;
        other.owner_id = "other";
        other.host = "elsewhere";
        std::string run_id(context.run_id);
        co_await memory.claim_run("t", std::move(run_id), std::move(other),
                                  ClaimKind::continue_run);
        JsonObject theirs{{"goal", "of the other"}};
        co_await memory.save_extra("t", std::move(theirs));
        if (!checks_claims) co_await clock_->sleep_for(std::chrono::seconds(21));
        context.extra["goal"] = "of the sleeper";
        co_return MessageList();
    }

    bool checks_claims = true;  ///< of appends without messages

private:
    const std::shared_ptr<testing::ManualClock> clock_;
};

/// Returns the extra that a run with this store has left.
JsonObject extra_after(const std::shared_ptr<testing::ManualClock>& clock,
                       const std::shared_ptr<SleepingRun>& store) {
    FauxProvider faux;
    faux.set_responses({"answered before it slept"});
    auto sleep = [store](HookContext& context) { return store->sleep(context); };
    Agent agent({.model = faux.model(),
                 .on_run_end = sleep,
                 .checkpointer = store,
                 .thread_id = "t",
                 .runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock))});
    EXPECT_THROW(testing::run_advancing(*clock, agent.prompt("hi")), StaleAppendError);
    return run(store->load("t"))->extra;
}

TEST(Closing, D50_ExtraOfSupersededRun_IsNotSaved) {
    const auto clock = std::make_shared<testing::ManualClock>();
    const auto store = std::make_shared<SleepingRun>(clock);
    EXPECT_EQ(extra_after(clock, store), (JsonObject{{"goal", "of the other"}}));
}

TEST(Closing, D50_ExtraAfterFailedRenewal_IsNotSaved) {
    const auto clock = std::make_shared<testing::ManualClock>();
    const auto store = std::make_shared<SleepingRun>(clock);
    // Only the renewal notices that the claim is lost.
    store->checks_claims = false;
    EXPECT_EQ(extra_after(clock, store), (JsonObject{{"goal", "of the other"}}));
}

// Stores that throw something other than a CheckpointerError: D35.

/// Throws `failure` in the function named `at`: before it returns a task, or when the task is awaited.
class ThrowingStore final : public ForwardingStore {
public:
    ThrowingStore(std::string at, bool early, std::exception_ptr failure)
        : at_(std::move(at)), early_(early), failure_(std::move(failure)) {}

    Task<std::optional<CheckpointData>> load(std::string thread_id) override {
        return checked("load", ForwardingStore::load(std::move(thread_id)));
    }
    Task<std::int64_t> append(std::string thread_id, MessageList messages,
                              AppendOptions options) override {
        const char* const operation = messages.empty() ? "save_extra" : "append";
        return checked(operation, ForwardingStore::append(std::move(thread_id), std::move(messages),
                                                          std::move(options)));
    }
    Task<void> save_extra(std::string thread_id, JsonObject extra) override {
        return checked("save_extra",
                       ForwardingStore::save_extra(std::move(thread_id), std::move(extra)));
    }
    Task<ClaimResult> claim_run(std::string thread_id, std::string run_id, ClaimOwner owner,
                                ClaimKind kind) override {
        return checked("claim_run",
                       ForwardingStore::claim_run(std::move(thread_id), std::move(run_id),
                                                  std::move(owner), kind));
    }
    Task<void> complete_run(std::string thread_id, std::string run_id,
                            std::string owner_id) override {
        return checked("complete_run",
                       ForwardingStore::complete_run(std::move(thread_id), std::move(run_id),
                                                     std::move(owner_id)));
    }
    Task<void> release_claim(std::string thread_id, std::string run_id,
                             std::string owner_id) override {
        return checked("release_claim",
                       ForwardingStore::release_claim(std::move(thread_id), std::move(run_id),
                                                      std::move(owner_id)));
    }
    Task<std::optional<Message>> find_message(std::string thread_id,
                                              std::string message_id) override {
        return checked("find_message",
                       ForwardingStore::find_message(std::move(thread_id), std::move(message_id)));
    }

    /// All functions work from now on.
    void repair() { at_.clear(); }

private:
    template <class T>
    Task<T> checked(std::string_view name, Task<T> call) {
        const bool fails = at_ == name;
        if (fails && early_) std::rethrow_exception(failure_);
        return fails ? fail(failure_, std::move(call)) : std::move(call);
    }
    template <class T>
    static Task<T> fail(std::exception_ptr failure, Task<T> call) {
        co_await yield_now();
        if (failure) std::rethrow_exception(failure);
        co_return co_await std::move(call);
    }

    std::string at_;
    bool early_;
    std::exception_ptr failure_;
};

/// prompt() with a store that throws `failure` in the function `at` throws a CheckpointerError with that cause.
void expect_wrapped(const std::string& at, bool early, std::exception_ptr failure, ErrorCode code) {
    const std::string where = at + (early ? ", before the task" : ", in the task");
    auto store = std::make_shared<ThrowingStore>(at, early, std::move(failure));
    FauxProvider faux;
    faux.set_responses({"fine"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    agent.subscribe([&](const AgentEvent& event) {
        if (event.type() == AgentEventType::turn_end) agent.set_extra("key", 1);
    });
    Recorder recorder(agent);
    try {
        run(agent.prompt(user_message("hi", "input")));
        ADD_FAILURE() << where;
    } catch (const CheckpointerError& error) {
        EXPECT_EQ(error.code(), code) << where;
        EXPECT_NE(std::string(error.what()).find("boom"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("failed to"), std::string::npos) << error.what();
        EXPECT_EQ(error.thread_id(), "t") << where;
        std::string cause;
        try {
            std::rethrow_if_nested(error);
        } catch (...) {
            cause = exception_text(std::current_exception());
        }
        EXPECT_EQ(cause, "boom") << where;
    }
    EXPECT_FALSE(agent.state().is_streaming) << where;
    EXPECT_EQ(agent.state().last_outcome, LastOutcome::abandoned) << where;
    EXPECT_EQ(recorder.count(AgentEventType::agent_start),
              recorder.count(AgentEventType::agent_end))
        << where;
}

TEST(StoreFailure, D35_AnyStoreException_BecomesCheckpointerErrorWithCause) {
    for (const std::string at :
         {"load", "append", "save_extra", "claim_run", "complete_run", "find_message"}) {
        for (const bool early : {true, false}) {
            const auto plain = std::make_exception_ptr(std::runtime_error("boom"));
            expect_wrapped(at, early, plain, ErrorCode::storage);
        }
    }
}

TEST(StoreFailure, D35_ErrorOfStore_KeepsItsCode) {
    const auto denied = std::make_exception_ptr(Error(ErrorCode::permission_denied, "boom"));
    expect_wrapped("append", false, denied, ErrorCode::permission_denied);
}

TEST(StoreFailure, D35_UnrequestedCancellation_IsAFailureOfTheStore) {
    auto store = std::make_shared<ThrowingStore>("append", false, make_cancelled());
    FauxProvider faux;
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_THROW(run(agent.prompt("hi")), CheckpointerError);
}

TEST(StoreFailure, D35_FailedReleaseOfClaim_DoesNotFailRun) {
    const auto plain = std::make_exception_ptr(std::runtime_error("boom"));
    auto store = std::make_shared<ThrowingStore>("release_claim", false, plain);
    FauxProvider faux;
    faux.set_responses({faux_failure("down")});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_EQ(run(agent.prompt("hi")).outcome, RunOutcome::failed);
}

TEST(StoreFailure, D50_ReleaseFails_NextRunOfProcessClaims) {
    const auto plain = std::make_exception_ptr(std::runtime_error("boom"));
    auto store = std::make_shared<ThrowingStore>("release_claim", false, plain);
    FauxProvider faux;
    faux.set_responses({faux_failure("down"), "fine"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_EQ(run(agent.prompt("hi")).outcome, RunOutcome::failed);
    store->repair();
    Agent next({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    Recorder recorder(next);
    EXPECT_EQ(run(next.prompt("later")).outcome, RunOutcome::completed);
    EXPECT_EQ(recorder.notices(), std::vector<std::string>{"claim_taken_over"});
}

TEST(StoreFailure, D50_CompletionFails_NextRunOfProcessClaims) {
    const auto plain = std::make_exception_ptr(std::runtime_error("boom"));
    auto store = std::make_shared<ThrowingStore>("complete_run", false, plain);
    FauxProvider faux;
    faux.set_responses({"fine", "fine"});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_THROW(run(agent.prompt("hi")), CheckpointerError);
    store->repair();
    Agent next({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_EQ(run(next.prompt("later")).outcome, RunOutcome::completed);
}

TEST(StoreFailure, D50_AnswerCannotBeStored_ClaimIsReleased) {
    const auto plain = std::make_exception_ptr(std::runtime_error("boom"));
    auto store = std::make_shared<ThrowingStore>("append", false, plain);
    FauxProvider faux;
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_THROW(run(agent.prompt("hi")), CheckpointerError);
    store->repair();
    faux.set_responses({"fine"});
    Agent next({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_EQ(run(next.prompt("later")).outcome, RunOutcome::completed);
}

}  // namespace
}  // namespace cubepi
