#include <chrono>
#include <utility>

#include <bub/framework.hpp>
#include <bub/kernel/framework_impl.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/provider/message_assembler.hpp>
#include <cubepi/provider/stream_from.hpp>

namespace bub {

namespace {

/// The plugins' interception hooks as one middleware of the agent (D44): the newest plugin is asked first, and the next
/// one sees its changes. A hook that throws is reported and skipped; an exception never vetoes a call.
class Interception : public std::enable_shared_from_this<Interception> {
public:
    Interception(detail::PluginList plugins, std::string session_id, TurnState& state,
                 std::shared_ptr<cubepi::Clock> clock, WarningHandler warn)
        : plugins_(std::move(plugins)),
          session_id_(std::move(session_id)),
          state_(state),
          clock_(std::move(clock)),
          warn_(std::move(warn)) {}

    Task<cubepi::MessageStream> around_model_call(cubepi::ModelRequest request,
                                                  cubepi::ModelCallNext next);
    Task<std::optional<cubepi::BeforeToolCallResult>> before_tool_call(
        cubepi::BeforeToolCallContext& call);
    Task<std::optional<cubepi::AfterToolCallResult>> after_tool_call(
        cubepi::AfterToolCallContext& call);

    Task<> after_llm_call(cubepi::ModelRequest request, cubepi::AssistantMessage result,
                          std::chrono::nanoseconds duration);
    cubepi::Clock& clock() const noexcept { return *clock_; }
    bool observes_results() const noexcept {
        for (const auto& plugin : *plugins_) {
            if (plugin->after_llm_call) return true;
        }
        return false;
    }

private:
    template <class R, class Call>
    Task<R> ask(const Plugin& plugin, const Hook<R(Call)>& hook, Call call, std::string_view name) {
        Task<R> asking = hook(call);
        cubepi::Outcome<R> answer = co_await cubepi::outcome_of(std::move(asking));
        if (answer.cancelled()) answer.rethrow();
        if (answer) co_return std::move(answer).value();
        if (warn_) {
            warn_(std::string(name) + " of plugin " + plugin.name +
                  " failed: " + describe(answer.failure()));
        }
        co_return R();
    }

    detail::PluginList plugins_;
    std::string session_id_;
    TurnState& state_;
    std::shared_ptr<cubepi::Clock> clock_;
    WarningHandler warn_;
};

/// A stream that forwards an answer and reports its end to after_llm_call before the agent sees it. A call that is
/// cancelled or dropped has no end.
class ObservedSource final : public cubepi::StreamSource {
public:
    ObservedSource(cubepi::MessageStream stream, std::shared_ptr<Interception> observer,
                   cubepi::ModelRequest request)
        : stream_(std::move(stream)),
          observer_(std::move(observer)),
          request_(std::move(request)),
          begun_(observer_->clock().now()) {}

    Task<cubepi::StreamEvent> next() override {
        std::optional<cubepi::StreamEvent> event = std::exchange(held_, std::nullopt);
        if (!event) event = co_await stream_.next();
        if (!event) cubepi::throw_cancelled();
        if (event->is_terminal()) {
            cubepi::AssistantMessage message = event->partial.get();
            const std::chrono::nanoseconds took = observer_->clock().now() - begun_;
            if (message.stop_reason != cubepi::stop_reason::aborted) {
                co_await observer_->after_llm_call(request_, std::move(message), took);
            }
        }
        co_return std::move(*event);
    }

