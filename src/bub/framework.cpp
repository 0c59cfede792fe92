#include <bub/framework.hpp>

#include <utility>

#include <bub/kernel/framework_impl.hpp>
#include <bub/kernel/turn.hpp>
#include <cubepi/core/outcome.hpp>

namespace bub {

using detail::all_results;
using detail::first_result;

// The turn, in source order. A stage that throws ends it; kernel/turn.cpp implements the default of each stage, for
// hooks that return nothing.
Task<> detail::Turn::run_stages() {
    trace.begin("resolve_session");
    result.session_id = co_await framework.resolve_session(inbound);
    inbound->session_id = result.session_id;
    trace.begin("load_state");
    co_await load_state();
    trace.begin("build_prompt");
    result.prompt = co_await framework.build_prompt(inbound, result.session_id, result.state);
    trace.begin("run_model");
    co_await run_model();
    trace.begin("render_outbound");
    co_await render_outbound();
    trace.begin("dispatch_outbound");
    co_await dispatch_outbound();
}

Task<TurnResult> Framework::process_inbound(std::shared_ptr<Envelope> inbound, bool stream_output) {
    detail::Turn turn(*this, *impl_, impl_->plugins(), inbound, stream_output);
    const cubepi::Outcome<> done = co_await cubepi::outcome_of(turn.run_stages());
    std::exception_ptr failure = done.failure();
    if (turn.is_cancelled_by(failure)) co_await cubepi::shield();
    if (turn.has_something_open()) failure = co_await turn.close(failure);
    turn.trace.end(turn.result, failure);
    if (!failure) co_return std::move(turn.result);
    if (!cubepi::is_cancellation(failure)) co_await notify_error("turn", failure, inbound);
    std::rethrow_exception(failure);
}

Task<TurnResult> Framework::process_inbound(Envelope inbound, bool stream_output) {
    return process_inbound(std::make_shared<Envelope>(std::move(inbound)), stream_output);
}

Task<std::string> Framework::resolve_session(std::shared_ptr<Envelope> inbound) {
    ResolveSessionCall call{*inbound};
    std::optional<std::string> id =
        co_await first_result(impl_->plugins(), &Plugin::resolve_session, call);
    if (id && !id->empty()) co_return std::move(*id);
    co_return inbound->channel.value_or("default") + ":" + inbound->chat_id.value_or("default");
}

Task<Prompt> Framework::build_prompt(std::shared_ptr<Envelope> message, std::string session_id,
                                     TurnState& state) {
    BuildPromptCall call{*message, session_id, state};
    std::optional<Prompt> prompt =
        co_await first_result(impl_->plugins(), &Plugin::build_prompt, call);
    if (prompt && !prompt->empty()) co_return std::move(*prompt);
    co_return Prompt(message->content_text());
}

Task<> Framework::dispatch_outbound(std::shared_ptr<Envelope> message) {
    DispatchOutboundCall call{*message};
    const auto ignore = [](const Plugin&, std::optional<bool>) {};
    co_await all_results(impl_->plugins(), &Plugin::dispatch_outbound, call, ignore);
}

Task<> Framework::dispatch_outbound(TurnOutput output) {
    DispatchOutboundCall call{output.message, output.index, output.count};
    const auto ignore = [](const Plugin&, std::optional<bool>) {};
    co_await all_results(impl_->plugins(), &Plugin::dispatch_outbound, call, ignore);
}

Task<> Framework::notify_error(std::string stage, std::exception_ptr error,
                               std::shared_ptr<Envelope> message) {
    impl_->options.runtime->log.write(cubepi::LogLevel::warning, "pipeline.error",
                                      {{"stage", stage}, {"error", cubepi::logged_error(error)}});
    OnErrorCall call{stage, error, message.get()};
    const detail::PluginList plugins = impl_->plugins();
    for (const auto& plugin : *plugins) {
        if (!plugin->on_error) continue;
        Task<Done> notifying = plugin->on_error(call);
        const auto notified = co_await cubepi::outcome_of(std::move(notifying));
        if (notified.cancelled()) notified.rethrow();
        if (notified) continue;
        impl_->warn("pipeline.on_error_failed",
                    {{"plugin", plugin->name},
                     {"stage", stage},
                     {"error", cubepi::logged_error(notified.failure())}},
                    "on_error of plugin " + plugin->name + " failed at stage " + stage + ": " +
                        describe(notified.failure()));
    }
}

}  // namespace bub
