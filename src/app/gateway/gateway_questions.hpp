#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include <bub/envelope.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::app {

/// The questions whose time is over (D65): notifies the session of each once. Used on one executor.
class ExpiredQuestions {
public:
    /// Accepts the message that continues a session.
    using Receive = std::function<Task<>(bub::Envelope message)>;
    using Warn = std::function<void(const std::string& text)>;

    struct Due {
        std::string key;  ///< of the session and the question
        bub::Envelope message;
    };

    /// Passes the messages of all questions that are due to `receive`, except those that were passed before. A message that is rejected
    /// for the time being (its channel is not running, or the queue is full) is passed again the next time. Any other failure
    /// is reported, and does not affect the other questions.
    Task<> notify(std::vector<Due> due, Receive receive, Warn warn);

private:
    std::set<std::string> notified_;
};

}  // namespace cubepi::app