    std::optional<cubepi::StreamEvent> ready() override {
        if (held_) return std::nullopt;
        std::optional<cubepi::StreamEvent> event = stream_.ready();
        if (event && event->is_terminal()) held_ = std::exchange(event, std::nullopt);
        return event;
    }

private:
    cubepi::MessageStream stream_;
    std::shared_ptr<Interception> observer_;
    cubepi::ModelRequest request_;
    cubepi::Clock::time_point begun_;
    std::optional<cubepi::StreamEvent> held_;
};

Task<> write_text(cubepi::StreamWriter& out, std::string text) { co_await out.text(text); }

cubepi::MessageStream answer_with(cubepi::ModelRequest request, std::string text) {
    std::function<Task<>(cubepi::StreamWriter&)> write =
        [text = std::move(text)](cubepi::StreamWriter& out) { return write_text(out, text); };
    return cubepi::stream_from(std::move(request), std::move(write));
}

Task<cubepi::MessageStream> Interception::around_model_call(cubepi::ModelRequest request,
                                                            cubepi::ModelCallNext next) {
    for (const auto& plugin : *plugins_) {
        if (!plugin->before_llm_call) continue;
        BeforeLlmCall call{request, session_id_, state_};
        std::optional<std::string> text =
            co_await ask(*plugin, plugin->before_llm_call, call, "before_llm_call");
        if (text) co_return answer_with(std::move(request), std::move(*text));
    }
    if (!observes_results()) co_return co_await next(std::move(request));
    auto self = shared_from_this();
    cubepi::ModelRequest asked = request;
    cubepi::MessageStream stream = co_await next(std::move(request));
    co_return cubepi::MessageStream(
        std::make_unique<ObservedSource>(std::move(stream), std::move(self), std::move(asked)));
}

Task<> Interception::after_llm_call(cubepi::ModelRequest request, cubepi::AssistantMessage result,
                                    std::chrono::nanoseconds duration) {
    for (const auto& plugin : *plugins_) {
        if (!plugin->after_llm_call) continue;
        AfterLlmCall call{request, result, duration, session_id_, state_};
        (void)co_await ask(*plugin, plugin->after_llm_call, call, "after_llm_call");
    }
}

Task<std::optional<cubepi::BeforeToolCallResult>> Interception::before_tool_call(
    cubepi::BeforeToolCallContext& call) {
    std::optional<cubepi::BeforeToolCallResult> edits;
    for (const auto& plugin : *plugins_) {
        if (!plugin->before_tool_call) continue;
        BeforeToolCall given{call, session_id_, state_};
        std::optional<cubepi::BeforeToolCallResult> result =
            co_await ask(*plugin, plugin->before_tool_call, given, "before_tool_call");
        if (!result) continue;
        if (result->block || result->result) co_return result;
        if (result->edited_args) {
            call.args = *result->edited_args;
            edits = std::move(result);
        }
    }
    co_return edits;
}

Task<std::optional<cubepi::AfterToolCallResult>> Interception::after_tool_call(
    cubepi::AfterToolCallContext& call) {
    std::optional<cubepi::AfterToolCallResult> merged;
    for (const auto& plugin : *plugins_) {
        if (!plugin->after_tool_call) continue;
        AfterToolCall given{call, session_id_, state_};
        std::optional<cubepi::AfterToolCallResult> result =
            co_await ask(*plugin, plugin->after_tool_call, given, "after_tool_call");
        if (!result) continue;
        if (!merged) merged.emplace();
        // Merged field by field (D11); later hooks see the results of earlier ones.
        if (result->content) call.result.content = *(merged->content = std::move(result->content));
        if (result->details) call.result.details = *(merged->details = std::move(result->details));
        if (result->terminate) merged->terminate = result->terminate;
        if (result->is_error) call.is_error = *(merged->is_error = result->is_error);
    }
    co_return merged;
}

}  // namespace

std::vector<cubepi::Middleware> Framework::interception(std::string session_id,
                                                        TurnState& state) const {
    detail::PluginList plugins = impl_->plugins();
    bool wanted = false;
    for (const auto& plugin : *plugins) {
        wanted = wanted || plugin->before_llm_call || plugin->after_llm_call ||
                 plugin->before_tool_call || plugin->after_tool_call;
    }
    std::vector<cubepi::Middleware> made;
    if (!wanted) return made;
    auto shared =
        std::make_shared<Interception>(std::move(plugins), std::move(session_id), state,
                                       impl_->options.runtime->clock, impl_->options.on_warning);
    made.emplace_back(std::move(shared));
    return made;
}

}  // namespace bub
