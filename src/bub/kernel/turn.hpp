#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include <bub/kernel/framework_impl.hpp>
#include <bub/turn_span.hpp>
#include <cubepi/tracing/active_span.hpp>

namespace bub::detail {

/// The spans of one turn: `bub.turn`, and below it one for each stage, `bub.<stage>`. Without a tracer, no member has an effect.
class TurnTrace {
public:
    TurnTrace(const FrameworkOptions& options, const Envelope& inbound);

    /// Offers the spans to the plugins of the turn.
    void offer_to(TurnState& state) const;
    /// Begins a stage; the earlier one has ended, with `failure` if it is not null.
    void begin(std::string_view stage, const std::exception_ptr& failure = nullptr);
    /// Ends the turn. `failure`: of the turn, or null.
    void end(const TurnResult& result, const std::exception_ptr& failure);

private:
    void begin_turn(const FrameworkOptions& options, const Envelope& inbound);
    void begin_stage(std::string_view stage);
    void end_stage(const std::exception_ptr& failure);
    cubepi::ActiveSpan::Time now() const;

    const FrameworkOptions& options_;
    cubepi::ActiveSpan turn_;
    cubepi::ActiveSpan stage_;
    std::exception_ptr stage_failure_;   // of the last stage that failed
    std::shared_ptr<TurnSpan> service_;  // null: there is no tracer
};

/// The stages of one turn and the data they pass on. Lives in the coroutine frame of process_inbound.
class Turn {
public:
    Turn(Framework& owner, Framework::Impl& impl, PluginList asked,
         std::shared_ptr<Envelope> message, bool wants_stream);

    /// Runs all stages, from the session of the message to the dispatch of the answer.
    Task<> run_stages();
    bool has_something_open() const noexcept;
    /// Returns true if this is the first cancellation of the turn; then call shield(), because a cancelled coroutine cannot
    /// await anything, not even its own cleanup. From then on cleanup is limited to the grace period (await_closing()).
    bool is_cancelled_by(const std::exception_ptr& failure) noexcept;
    /// Runs the cleanup registered by load_state, and returns the final failure of the turn: `failure`, or a
    /// cancellation that arrived meanwhile.
    Task<std::exception_ptr> close(std::exception_ptr failure);

    Framework& framework;
    Framework::Impl& kernel;
    PluginList plugins;
    std::shared_ptr<Envelope> inbound;
    bool streaming;
    TurnResult result;
    TurnTrace trace;

private:
    Task<> load_state();
    /// Asks the model and then, whatever the outcome, calls save_state; throws the failure of the stage.
    Task<> run_model();
    Task<> render_outbound();
    /// Each envelope is dispatched to all plugins before the next one.
    Task<> dispatch_outbound();
    /// Sets the model's output: the recorded answer, that of the first plugin that has one, or the fallback.
    Task<> answer();
    Task<bool> ask_text(const Plugin& plugin);
    Task<bool> ask_stream(const Plugin& plugin);
    Task<> take_text(std::string text);
    Task<> consume(EventStream stream);
    Task<> read(EventStream& stream);
    /// Throws if a plugin returned no stream to a non-streaming caller (B1). Called if no plugin answered.
    void require_streams() const;
    Task<> fall_back();
    Task<std::exception_ptr> save_state(std::exception_ptr failure);
    /// Records a plugin's answer on the tape (B20). `whole`: the answer is complete.
    Task<> record(bool whole);
    Task<> record_input(std::shared_ptr<TapeStore> store, std::string tape, bool whole);
    /// Returns true if the tape has the answer to an earlier delivery of this inbound (D42).
    Task<std::shared_ptr<TapeStore>> tapes();
    Task<bool> answer_again();
    /// Returns the name of the session's tape; empty if it has none.
    Task<std::string> tape_of_session(std::shared_ptr<TapeStore> store) const;
    /// Awaits work of a hook after the turn's end; if the turn was cancelled, for the grace period only.
    Task<> await_closing(Task<> task, std::string what);

    bool cancelled_ = false;
    bool answered_ = false;
    std::string
        without_stream_;    ///< the first plugin that returned no stream to a non-streaming caller
    std::string input_id_;  ///< empty: the inbound has no id
};

}  // namespace bub::detail
