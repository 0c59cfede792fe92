#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/container/small_vector.hpp>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run_info.hpp>
#include <cubepi/core/support/fork_generation.hpp>
#include <cubepi/provider/observers.hpp>
#include <cubepi/tracing/recorder/content.hpp>
#include <cubepi/tracing/span.hpp>
#include <cubepi/tracing/span_sink.hpp>

namespace cubepi::detail {

/// The spans of a run that is not sampled and of its nested runs, or those of the program around runs: held until one of them fails,
/// which exports them and those that end later. Spans beyond the limits are counted. Dropped at the end of the last owner. Thread-safe.
class SpanHold {
public:
    static constexpr std::size_t max_spans = 10'000;
    static constexpr std::size_t max_bytes = std::size_t{16} << 20U;

    /// `above`: of the spans of the program above; they are exported, too, if a span here fails. May be null.
    SpanHold(std::shared_ptr<SpanSink> sink, std::shared_ptr<LossReport> losses,
             std::shared_ptr<SpanHold> above = nullptr)
        : sink_(std::move(sink)), losses_(std::move(losses)), above_(std::move(above)) {}

    void add(std::shared_ptr<const SpanData> span);
    /// Returns what is redacted in all of these spans; part of `self`.
    static std::shared_ptr<Redactions> redactions(const std::shared_ptr<SpanHold>& self) {
        const std::shared_ptr<SpanHold>& top = self->above_ ? self->above_ : self;
        return {top, &top->redactions_};
    }
    /// Exports what is held. Reports the spans that are missing, so it is called without a lock.
    void fail() noexcept;

private:
    const std::shared_ptr<SpanSink> sink_;
    const std::shared_ptr<LossReport> losses_;
    const std::shared_ptr<SpanHold> above_;
    Redactions redactions_;
    std::mutex mutex_;  // of the following
    std::vector<std::shared_ptr<const SpanData>> spans_;
    std::size_t bytes_ = 0;
    std::uint64_t missing_ = 0;
    bool failed_ = false;
};

/// Releases a lock for its own lifetime, in which the user's `redact` may be called: it may be slow, and may use the agent.
class ContentPause {
public:
    /// `lock` is null if no content is recorded; the lock is held then.
    explicit ContentPause(std::unique_lock<std::mutex>* lock) : lock_(lock) {
        if (lock_) lock_->unlock();
    }
    ~ContentPause() {
        if (lock_) lock_->lock();
    }
    ContentPause(const ContentPause&) = delete;
    ContentPause& operator=(const ContentPause&) = delete;

private:
    std::unique_lock<std::mutex>* lock_;
};

/// The parent of a run's span, and whether the run is recorded.
struct TraceParent {
    TraceId trace_id = {};
    SpanId span_id = {};  ///< not valid: the run's span is the root
    bool sampled = true;
    std::shared_ptr<SpanHold> hold = {};          ///< of the spans above; null: none
    std::shared_ptr<Redactions> redactions = {};  ///< of the run above; null: none
    bool remote = false;  ///< the span above is not of this tracer: of another process, for example
};

/// Information about a tool of the agent that a recorder needs.
struct ToolInfo {
    SharedString description = {};
    std::optional<ExecutionMode> execution_mode = {};
};

/// The end of a run.
struct RunEnding {
    RunOutcome outcome = RunOutcome::completed;
    std::shared_ptr<const Error> error = {};  ///< may be null
    std::size_t message_count = 0;            ///< new messages
    std::optional<double> cost = {};          ///< absent: unknown
};

/// The spans of one run, which go to the sink when they end. Events of the agent and notifications of providers may come from different
/// threads: one lock guards all that changes. The user's `redact` and `on_notice` are never called under the lock: a span that ends is
/// taken off the lists first.
///
/// In a child process of fork() nothing is recorded of a run that its parent began, and no member waits for the lock: the thread of the
/// parent that held it does not exist there.
class RunTrace {
public:
    using Time = std::chrono::system_clock::time_point;

    struct Settings {
        ContentFilter content;
        SharedString agent_name = {};
        bool keep_failed = true;  ///< export a run that is not sampled if it fails
        std::shared_ptr<LossReport> losses = {};
    };

    /// TraceParent::hold receives the spans of a run that is not sampled; null: they are not recorded. The end of the last owner ends
    /// what is open as aborted.
    static std::shared_ptr<RunTrace> create(std::shared_ptr<const Settings> settings,
                                            std::shared_ptr<SpanSink> sink,
                                            std::shared_ptr<const RunInfo> info, TraceParent parent,
                                            Time start);
    RunTrace(const RunTrace&) = delete;
    RunTrace& operator=(const RunTrace&) = delete;

    const RunInfo& info() const noexcept { return *info_; }
    const SpanContext& context() const noexcept { return context_; }
    /// Returns what holds the spans of a run that is not sampled; may be null.
    const std::shared_ptr<SpanHold>& hold() const noexcept { return hold_; }
    const ContentFilter& content() const noexcept { return filter_; }
    /// Returns the span that a nested run of this tool call has as its parent; the open turn or the run itself if the call has
    /// no span.
    SpanContext context_of_call(std::string_view tool_call_id) const;
    /// Adds a link from the run's span to that of an earlier run.
    void link_to(const SpanContext& earlier);
    void set_attribute(AttributeKey key, AttributeValue value);

