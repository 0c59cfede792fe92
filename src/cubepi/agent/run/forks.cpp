#include <memory>
#include <string>
#include <utility>

#include <cubepi/agent/run/agent_impl.hpp>
#include <cubepi/agent/run/prompt.hpp>
#include <cubepi/agent/run/thread_log.hpp>
#include <cubepi/agent/transcript.hpp>

// Not in agent.cpp, so that only programs that rewind are linked with it.

namespace cubepi {
namespace detail {
namespace {

[[noreturn]] void refuse(const std::string& why) {
    throw Error(ErrorCode::invalid_argument, "rewind(): " + why);
}

/// Returns the position of the message in the history.
std::size_t position_of(const MessageList& messages, const std::string& message_id) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (messages[i].id() == message_id) return i;
    }
    refuse("the history has no message '" + message_id + "'");
}

MessageList first_of(const MessageList& messages, std::size_t count) {
    MessageList first;
    for (std::size_t i = 0; i < count; ++i) first.push_back(messages[i]);
    return first;
}

bool same_ids(const MessageList& a, const MessageList& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i].id() != b[i].id()) return false;
    }
    return true;
}

void rewind_memory(Agent::Impl& impl, MessageList rest) {
    if (!is_legal_transcript(rest))
        refuse("the message belongs to calls whose answer would stay: name an earlier one");
    impl.log.forget();
    impl.state.messages = std::move(rest);
}

/// Checks that a fork after the last run before the message has exactly the messages before it.
Task<void> check_snapshot(ThreadLog& log, ForkStore& forks, std::string after_run_id,
                          MessageList rest) {
    auto call = [&] { return forks.snapshot(log.thread_id(), after_run_id); };
    Task<MessageList> reading =
        store_call("read the thread before the message", log.thread_id(), std::move(call));
    const MessageList stored = co_await std::move(reading);
    if (same_ids(stored, rest)) co_return;
    refuse(
        "the part of thread '" + log.thread_id() +
        "' before the message has runs that were not completed, which a fork does not copy; name a "
        "message of an earlier run");
}

/// Throws if the thread exists.
Task<void> require_new(ThreadLog& log, std::string thread_id) {
    auto call = [&] { return log.store()->load(thread_id); };
    Task<std::optional<CheckpointData>> loading =
        store_call("check that the thread is new", thread_id, std::move(call));
    const std::optional<CheckpointData> data = co_await std::move(loading);
    if (data) {
        throw ThreadAlreadyExistsError(
            ErrorCode::thread_exists,
            "rewind(): thread '" + thread_id + "' exists already; pass a new thread id", thread_id);
    }
}

Task<void> rewind_thread(Agent::Impl& impl, ForkStore& forks, std::size_t count,
                         std::string new_thread_id) {
    ThreadLog& log = impl.log;
    MessageList rest = first_of(impl.state.messages, count);
    if (rest.empty()) {
        co_await require_new(log, new_thread_id);
    } else {
        const std::string after(rest.back().run_id().str());
        co_await check_snapshot(log, forks, after, std::move(rest));
        auto call = [&] { return forks.fork(log.thread_id(), new_thread_id, after, std::nullopt); };
        Task<void> forking = store_call("fork the thread", log.thread_id(), std::move(call));
        co_await std::move(forking);
    }
    log.continue_in(std::move(new_thread_id));
    co_await log.load();
}

Task<void> run_rewind(std::shared_ptr<Agent::Impl> impl, std::string message_id,
                      std::string new_thread_id) {
    ActiveRun active(*impl, impl->runtime->ids->next());
    ThreadLog& log = impl->log;
    co_await log.load();
    const MessageList& messages = impl->state.messages;
    const std::size_t position = position_of(messages, message_id);
    if (!log.persistent()) {
        rewind_memory(*impl, first_of(messages, position));
    } else {
        auto* forks = dynamic_cast<ForkStore*>(log.store());
        if (!forks) {
            throw Error(ErrorCode::unsupported,
                        "rewind(): the store cannot fork threads (it is not a ForkStore)");
        }
        if (new_thread_id.empty())
            refuse(
                "a stored thread is append-only: pass the id of the new thread that continues it");
        const bool begins_run =
            position == 0 || messages[position - 1].run_id() != messages[position].run_id();
        if (!begins_run) refuse("message '" + message_id + "' does not begin a run");
        co_await rewind_thread(*impl, *forks, position, std::move(new_thread_id));
    }
    impl->state.error_message = {};
    impl->state.last_outcome = LastOutcome::complete;
    impl->prefix_guard.reset();
}

}  // namespace
}  // namespace detail

Task<void> Agent::rewind(std::string message_id, std::string new_thread_id) {
    return detail::run_rewind(impl_, std::move(message_id), std::move(new_thread_id));
}

}  // namespace cubepi
