#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <cubepi/agent/agent.hpp>

#include "gateway_api.hpp"

namespace cubepi::app {

/// The output of running turns that is not stored yet, by session, for operators who watch. Thread-safe.
class LiveAnswers {
public:
    /// Follows the agent of a turn. Called on the agent's executor.
    static void follow(const std::shared_ptr<LiveAnswers>& answers,
                       const std::shared_ptr<Agent>& agent, std::string session);
    /// Forgets the answer of a session whose turn has ended.
    void end(const std::string& session);
    /// Returns nothing if the session has no turn, or if all that it has produced is stored.
    std::optional<LiveAnswer> find(const std::string& session) const;

private:
    struct Entry {
        std::weak_ptr<Agent> agent = {};  ///< an agent that is gone has produced nothing
        LiveAnswer answer = {};
    };

    void note(const std::string& session, const AgentEvent& event);

    mutable std::mutex mutex_;
    std::map<std::string, Entry> entries_;
};

/// Shortens a text to its beginning. Returns true if something is missing.
bool shorten(std::string& text, std::size_t limit);

}  // namespace cubepi::app