    // Events of the agent.
    void start_turn(std::uint32_t turn, Time now);
    void start_message(const Message& message);
    void end_turn(const TurnEndEvent& event, Time now);
    void start_tool(const ToolExecutionStartEvent& event, const ToolInfo& info, Time now);
    void end_tool(const ToolExecutionEndEvent& event, Time now);
    void start_question(const HitlRequest& request, Time now);
    void end_question(std::string_view question_id, std::string_view outcome, Time now);
    void end_answered_question(const HitlAnswerEvent& event, Time now);
    void suspend(std::optional<double> cost, Time now);
    void end(const RunEnding& ending, Time now);
    /// Ends a run of which no more events are expected.
    void abandon(Time now);

    // Notifications of providers.
    void start_chat(const ProviderCall& call, const RequestPayload& payload, Time now);
    void end_chat(const ProviderCall& call, const ProviderOutcome& outcome, Time now);
    /// Records the answer of a run without turns.
    void end_answer(const Message& message);

private:
    using OpenSpan = std::shared_ptr<SpanData>;  // null: it has ended
    struct Tool {
        SharedString id;
        OpenSpan span;
    };
    struct Chat {
        /// All notifications refer to the same object; null: the call has ended.
        const ProviderCall* call;
        OpenSpan span;
        bool is_answer = false;  ///< the call has no other purpose
        /// Set if the stream was dropped: the partial answer comes with the end of the turn.
        std::optional<Time> dropped = {};
        std::optional<Model> model = {};  ///< of a dropped stream
    };
    using Chats = boost::container::small_vector<Chat, 1>;
    struct Question {
        std::string id;
        std::string_view kind;
        Time start;
        OpenSpan span;
    };

    /// The failure of an answer, which may become that of the run. Empty: it has not failed.
    struct AnswerFailure {
        std::string type = {};
        std::string text = {};
    };
    /// Recorded content of the run.
    struct RunContent {
        JsonArray turn_input = {};
        JsonArray input = {};
        JsonArray output = {};
        SharedString system_prompt = {};
    };

    using Lock = std::unique_lock<std::mutex>;
    struct Deleter;

    RunTrace(std::shared_ptr<const Settings> settings, std::shared_ptr<SpanSink> sink,
             std::shared_ptr<const RunInfo> info, TraceParent parent, Time start);
    ~RunTrace();

    /// Locks what changes, except in a child process.
    Lock lock() const { return is_forked() ? Lock(mutex_, std::defer_lock) : Lock(mutex_); }
    bool is_forked() const noexcept { return process_ != fork_generation(); }
    template <class List, class Id>
    static auto find_by_id(List& list, const Id& id) {
        return std::find_if(list.begin(), list.end(),
                            [&](const auto& one) { return one.id == id; });
    }
    OpenSpan open(SharedString name, Time start, SpanKind kind = SpanKind::internal) const;
    SpanId turn_or_root() const noexcept;
    SpanId parent_of(const ProviderCall& call) const noexcept;
    /// False if no span of the run can be exported: it is not sampled, and would not be recorded if it failed.
    bool records() const noexcept { return (context_.sampled || hold_) && !is_forked(); }
    ContentPause pause(Lock& lock) const noexcept {
        return ContentPause(content_ ? &lock : nullptr);
    }
    void finish(OpenSpan& span, Time now);

    void redact_as_result(const Json& answer) const;
    void record_answer(SpanData& span, const Json& answer) const;
    void finish_question(Question& question, std::string_view outcome, Time now);

    void note_first_request(const ProviderCall& call);
    void record_request(Attributes& attributes, const ProviderCall& call, JsonObject payload) const;
    void record_outcome(SpanData& span, const ProviderCall& call, const ProviderOutcome& outcome,
                        Time now) const;
    void record_output(SpanData& span, const Message& answer) const;
    void record_failure(SpanData& span, const ErrorInfo* error, std::string_view text,
                        Time now) const;
    std::vector<Chat> take_dropped_chats();

    AnswerFailure failure_of(const AssistantMessage& answer) const;
    static void record_turn(SpanData& span, const AssistantMessage& answer,
                            const AnswerFailure& failure);

    void close_open_spans(std::string_view question_outcome, bool aborted, Time now);
    void record_error(SpanData& span, const AnswerFailure& failure, const Error* error) const;
    void record_run_content(SpanData& span, RunContent& content) const;
    void record_turn_content(Lock& lock, SpanData& span, JsonArray output);
    JsonArray output_of(const TurnEndEvent& event) const;
    void finish_run(Lock& lock, const Error* error, Time now);

    const std::shared_ptr<const Settings> shared_settings_;
    const Settings& settings_;
    const ContentFilter filter_;
    const std::shared_ptr<SpanSink> sink_;
    const std::shared_ptr<const RunInfo> info_;
    const SharedString run_id_;
    const SpanContext context_;
    const std::shared_ptr<SpanHold> hold_;  // null: the run is sampled, or not recorded if it fails
    const unsigned process_ = fork_generation();

    mutable std::mutex mutex_;  // of the following
    OpenSpan root_;
    OpenSpan turn_;
    boost::container::small_vector<Tool, 2> tools_;
    Chats chats_;
    std::vector<Question> questions_;
    std::int64_t input_messages_ = 0;
    std::size_t ended_tools_ = 0;        // of the turn
    std::size_t terminating_tools_ = 0;  // of the turn
    bool has_provider_ = false;
    bool failed_ = false;  // the run has; a failed tool is the model's business
    bool aborted_ = false;
    AnswerFailure failure_;                      // of the last answer
    const std::unique_ptr<RunContent> content_;  // null: content is not recorded
};

}  // namespace cubepi::detail
