#include "live_chat.hpp"

#include <csignal>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <unistd.h>

#include <bub/channel/channel_manager.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>

#include "../config/paths.hpp"
#include "../exit_code.hpp"
#include "../render/live_renderer.hpp"
#include "../signals.hpp"
#include "../terminal/console.hpp"
#include "../terminal/job_control.hpp"
#include "../terminal/terminal_stream.hpp"
#include "cli_channel.hpp"
#include "conversation.hpp"
#include "session.hpp"

namespace cubepi::app {

namespace {

/// A conversation whose turns are run by a channel manager; the console is its channel.
class LiveChat {
public:
    LiveChat(SessionPlan plan, const AddPlugins& plugins, std::shared_ptr<Console> console,
             LiveRenderer& renderer)
        : console_(std::move(console)),
          renderer_(renderer),
          conversation_(std::move(plan), renderer, conversation_parts(plugins)),
          manager_(conversation_.pipeline().framework(), manager_options()) {}
    LiveChat(const LiveChat&) = delete;
    LiveChat& operator=(const LiveChat&) = delete;

    /// `first_prompt` precedes the first typed prompt; empty: none.
    Task<> run(std::string first_prompt) {
        first_prompt_ = std::move(first_prompt);
        co_await conversation_.begin();
        co_await conversation_.answer_requests_during(manager_.run());
    }
    const SessionPlan& plan() const noexcept { return conversation_.plan(); }

private:
    Conversation::Parts conversation_parts(const AddPlugins& plugins) {
        Conversation::Parts parts;
        parts.plugins = plugins;
        parts.channels = [this](bub::ProvideChannelsCall& call) {
            std::vector<std::shared_ptr<bub::Channel>> channels;
            channels.push_back(make_channel(call.handler));
            return channels;
        };
        return parts;
    }

    bub::ChannelManagerOptions manager_options() {
        bub::ChannelManagerOptions options;
        options.channels = {"cli"};
        options.stream_output = true;
        return options;
    }

    std::shared_ptr<bub::Channel> make_channel(bub::MessageHandler handler) {
        CliChannel::Parts parts;
        parts.console = console_;
        parts.view = &renderer_.view();
        parts.conversation = &conversation_;
        handler_ = std::move(handler);
        parts.handler = [this](bub::Envelope message) { return deliver(std::move(message)); };
        parts.first_prompt = std::move(first_prompt_);
        parts.new_id = [] { return Runtime::standard()->ids->next(); };
        parts.abort = [this] { return manager_.abort_session(plan().session_id); };
        parts.leave = [this] { manager_.request_stop(); };
        return std::make_shared<CliChannel>(std::move(parts));
    }

    /// Reports a session that cannot be created. Its prompt remains in the history.
    Task<> deliver(bub::Envelope message) {
        Outcome<bub::Envelope> addressed =
            co_await outcome_of(conversation_.pipeline().for_session(std::move(message)));
        if (!addressed) conversation_.report(addressed.failure());
        co_await handler_(std::move(addressed).value());
    }

    std::shared_ptr<Console> console_;
    LiveRenderer& renderer_;
    std::string first_prompt_;
    bub::MessageHandler handler_;
    Conversation conversation_;
    bub::ChannelManager manager_;
};

Task<> stop_on_interrupt(std::shared_ptr<Console> console, std::stop_source stop) {
    co_await console->interrupted();
    stop.request_stop();
}

/// Returns the plan; nothing if the user leaves. Throws a cancellation if the user interrupts.
Task<std::optional<SessionPlan>> plan_unless_interrupted(ConversationFlags flags,
                                                         SessionParts parts,
                                                         std::shared_ptr<Console> console) {
    const Executor executor = co_await this_executor;
    std::stop_source stop;
    BackgroundScope keys(executor);
    keys.spawn(stop_on_interrupt(console, stop));
    Task<SessionPlan> planning = plan_session(std::move(flags), std::move(parts));
    Task<SessionPlan> work = cancel_on(stop.get_token(), std::move(planning));
    Outcome<SessionPlan> plan = co_await outcome_of(std::move(work));
    co_await shield();
    co_await keys.close();
    co_await unshield();
    if (!plan && console->ended_by() != 0) throw EndedBySignal(console->ended_by());
    std::optional<SessionPlan> made;
    if (plan || !plan.cancelled() || !console->has_end()) made = std::move(plan).value();
    co_return made;
}

}  // namespace

Task<int> live_chat(CommandLine line) {
    const Executor executor = co_await this_executor;
    Clock& clock = *Runtime::standard()->clock;
    Task<bool> ready = wait_for_foreground(STDIN_FILENO);
    const bool foreground = co_await until_signal(std::move(ready));
    if (!foreground) {
        throw Error(ErrorCode::invalid_state,
                    "the terminal belongs to another job, and no shell can continue this one");
    }
    auto console = std::make_shared<Console>(executor, clock, history_path());
    LiveRenderer renderer(console, clock, executor);
    SessionParts parts = session_parts(renderer, console, executor);
    std::optional<SessionPlan> plan =
        co_await plan_unless_interrupted(line.conversation, std::move(parts), console);
    if (!plan) {
        console->close();
        co_return exit_ok;
    }
    std::string hint;
    {
        LiveChat chat(std::move(*plan), line.plugins, console, renderer);
        co_await chat.run(prompt_of(line.words));
        hint = resume_hint(chat.plan());
    }
    console->close();
    const int signal = console->ended_by();
    // After SIGHUP there is no terminal to print to.
    if (signal != SIGHUP) out() << for_terminal(hint) << flush_now;
    co_return signal == 0 ? exit_ok : 128 + signal;
}

}  // namespace cubepi::app
