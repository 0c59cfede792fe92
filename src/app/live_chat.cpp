#include "live_chat.hpp"

#include <chrono>
#include <csignal>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <unistd.h>

#include <bub/channel/channel_manager.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>

#include "chat_actions.hpp"
#include "cli_channel.hpp"
#include "config/paths.hpp"
#include "conversation.hpp"
#include "exit_code.hpp"
#include "pipeline.hpp"
#include "session.hpp"
#include "terminal/chat_view.hpp"
#include "terminal/console.hpp"
#include "terminal/job_control.hpp"
#include "terminal/terminal_stream.hpp"
#include "transcript.hpp"

namespace cubepi::app {

namespace {

/// More than fit on any screen.
constexpr std::size_t replayed_entries = 300;

void greet(Console& console, const SessionPlan& plan) {
    const Style& style = console.style();
    TerminalText text =
        style.bold() + "cubepi" + style.off() + " talks to " + spelled_out(plan.model.where) + ".";
    if (!plan.name.empty()) text += " Session: " + spelled_out(plan.name) + ".";
    text += "\n" + style.dim() + "Esc stops an answer, Ctrl-D or /quit leaves, /help says more." +
            style.off() + "\n\n";
    for (const std::string& note : plan.notes) text += for_terminal(note) + "\n\n";
    console.print(text);
}

/// The end of a resumed conversation, as it was shown.
Task<> show_end(Console& console, ChatView& view, const SessionPlan& plan) {
    if (!plan.resumed) co_return;
    const MessageList messages = co_await read_end(plan.tapes, tape_of(plan), replayed_entries);
    Replay replay;
    replay.prompt = [&console, &view, first = true](const std::string& text) mutable {
        if (!std::exchange(first, false)) console.print("\n");
        view.echo(text);
    };
    replay.answer = [&view](const std::string& text) {
        view.add_text(text);
        view.end_text();
    };
    replay.tool = [&view](const AgentEvent& event) { view.on_event(event); };
    const std::size_t room = console.rows() > 14 ? console.rows() - 8 : 6;
    (void)replay_end(messages, console.columns(), room, replay);
    view.note(resumed_text(*plan.resumed, std::chrono::system_clock::now()));
    console.print("\n");
}

/// The pipeline with the console as its channel.
class LiveChat {
public:
    LiveChat(SessionPlan plan, const AddPlugins& plugins, std::shared_ptr<Console> console,
             ChatView& view)
        : console_(std::move(console)),
          view_(view),
          pipeline_(std::move(plan), parts(plugins)),
          actions_(pipeline_, action_parts()),
          manager_(pipeline_.framework(), manager_options()) {}
    LiveChat(const LiveChat&) = delete;
    LiveChat& operator=(const LiveChat&) = delete;

    /// `first`: a prompt that is said before any that is typed; empty: none.
    Task<> run(std::string first) {
        first_prompt_ = std::move(first);
        return manager_.run();
    }
    const SessionPlan& plan() const noexcept { return pipeline_.plan(); }

private:
    Pipeline::Parts parts(const AddPlugins& plugins) {
        Pipeline::Parts parts;
        parts.plugins = plugins;
        parts.on_warning = [this](const std::string& text) { view_.note(text); };
        parts.on_session = [this](const std::string& name) { view_.name_session(name); };
        parts.channels = [this](bub::ProvideChannelsCall& call) {
            std::vector<std::shared_ptr<bub::Channel>> channels;
            channels.push_back(make_channel(call.handler));
            return channels;
        };
        return parts;
    }

