#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <bub/channel/channel_manager.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/net/http_server.hpp>

#include "gateway_api.hpp"

namespace cubepi::app {

/// How far a reader has read the live answer of a session. The answer itself is the buffer: a slow reader has no queue of its own (D251).
struct LivePosition {
    std::string answer = {};    ///< of which message; empty: nothing was read
    std::size_t text = 0;       ///< bytes of its text
    std::size_t thinking = 0;   ///< bytes of its thinking
    std::uint64_t calls = 0;    ///< the version of the calls in progress
    std::uint64_t changes = 0;  ///< of the history
    bool has_content = false;   ///< what was read last is not empty

    /// The form for clients, who return it to continue.
    std::string to_string() const;
    /// Returns an empty position for a text that is not one.
    static LivePosition parse(const std::string& text);
};

/// The part of a live answer that follows a position.
struct LiveUpdate {
    /// The whole of it, if what follows cannot be appended to what was read.
    std::optional<LiveAnswer> whole = {};
    std::string text = {};
    std::string thinking = {};
    std::optional<std::vector<HistoryCall>> calls = {};
    bool has_changed = false;  ///< the history, or the state of the session
};

/// The versions of the lists that operators see. A reader compares them with those that it has read.
struct LiveLists {
    std::uint64_t questions = 1;
    std::uint64_t sessions = 1;
};

/// The output of running turns that is not stored yet, by session, for operators who watch, and which lists have changed (D268).
/// Thread-safe. Turns never wait for a reader.
class LiveAnswers {
public:
    /// Wakes a reader on its executor.
    struct Watch {
        explicit Watch(Executor used) : executor(std::move(used)) {}
        const Executor executor;
        AsyncEvent changed;  ///< used on the executor
        std::atomic<bool> is_posted = false;
    };

    LiveAnswers();

    /// Follows the agent of a turn. Called on the agent's executor.
    static void follow(const std::shared_ptr<LiveAnswers>& answers,
                       const std::shared_ptr<Agent>& agent, std::string session);
    /// Forgets the answer of a session whose turn has ended.
    void end(const std::string& session);
    /// Returns nothing if the session has no turn, or if all that it has produced is stored.
    std::optional<LiveAnswer> find(const std::string& session) const;

    /// Sets `changed` when read() may return more, or a list has changed, until the last owner of the result has gone. An empty session:
    /// only the lists.
    std::shared_ptr<Watch> watch(const std::string& session, Executor executor);
    /// Returns what follows a position, and moves the position behind it.
    LiveUpdate read(const std::string& session, LivePosition& position) const;
    /// Notes that the history or the state of a session has changed.
    void touch(const std::string& session);
    LiveLists lists() const;
    /// Sets `changed` when sessions have changed, so that the lists may have. It has one owner, who calls list_changed().
    std::shared_ptr<Watch> watch_sessions(Executor executor);
    /// Returns true if there are readers, for whom the lists are compared.
    bool has_readers() const;
    /// Tells the readers that these lists have other contents.
    void list_changed(bool questions, bool sessions);
    /// Wakes all readers for their end.
    void close();
    bool is_closed() const noexcept { return is_closed_; }

private:
    struct Entry {
        std::weak_ptr<Agent> agent = {};  ///< an agent that is gone has produced nothing
        LiveAnswer answer = {};
        std::string name = {};           ///< of the message, LivePosition::answer
        std::size_t text_begin = 0;      ///< bytes before LiveAnswer::text that were removed
        std::size_t thinking_begin = 0;  ///< the same of its thinking
        std::uint64_t calls = 0;         ///< the version of the calls
    };

    void note(const std::string& session, const AgentEvent& event);
    void begin_message(Entry& entry);
    static void wake(const std::weak_ptr<Watch>& watching);
    void wake(const std::string& session);
    void forget_readers();

    const std::string process_;  ///< positions of an earlier process are not ours
    mutable std::mutex mutex_;
    std::map<std::string, Entry> entries_;
    std::multimap<std::string, std::weak_ptr<Watch>> watches_;
    std::map<std::string, std::uint64_t> changes_;  ///< of the sessions with readers
    LiveLists lists_;
    std::weak_ptr<Watch> sessions_watch_;
    std::uint64_t messages_ = 0;
    std::atomic<bool> is_closed_ = false;
};

/// Passes what the manager reports on, and tells the readers of a session that its state has changed.
class LiveObserver final : public bub::ManagerObserver {
public:
    LiveObserver(std::shared_ptr<bub::ManagerObserver> next, std::shared_ptr<LiveAnswers> answers)
        : next_(std::move(next)), answers_(std::move(answers)) {}
    void received(const bub::Envelope& message) noexcept override;
    void turn_ended(const bub::EndedTurn& turn) noexcept override;

private:
    void touch(const bub::Envelope& message) const noexcept;

    const std::shared_ptr<bub::ManagerObserver> next_;  ///< may be null
    const std::shared_ptr<LiveAnswers> answers_;
};

/// Shortens a text to its beginning. Returns true if something is missing.
bool shorten(std::string& text, std::size_t limit);

/// The reader of a stream, and its end.
struct LiveReader {
    std::stop_token ended = {};  ///< of the login
    /// Returns false if the login has expired. Asked from time to time; null: it does not.
    std::function<bool()> is_valid = {};
    std::shared_ptr<const void> counted = {};  ///< released at the end of the stream
};

/// Returns the response to GET /v1/admin/sessions/{id}/events: server-sent events with what the turn of the session produces, until the
/// client, its login or the instance of the gateway ends (D251). GET /v1/admin/events, without a session, has only the last two:
///   live     {text, thinking, truncated, calls}: all that is not stored yet; replaces what was read
///   delta    {text, thinking}: follows it
///   calls    {calls}: those in progress
///   changed  {}: the history or the state of the session is another one
///   questions, sessions  {}: that list is another one since the stream has begun (D268)
/// The id of an event is a position. A client that returns it as `Last-Event-ID`, or as the parameter `after`, continues there.
HttpServerResponse live_events(std::shared_ptr<LiveAnswers> answers,
                               const HttpServerRequest& request, Executor executor,
                               LiveReader reader);

}  // namespace cubepi::app
