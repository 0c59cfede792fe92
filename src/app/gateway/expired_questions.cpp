#include "expired_questions.hpp"

#include <exception>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>

#include "../failure.hpp"

namespace cubepi::app {

namespace {

bool may_succeed_later(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        return error.code() == ErrorCode::not_found || error.code() == ErrorCode::limit ||
               error.code() == ErrorCode::unavailable || error.code() == ErrorCode::invalid_state;
    } catch (...) {
        return false;
    }
}

}  // namespace

Task<> ExpiredQuestions::notify(std::vector<Due> due, Receive receive, Warn warn) {
    std::set<std::string> keys;
    for (const Due& one : due) keys.insert(one.key);
    std::erase_if(notified_, [&keys](const std::string& key) { return !keys.contains(key); });
    for (Due& one : due) {
        if (!notified_.insert(one.key).second) continue;
        Task<> receiving = receive(std::move(one.message));
        const Outcome<> received = co_await outcome_of(std::move(receiving));
        if (received) continue;
        if (received.cancelled()) received.rethrow();
        if (may_succeed_later(received.failure())) {
            notified_.erase(one.key);
        } else {
            warn("the session of an expired question was not continued: " +
                 explain(received.failure()).text);
        }
    }
}

}  // namespace cubepi::app
