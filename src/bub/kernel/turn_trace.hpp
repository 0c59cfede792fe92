#pragma once

#include <exception>
#include <memory>
#include <string_view>

#include <cubepi/tracing/active_span.hpp>

#include <bub/framework.hpp>
#include <bub/turn_span.hpp>

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

}  // namespace bub::detail
