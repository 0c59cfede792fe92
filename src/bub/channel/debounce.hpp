#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <cubepi/core/clock.hpp>

#include <bub/envelope.hpp>

namespace bub {

struct DebounceOptions {
    /// The pause after which the collected messages are delivered.
    std::chrono::nanoseconds delay = std::chrono::seconds(1);
    /// The longest time that a message waits, however many follow it (B14).
    std::chrono::nanoseconds max_wait = std::chrono::seconds(10);
    /// For this long after a message addressed to the agent, other messages also belong to the conversation.
    std::chrono::nanoseconds active_window = std::chrono::seconds(60);
    /// The number of collected messages that triggers delivery.
    std::size_t max_messages = 100;
};

/// Merges several messages into one: texts joined with line feeds, media concatenated, contexts and other fields merged
/// so that later ones win, all lifespans and receipts preserved. The result may use commands only if every message may, and has
/// no `sender_id` if the senders differ. Throws Error(invalid_argument) if `messages` is empty.
Envelope merge_messages(std::vector<Envelope> messages);

/// Returns the comma command for `/todo`, `/tasks` and `/goal`, and their arguments, which every sender may use in the own session;
/// empty for other texts.
std::string_view session_command(std::string_view text);
/// Returns true if the message comes from an operator and begins with a comma (B11), or is a session_command(), but not an answer
/// to a question (B24).
bool is_command(const Envelope& message);
/// Returns true if the text is `/stop` or `,stop`, from any user: it ends the turn that runs in the session (D96).
bool is_stop(const Envelope& message);
/// Returns the message that such a message becomes if no turn is running: it withdraws the open questions of its session, and its answer
/// says if there are none.
Envelope withdrawal_of(Envelope stop);
/// Returns false for commands and answers, which bypass debounce and steering.
bool is_prompt(const Envelope& message);

/// A filter that collects the messages of one conversation that arrive in quick succession, and delivers consecutive messages
/// of one sender as one.
/// Commands and answers pass immediately. A message that is not addressed to the agent (`is_active` false) is dropped unless an
/// addressed one came within `active_window`. Used on one executor.
class Debouncer {
public:
    using Flush = std::function<void(Envelope message)>;
    /// Called when no state of this conversation remains: the debouncer may be destroyed, but not from inside the call.
    using Idle = std::function<void()>;

    /// `clock` must outlive the debouncer.
    Debouncer(cubepi::Clock& clock, cubepi::Executor executor, DebounceOptions options, Flush flush,
              Idle idle = {});

    /// Returns false if the message is dropped because it is not addressed to the agent.
    bool add(Envelope message);
    /// Returns what add() would return.
    bool wants(const Envelope& message) const;
    /// Delivers the collected messages now.
    void flush();
    /// Removes and returns the collected messages.
    std::vector<Envelope> drain();
    std::size_t waiting() const noexcept { return messages_.size(); }
    /// Returns true if messages of this sender wait.
    bool collects_from(const std::string& sender) const;

private:
    using TimePoint = cubepi::Clock::time_point;
    bool in_window(TimePoint now) const;
    void arm(TimePoint deadline);
    void on_timer();

    cubepi::Clock& clock_;
    DebounceOptions options_;
    Flush flush_;
    Idle idle_;
    std::vector<Envelope> messages_;
    TimePoint first_{};
    std::optional<TimePoint> last_active_;
    std::unique_ptr<cubepi::ClockTimer> timer_;
};

}  // namespace bub
