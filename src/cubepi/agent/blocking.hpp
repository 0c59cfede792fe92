#pragma once

#include <cstddef>
#include <exception>
#include <iterator>
#include <optional>
#include <utility>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/run.hpp>

namespace cubepi {

namespace detail {
template <class Run>
using ResultOfRun = typename Awaited<decltype(std::declval<Run&>().result())>::type;
}  // namespace detail

/// The events of a run as a range, for programs without an event loop: the loop waits for the next event, and the run for
/// the loop. Leaving the loop early aborts the run and waits for its end.
///
///     for (const AgentEvent& event : blocking(agent.start("Hello"))) std::cout << event.text();
///
/// The loop throws what prompt() would throw and, at the end of a run that did not complete, a RunFailedError with the result.
/// For code that reads the outcome instead, AgentRun has next() and result().
///
/// Runs on the event loop of this thread, as run() does and with its restrictions. A single pass: begin() is called once.
template <class Run>
class BlockingEvents {
public:
    using Result = detail::ResultOfRun<Run>;

    explicit BlockingEvents(Run run) : events_(std::move(run)) {}
    BlockingEvents(const BlockingEvents&) = delete;
    BlockingEvents& operator=(const BlockingEvents&) = delete;

    /// The position in the range. Destroying it before the end aborts the run.
    class Iterator {
    public:
        using iterator_concept = std::input_iterator_tag;
        using value_type = AgentEvent;
        using difference_type = std::ptrdiff_t;

        explicit Iterator(BlockingEvents& range) : range_(&range) { range.advance(); }
        Iterator(Iterator&& other) noexcept : range_(std::exchange(other.range_, nullptr)) {}
        Iterator& operator=(Iterator&& other) noexcept {
            std::swap(range_, other.range_);
            return *this;
        }
        ~Iterator() {
            if (range_) range_->leave();
        }

        const AgentEvent& operator*() const noexcept { return *range_->event_; }
        const AgentEvent* operator->() const noexcept { return &*range_->event_; }
        Iterator& operator++() {
            range_->advance();
            return *this;
        }
        void operator++(int) { ++*this; }
        friend bool operator==(const Iterator& position, std::default_sentinel_t) noexcept {
            return position.at_end();
        }

    private:
        bool at_end() const noexcept { return !range_ || !range_->event_; }

        BlockingEvents* range_;
    };

    Iterator begin() { return Iterator(*this); }
    std::default_sentinel_t end() const noexcept { return {}; }

    /// Returns the result of the run: its outcome is `aborted` if the loop was left early. Events that were not read are
    /// discarded. Throws what prompt() would throw.
    Result& result() & {
        if (failure_) std::rethrow_exception(failure_);
        if (!result_) result_.emplace(run(events_.result()));
        return *result_;
    }
    Result result() && { return std::move(result()); }

private:
    void advance() {
        // Empty while waiting: an exception ends the range.
        event_.reset();
        event_ = run(events_.next());
        if (!event_ && !result()) throw RunFailedError(result());
    }

    void leave() noexcept {
        if (!event_) return;
        event_.reset();
        try {
            events_.abort();
            (void)result();
        } catch (...) {
            failure_ = std::current_exception();
        }
    }

    Run events_;
    std::optional<AgentEvent> event_;
    std::optional<Result> result_;
    std::exception_ptr failure_;  ///< of the end of an aborted run
};

/// Returns the events of `agent.start(...)` as a range for blocking code.
template <class Run>
BlockingEvents<Run> blocking(Run events) {
    return BlockingEvents<Run>(std::move(events));
}

}  // namespace cubepi
