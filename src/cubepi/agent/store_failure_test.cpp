// Stores that throw something other than a CheckpointerError: D35.

#include <stdexcept>

#include <cubepi/agent/agent_test_support.hpp>
#include <cubepi/agent/store_test_support.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

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
        return checked("append", ForwardingStore::append(std::move(thread_id), std::move(messages),
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

TEST(StoreFailure, D35_AnyExceptionOfAStoreLeavesPromptAsACheckpointerErrorWithItsCause) {
    for (const std::string at :
         {"load", "append", "save_extra", "claim_run", "complete_run", "find_message"}) {
        for (const bool early : {true, false}) {
            const auto plain = std::make_exception_ptr(std::runtime_error("boom"));
            expect_wrapped(at, early, plain, ErrorCode::storage);
        }
    }
}

TEST(StoreFailure, D35_AnErrorOfAStoreKeepsItsCode) {
    const auto denied = std::make_exception_ptr(Error(ErrorCode::permission_denied, "boom"));
    expect_wrapped("append", false, denied, ErrorCode::permission_denied);
}

TEST(StoreFailure, D35_AnUnrequestedCancellationIsAFailureOfTheStore) {
    auto store = std::make_shared<ThrowingStore>("append", false, make_cancelled());
    FauxProvider faux;
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_THROW(run(agent.prompt("hi")), CheckpointerError);
}

TEST(StoreFailure, D35_AFailedReleaseOfTheClaimDoesNotFailTheRun) {
    const auto plain = std::make_exception_ptr(std::runtime_error("boom"));
    auto store = std::make_shared<ThrowingStore>("release_claim", false, plain);
    FauxProvider faux;
    faux.set_responses({faux_failure("down")});
    Agent agent({.model = faux.model(), .checkpointer = store, .thread_id = "t"});
    EXPECT_EQ(run(agent.prompt("hi")).outcome, RunOutcome::failed);
}

}  // namespace
}  // namespace cubepi
