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
    /// Silence after which what was collected goes on.
    std::chrono::nanoseconds delay = std::chrono::seconds(1);
    /// Nothing waits longer than this, however much follows it (B14).
    std::chrono::nanoseconds max_wait = std::chrono::seconds(10);
    /// For so long after a message to us, what is said beside us belongs to the conversation.
    std::chrono::nanoseconds active_window = std::chrono::seconds(60);
    /// So many go on at once.
    std::size_t max_messages = 100;
};

/// Several messages as one: texts joined with line feeds, media one after the other, contexts and other fields merged with the
/// later ones winning, all lifespans kept. It may give commands only when each of them could. Throws
/// Error(invalid_argument) for none.
Envelope merge_messages(std::vector<Envelope> messages);

/// True for what an operator wrote as a command: it begins with a comma (B11).
bool is_command(const Envelope& message) noexcept;

/// Collects the messages of one conversation that come in quick succession, and gives them on as one. Commands pass at once.
/// What is not meant for us (`is_active` false) is dropped unless somebody spoke to us lately. Used on one executor.
class Debouncer {
public:
    using Flush = std::function<void(Envelope message)>;
    /// Nothing is kept for this conversation any more: the debouncer may be destroyed, but not from inside.
    using Idle = std::function<void()>;

    /// `clock` outlives it.
    Debouncer(cubepi::Clock& clock, cubepi::Executor executor, DebounceOptions options, Flush flush,
              Idle idle = {});

    /// False: it was not meant for us, and is dropped.
    bool add(Envelope message);
    /// What add() would say.
    bool wants(const Envelope& message) const;
    /// Drops what was collected, and gives its number.
    std::size_t clear();
    std::size_t waiting() const noexcept { return messages_.size(); }

private:
    using TimePoint = cubepi::Clock::time_point;
    bool in_window(TimePoint now) const;
    void arm(TimePoint deadline);
    void on_timer();
    void flush();

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
