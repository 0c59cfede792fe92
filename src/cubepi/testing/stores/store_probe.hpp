#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/testing/store_conformance.hpp>

namespace cubepi::testing::detail {

/// A store during one check, and the deviations found.
class StoreProbe {
public:
    StoreProbe(const StoreUnderTest& subject, std::string check)
        : subject_(subject), check_(std::move(check)) {
        use(subject_.make());
    }

    Checkpointer& store() { return *store_; }
    RunStore* runs() { return runs_; }
    MessageIndex* index() { return index_; }
    HitlStore* hitl() { return hitl_; }
    BatchStore* batches() { return batches_; }
    QuestionStore* inbox() { return inbox_; }
    ForkStore* forks() { return forks_; }
    ThreadStore* threads() { return threads_; }

    bool can_reopen() const { return static_cast<bool>(subject_.reopen); }
    void reopen() { use(subject_.reopen(std::move(store_))); }
    bool can_advance() const { return static_cast<bool>(subject_.advance); }
    void advance(std::chrono::seconds amount) { subject_.advance(amount); }

    void fail(std::string text) {
        StoreFailure failure;
        failure.check = check_;
        failure.text = std::move(text);
        failures_.push_back(std::move(failure));
    }
    void expect(bool holds, std::string_view what) {
        if (!holds) fail("expected: " + std::string(what));
    }
    /// Requires that the operation threw `code`; `failure` is its exception (null: it succeeded).
    void expect_error(ErrorCode code, const std::exception_ptr& failure, std::string_view what);

    std::vector<StoreFailure> take() { return std::move(failures_); }

private:
    void use(std::shared_ptr<Checkpointer> store) {
        store_ = std::move(store);
        runs_ = dynamic_cast<RunStore*>(store_.get());
        index_ = dynamic_cast<MessageIndex*>(store_.get());
        hitl_ = dynamic_cast<HitlStore*>(store_.get());
        batches_ = dynamic_cast<BatchStore*>(store_.get());
        inbox_ = dynamic_cast<QuestionStore*>(store_.get());
        forks_ = dynamic_cast<ForkStore*>(store_.get());
        threads_ = dynamic_cast<ThreadStore*>(store_.get());
    }

    const StoreUnderTest& subject_;
    std::string check_;
    std::shared_ptr<Checkpointer> store_;
    RunStore* runs_ = nullptr;
    MessageIndex* index_ = nullptr;
    HitlStore* hitl_ = nullptr;
    BatchStore* batches_ = nullptr;
    QuestionStore* inbox_ = nullptr;
    ForkStore* forks_ = nullptr;
    ThreadStore* threads_ = nullptr;
    std::vector<StoreFailure> failures_;
};

/// Returns the exception of `task`, or null.
template <class T>
Task<std::exception_ptr> failure_of(Task<T> task) {
    std::exception_ptr failure;
    try {
        co_await std::move(task);
    } catch (...) {
        failure = std::current_exception();
    }
    co_return failure;
}

template <class T>
Task<> expect_refused(StoreProbe& probe, ErrorCode code, Task<T> task, std::string what) {
    const std::exception_ptr failure = co_await failure_of(std::move(task));
    probe.expect_error(code, failure, what);
}

struct StoreCheck {
    const char* name;
    Task<> (*run)(StoreProbe& probe);
    /// Returns true if the store has the interface that the check requires.
    bool (*applies)(StoreProbe& probe);
};

std::vector<StoreCheck> message_checks();
std::vector<StoreCheck> run_checks();
std::vector<StoreCheck> approver_checks();
std::vector<StoreCheck> batch_checks();
std::vector<StoreCheck> inbox_checks();
std::vector<StoreCheck> thread_checks();

// The messages that the checks store.
Message user_of_run(std::string text, std::string run_id, std::string id = {});
Message answer_of_run(std::string text, std::string run_id);
MessageList list_of(Message message);
Task<CheckpointData> load_or_empty(Checkpointer& store, std::string thread_id);
/// Returns messages of all roles with all fields, texts that are difficult for formats, and numbers at the limits of
/// their types. Deterministic for a given `seed`.
MessageList generated_messages(std::uint64_t seed, std::size_t count);

}  // namespace cubepi::testing::detail
