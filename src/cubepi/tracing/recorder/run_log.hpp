#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/core/support/fork_generation.hpp>
#include <cubepi/tracing/recorder/run_facts.hpp>
#include <cubepi/tracing/recorder/run_trace.hpp>

namespace cubepi::detail {

class RunLog;

/// The owner of the logs of runs. Receives their spans.
class LogKeeper : public SpanReceiver {
public:
    /// Arranges that replay() of the log is called soon on another thread. Returns false if that is not possible now. Called with a lock
    /// of the log.
    virtual bool replay_later(std::shared_ptr<RunLog> log) noexcept = 0;
    /// Called after replay_later(), without a lock of the log.
    virtual void wake_replays() noexcept = 0;
};

/// Records a run: the run itself only takes notes, and another thread replays them to a RunTrace, which makes the spans.
/// Events that are rare, or whose content is recorded, go to the trace directly, after the notes before them.
///
/// Any thread may call any member. The run waits for another thread only where it needs the trace itself. In a child process of
/// fork() nothing is recorded of a run that its parent began with notes.
class RunLog final : public std::enable_shared_from_this<RunLog> {
public:
    using Time = RunTrace::Time;

    static std::shared_ptr<RunLog> create();
    RunLog(const RunLog&) = delete;
    RunLog& operator=(const RunLog&) = delete;

    /// Begins the log of a run: the first one, or another one after retire(). `takes_notes`: otherwise everything goes to the trace
    /// directly.
    void begin(std::shared_ptr<LogKeeper> keeper, bool takes_notes,
               std::shared_ptr<const RunTrace::Settings> settings,
               std::shared_ptr<const RunInfo> info, TraceParent parent, Time start);
    /// Ends the log of a run, which is aborted unless it has ended. Requires that no one else refers to it. The notes keep their memory for
    /// the next run.
    void retire() noexcept;

    const RunInfo& info() const noexcept { return *info_; }
    const SpanContext& context() const noexcept { return context_; }
    /// Returns whether the run is below another span of the same tracer.
    bool has_local_parent() const noexcept { return parent_.span_id.valid() && !parent_.remote; }

    // Events of the agent, see RunTrace.
    void start_turn(std::uint32_t turn, Time now);
    void start_message(const Message& message);
    void end_turn(const TurnEndEvent& event, Time now);
    void start_tool(const ToolExecutionStartEvent& event, ToolFacts facts, Time now);
    void end_tool(const ToolExecutionEndEvent& event, Time now);
    void end(RunEnding ending, Time now);
    // Notifications of providers.
    void start_chat(const ProviderCall& call, const RequestPayload& payload, Time now);
    void end_chat(const ProviderCall& call, const ProviderOutcome& outcome, Time now);

    /// Replays the notes, and then calls `use` with the trace.
    template <class Use>
    void with_trace(Use use) {
        if (is_lost()) return;
        use(replayed());
    }
    /// Replays the notes so far, and returns their number. Notes that cannot be recorded for lack of memory are counted.
    std::size_t replay() noexcept;

private:
    RunLog() = default;
    ~RunLog() { retire(); }

    struct TurnStart {
        std::uint32_t turn;
    };
    struct ToolStart {
        SharedString id;
        SharedString name;
        ToolFacts facts;
    };
    struct ToolEnd {
        SharedString id;
        bool is_error;
        bool terminate;
        bool blocked_by_hook;
    };
    struct Note {
        template <class What>
        Note(What&& what, Time when)
            : what(std::in_place_type<What>, std::forward<What>(what)), time(when) {}
        std::variant<TurnStart, TurnEnd, ToolStart, ToolEnd, ChatStart, ChatEnd, RunEnding> what;
        Time time;
    };
    struct Replay;
    struct Deleter;

    /// A run with as many notes replays them itself.
    static constexpr std::size_t max_notes = 256;

    template <class What>
    void note(What&& what, Time now);
    RunTrace& replayed();
    std::size_t replay_notes();
    bool take_notes();
    bool is_lost() const noexcept { return takes_notes_ && process_ != fork_generation(); }

    std::shared_ptr<LogKeeper> keeper_;
    bool takes_notes_ = false;
    unsigned process_ = 0;
    std::shared_ptr<const RunTrace::Settings> settings_;
    std::shared_ptr<const RunInfo> info_;
    TraceParent parent_;
    SpanContext context_;
    Time start_;
    /// In this turn. The answer of a stream that was dropped comes with the end of the turn.
    std::atomic<bool> has_dropped_stream_ = false;

    std::mutex mutex_;  // of the next three; held for a few assignments
    std::vector<Note> notes_;
    std::int64_t input_messages_ = 0;  // not counted in the trace yet
    bool is_posted_ = false;           // the keeper will replay the notes

    std::mutex replay_mutex_;  // of the next two
    // Notes that are being replayed, or were. They stay until the log is used again: an allocator is slow, for both sides, if one
    // thread allocates memory that another one frees.
    std::vector<Note> replaying_;
    std::optional<RunTrace> trace_;  // created when it is needed
};

}  // namespace cubepi::detail
