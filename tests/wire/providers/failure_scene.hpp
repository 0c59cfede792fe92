#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <ostream>
#include <semaphore>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/testing/manual_clock.hpp>

#include "../net/raw_server.hpp"
#include "failure_scripts.hpp"

// One cell of the table of failures, played over a socket.

namespace cubepi::wire {

/// The kind of failure. `status` represents all status codes; the number is a separate member.
enum class Kind : std::uint8_t {
    no_name,     ///< before the connection
    refused,     ///< before the connection
    reset,       ///< RST
    close,       ///< FIN in the middle of a message of HTTP
    clean_end,   ///< the body ends properly, the answer does not
    not_http,    ///< before the headers
    status,      ///< before the headers
    error_body,  ///< 200, and JSON that reports a failure
    overload_event,
    refusal_event,
    not_json,
    cut_json,
    connect_timeout,  ///< the name does not resolve in time
    first_byte_timeout,
    idle_timeout,
    total_timeout,
    abort,
};

struct Row {
    Kind kind;
    const char* name;
    Phase first;
    Phase last;
    ErrorCode code;
    const char* type;
    bool retried = false;  ///< if nothing was shown
    int status = 0;
};

struct Cell {
    Format format;
    Phase phase;
    const Row* row;

    bool shown() const { return phase >= Phase::mid_text; }
    bool retried() const { return row->retried && !shown(); }
    /// The answer lacks only the marker of its end.
    bool whole() const {
        return phase == Phase::at_end && is_whole_at_end(format) && row->kind != Kind::abort;
    }
    bool reaches_server() const {
        return row->kind != Kind::no_name && row->kind != Kind::refused &&
               row->kind != Kind::connect_timeout;
    }
    const char* clock() const {
        switch (row->kind) {
            case Kind::connect_timeout: return "connect";
            case Kind::first_byte_timeout: return "first_byte";
            case Kind::idle_timeout: return "idle timeout";
            case Kind::total_timeout: return "total";
            default: return nullptr;
        }
    }
};

inline void PrintTo(const Cell& cell, std::ostream* out) {
    *out << name_of(cell.format) << " " << name_of(cell.phase) << " " << cell.row->name;
}

/// The progress of the client, for the server: it breaks the connection, or lets time pass, when its data has been received.
class Progress {
public:
    explicit Progress(const Cell& cell) : cell_(cell) {}

    /// The head of an answer has arrived.
    void on_head() {
        ++heads_;
        // A second attempt does not announce the message again.
        const bool again = cell_.phase == Phase::before_content && heads_ > 1;
        if (cell_.phase == Phase::after_headers || again) reach();
    }
    void on_event(const AgentEvent& event) {
        const MessageStartEvent* start = event.get_if<MessageStartEvent>();
        if (start && start->message.assistant() && cell_.phase == Phase::before_content) reach();
        const MessageUpdateEvent* update = event.get_if<MessageUpdateEvent>();
        if (update) on_update(update->stream_event.type);
    }
    /// Waits on the server's side.
    void wait() {
        if (!reached_.try_acquire_for(std::chrono::seconds(30)))
            ADD_FAILURE() << "the client never reached this point";
    }

    std::function<void()> also = {};  ///< called when the client has reached the point

private:
    void on_update(StreamEventType type) {
        if (type == StreamEventType::text_delta && cell_.phase == Phase::mid_text) reach();
        if (type == StreamEventType::toolcall_end && cell_.phase == Phase::at_end &&
            ends_calls(cell_.format))
            reach();
        if (type != StreamEventType::toolcall_delta) return;
        ++pieces_;
        const bool all = pieces_ == 2 && cell_.phase == Phase::at_end && !ends_calls(cell_.format);
        if (all || cell_.phase == Phase::mid_arguments) reach();
    }
    void reach() {
        if (also) also();
        reached_.release();
    }

    const Cell cell_;
    std::counting_semaphore<64> reached_{0};
    int heads_ = 0;
    int pieces_ = 0;
};

/// An endpoint that fails as the cell defines, a given number of times, and an agent that uses it.
class Scene {
public:
    Scene(const Cell& cell, int failures);

    /// The prompt that fails.
    RunResult first();
    /// The next prompt, which the endpoint answers.
    RunResult next();

    const MessageList& messages() const { return agent_->state().messages; }
    const std::string& agent_error() const { return agent_->state().error_message; }
    AssistantMessage last_answer() const {
        for (std::size_t i = messages().size(); i-- > 0;) {
            if (messages()[i].assistant()) return *messages()[i].assistant();
        }
        return AssistantMessage();
    }
    std::vector<std::string> bodies() const {
        const std::lock_guard lock(mutex_);
        return bodies_;
    }

    std::vector<Notice> notices;
    std::atomic<int> tool_runs{0};

private:
    /// State of the name resolution; a hanging resolver may access it after the scene has ended.
    struct Names {
        explicit Names(int count) : failures(count) {}
        std::latch resolve{1};
        std::atomic<int> failures;
    };

    AgentOptions options();
    void serve(Connection& connection);
    static std::vector<std::string> resolve(Kind kind, Names& names, const std::string& host);
    bool fail(Connection& connection);
    bool fail_before_headers(Connection& connection);
    void let_time_pass(Connection& connection);

    const Cell cell_;
    const std::shared_ptr<testing::ManualClock> clock_ = std::make_shared<testing::ManualClock>();
    Progress progress_;
    const std::shared_ptr<Names> names_;
    std::atomic<int>& failures_ = names_->failures;
    mutable std::mutex mutex_;
    std::vector<std::string> bodies_;
    RawServer server_;
    std::unique_ptr<Agent> agent_;
};

}  // namespace cubepi::wire
