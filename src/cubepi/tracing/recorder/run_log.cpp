#include <cubepi/tracing/recorder/run_log.hpp>

#include <type_traits>

namespace cubepi::detail {

/// Passes a note to the trace.
struct RunLog::Replay {
    RunTrace& trace;
    Time time;

    void operator()(const TurnStart& turn) const { trace.start_turn(turn.turn, time); }
    void operator()(const TurnEnd& turn) const { trace.end_turn(turn, time); }
    void operator()(const ToolStart& tool) const {
        ToolExecutionStartEvent event;
        event.tool_call_id = tool.id;
        event.tool_name = tool.name;
        trace.start_tool(event, tool.facts, time);
    }
    void operator()(const ToolEnd& tool) const {
        ToolExecutionEndEvent event;
        event.tool_call_id = tool.id;
        event.is_error = tool.is_error;
        event.terminate = tool.terminate;
        event.blocked_by_hook = tool.blocked_by_hook;
        trace.end_tool(event, time);
    }
    void operator()(const ChatStart& chat) const { trace.start_chat(chat, time); }
    void operator()(ChatEnd& chat) const { trace.end_chat(chat, time); }
    void operator()(const RunEnding& ending) const { trace.end(ending, time); }
};

/// Leaves a log to the child process of fork() that cannot use it: another thread of the parent may have been changing it.
struct RunLog::Deleter {
    void operator()(RunLog* log) const noexcept {
        if (!log->is_lost()) delete log;
    }
};

std::shared_ptr<RunLog> RunLog::create() { return std::shared_ptr<RunLog>(new RunLog, Deleter()); }

void RunLog::begin(std::shared_ptr<LogKeeper> keeper, bool takes_notes,
                   std::shared_ptr<const RunTrace::Settings> settings,
                   std::shared_ptr<const RunInfo> info, TraceParent parent, Time start) {
    keeper_ = std::move(keeper);
    takes_notes_ = takes_notes;
    process_ = fork_generation();
    settings_ = std::move(settings);
    info_ = std::move(info);
    parent_ = std::move(parent);
    context_ = SpanContext{parent_.trace_id, SpanId::random(), parent_.sampled};
    start_ = start;
    has_dropped_stream_ = false;
    // The notes of the previous run refer to memory that was allocated on this thread, most likely.
    replaying_.clear();
    if (notes_.capacity() == 0) std::swap(notes_, replaying_);
    constexpr std::size_t notes_of_three_turns = 24;
    if (takes_notes) notes_.reserve(notes_of_three_turns);
}

void RunLog::retire() noexcept {
    if (!keeper_) return;
    replay();
    // Not empty only if the notes could not be replayed for lack of memory.
    notes_.clear();
    input_messages_ = 0;
    is_posted_ = false;
    trace_.reset();
    parent_ = TraceParent();
    keeper_.reset();
}

/// Adds a note. Called on the path of the run.
template <class What>
void RunLog::note(What&& what, Time now) {
    if (is_lost()) return;
    bool is_new = false;
    bool must_replay = false;
    {
        const std::lock_guard lock(mutex_);
        notes_.emplace_back(std::forward<What>(what), now);
        is_new = !is_posted_;
        // Under the lock, so that a flush by another thread finds the log in the queue.
        if (is_new) is_posted_ = keeper_->replay_later(shared_from_this());
        must_replay = !is_posted_ || notes_.size() >= max_notes;
    }
    if (is_new) keeper_->wake_replays();
    if (must_replay) replay();
}

std::size_t RunLog::replay_notes() {
    std::size_t failed = 0;
    std::size_t count = 0;
    {
        const std::lock_guard replaying(replay_mutex_);
        if (!trace_) {
            trace_.emplace(settings_, *keeper_, info_, parent_, start_, context_.span_id);
        }
        if (!take_notes()) return 0;
        count = replaying_.size();
        for (Note& note : replaying_) {
            try {
                std::visit(Replay{*trace_, note.time}, note.what);
            } catch (...) {
                ++failed;
            }
        }
    }
    settings_->losses->add(Loss::event, "a run", failed);
    return count;
}

/// Moves the notes to those that are being replayed. Returns false if there are none.
bool RunLog::take_notes() {
    {
        const std::lock_guard lock(mutex_);
        if (notes_.empty()) {
            trace_->add_input_messages(std::exchange(input_messages_, 0));
            return false;
        }
    }
    // Not under the lock: it may free memory. Notes are added meanwhile, not removed.
    replaying_.clear();
    const std::lock_guard lock(mutex_);
    std::swap(notes_, replaying_);
    trace_->add_input_messages(std::exchange(input_messages_, 0));
    is_posted_ = false;
    return true;
}

RunTrace& RunLog::replayed() {
    replay_notes();
    return *trace_;
}

std::size_t RunLog::replay() noexcept {
    if (is_lost()) return 0;
    try {
        return replay_notes();
    } catch (...) {
        settings_->losses->add(Loss::event, "a run");
        return 0;
    }
}

void RunLog::start_turn(std::uint32_t turn, Time now) {
    if (takes_notes_) return note(TurnStart{turn}, now);
    replayed().start_turn(turn, now);
}

void RunLog::start_message(const Message& message) {
    if (!takes_notes_) return replayed().start_message(message);
    if (message.role() == Role::assistant || is_lost()) return;
    const std::lock_guard lock(mutex_);
    ++input_messages_;
}

void RunLog::end_turn(const TurnEndEvent& event, Time now) {
    if (takes_notes_) return note(end_of(event, has_dropped_stream_.exchange(false)), now);
    replayed().end_turn(event, now);
}

void RunLog::start_tool(const ToolExecutionStartEvent& event, ToolFacts facts, Time now) {
    if (takes_notes_)
        return note(ToolStart{event.tool_call_id, event.tool_name, std::move(facts)}, now);
    replayed().start_tool(event, facts, now);
}

void RunLog::end_tool(const ToolExecutionEndEvent& event, Time now) {
    if (takes_notes_) {
        return note(
            ToolEnd{event.tool_call_id, event.is_error, event.terminate, event.blocked_by_hook},
            now);
    }
    replayed().end_tool(event, now);
}

void RunLog::end(RunEnding ending, Time now) {
    if (takes_notes_) return note(std::move(ending), now);
    replayed().end(ending, now);
}

void RunLog::start_chat(const ProviderCall& call, const RequestPayload& payload, Time now) {
    if (takes_notes_) return note(start_of(call, payload), now);
    replayed().start_chat(call, payload, now);
}

void RunLog::end_chat(const ProviderCall& call, const ProviderOutcome& outcome, Time now) {
    if (!takes_notes_) return replayed().end_chat(call, outcome, now);
    ChatEnd chat = end_of(call, outcome);
    if (!chat.has_answer && call.purpose().empty()) has_dropped_stream_ = true;
    note(std::move(chat), now);
}

}  // namespace cubepi::detail