    ChatActions::Parts action_parts() {
        ChatActions::Parts parts;
        parts.print = [this](const std::string& text) {
            view_.end_text();
            console_->print(for_terminal(text));
        };
        parts.problem = [this](const std::string& text) { view_.problem("cubepi: " + text); };
        parts.write_control = [this](const TerminalText& sequence) {
            console_->write_control(sequence);
        };
        parts.on_new_session = [this] { view_.begin_session(pipeline_.plan().name); };
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
        parts.view = &view_;
        handler_ = std::move(handler);
        parts.handler = [this](bub::Envelope message) { return deliver(std::move(message)); };
        parts.first_prompt = std::move(first_prompt_);
        parts.message = [this](std::string text) {
            return pipeline_.message(std::move(text), true);
        };
        parts.new_id = [] { return Runtime::standard()->ids->next(); };
        parts.actions = &actions_;
        parts.abort = [this] { return manager_.abort_session(pipeline_.plan().session_id); };
        parts.leave = [this] { manager_.request_stop(); };
        parts.shown = [this](const bub::StreamEvent& event) { pipeline_.note_shown(event); };
        parts.explain = [this](const std::exception_ptr& failure) {
            return pipeline_.explain(failure).text;
        };
        return std::make_shared<CliChannel>(std::move(parts));
    }

    /// A session that cannot be created is reported; the prompt is in the history.
    Task<> deliver(bub::Envelope message) {
        std::exception_ptr failed;
        bub::Envelope addressed;
        try {
            addressed = co_await pipeline_.for_session(std::move(message));
        } catch (...) {
            failed = std::current_exception();
        }
        if (failed) {
            view_.problem("cubepi: " + pipeline_.explain(failed).text);
            std::rethrow_exception(failed);
        }
        co_await handler_(std::move(addressed));
    }

    std::shared_ptr<Console> console_;
    ChatView& view_;
    std::string first_prompt_;
    bub::MessageHandler handler_;
    Pipeline pipeline_;
    ChatActions actions_;
    bub::ChannelManager manager_;
};

Task<> stop_on_interrupt(std::shared_ptr<Console> console, std::stop_source stop) {
    co_await console->interrupted();
    stop.request_stop();
}

/// The plan, or a cancellation when the person does not want to wait for it.
Task<SessionPlan> plan_unless_interrupted(ConversationFlags flags, SessionParts parts,
                                          std::shared_ptr<Console> console) {
    const Executor executor = co_await this_executor;
    std::stop_source stop;
    BackgroundScope keys(executor);
    keys.spawn(stop_on_interrupt(console, stop));
    std::optional<SessionPlan> plan;
    std::exception_ptr failure;
    try {
        plan =
            co_await cancel_on(stop.get_token(), plan_session(std::move(flags), std::move(parts)));
    } catch (...) {
        failure = std::current_exception();
    }
    co_await shield();
    co_await keys.close();
    co_await unshield();
    if (failure && console->ended_by() != 0) throw EndedBySignal(console->ended_by());
    if (failure) std::rethrow_exception(failure);
    co_return std::move(*plan);
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
    ChatView view(*console, clock, executor);
    SessionParts parts;
    parts.style = console->style();
    parts.questions =
        std::make_shared<TurnQuestions>(console, clock, executor, [&view] { view.end_text(); });
    view.leave_out([questions = parts.questions] { return questions->waited(); });
    SessionPlan plan =
        co_await plan_unless_interrupted(line.conversation, std::move(parts), console);
    greet(*console, plan);
    co_await show_end(*console, view, plan);
    view.introduce(plan.model.model.spec().id, plan.name, shown_spec(plan.model));
    plan.models->on_change([&view](const ModelChoice& model) {
        view.show_model(model.model.spec().id, shown_spec(model));
    });
    std::string hint;
    {
        LiveChat chat(std::move(plan), line.plugins, console, view);
        co_await chat.run(prompt_of(line.words));
        hint = resume_hint(chat.plan());
    }
    console->close();
    const int signal = console->ended_by();
    if (signal != SIGHUP)
        out() << for_terminal(hint) << flush_now;  // else there is no terminal to print to
    co_return signal == 0 ? exit_ok : 128 + signal;
}

}  // namespace cubepi::app
