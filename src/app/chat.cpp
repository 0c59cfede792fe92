#include <csignal>
#include <exception>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <unistd.h>

#include <bub/channel/channel_manager.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/utf8.hpp>

#include "chat_commands.hpp"
#include "command_line.hpp"
#include "config/model_sources.hpp"
#include "config/paths.hpp"
#include "conversation/attachments.hpp"
#include "conversation/cli_channel.hpp"
#include "conversation/conversation.hpp"
#include "conversation/session.hpp"
#include "failure.hpp"
#include "mcp/mcp_offers.hpp"
#include "process.hpp"
#include "program.hpp"
#include "render/renderers.hpp"
#include "terminal/console.hpp"
#include "terminal/job_control.hpp"
#include "terminal/prompter.hpp"
#include "terminal/session_picker.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

/// The next input of the user; without a text at its end.
struct NextInput {
    std::optional<std::string> text = {};
    bool pasted = false;
    bool names_resources = false;  ///< typed by the user, or on the command line
    int ended_by = 0;              ///< the signal that ended the input; 0: none
};

Task<NextInput> next_input(LinePrompter& prompter, const Style& style) {
    bool asked_to_leave = false;
    NextInput input;
    std::stop_source leave;
    {
        const Executor executor = co_await this_executor;
        const SignalWatch watch(executor, [&](int signal) {
            if (signal != SIGINT) {
                input.ended_by = signal;
                leave.request_stop();
            } else if (std::exchange(asked_to_leave, true)) {
                leave.request_stop();
            } else {
                prompter.show_again();
                out() << style.dim() << "(Ctrl-C again leaves)" << style.off() << " " << flush_now;
            }
        });
        try {
            TerminalText prompt;
            if (isatty(STDIN_FILENO) == 1) prompt = TerminalView("> ");
            Task<std::optional<std::string>> reading = prompter.next_input(std::move(prompt));
            input.text = co_await cancel_on(leave.get_token(), std::move(reading));
        } catch (...) {
            if (!leave.stop_requested()) throw;
        }
    }
    input.pasted = prompter.last_was_block();
    if (input.text && !is_utf8(*input.text)) input.text = replace_broken_utf8(*input.text);
    co_return input;
}

/// Prints how to resume, unless the terminal or the reader is gone. Returns `status`.
int leave(const SessionPlan& plan, int status) {
    if (status != 128 + SIGHUP && status != exit_closed_pipe)
        err() << for_terminal(resume_hint(plan));
    return status;
}

/// Handles one input that is not the end. Returns the exit status so far; `status` is the one before. A prompt takes the pictures.
Task<int> handle(Conversation& conversation, Renderer& renderer, NextInput next,
                 ChatAbilities abilities, Attachments& pictures, int status) {
    ChatInput input = read_chat_input(*next.text, abilities);
    if (input.kind == ChatInput::Kind::nothing) co_return status;
    if (input.kind == ChatInput::Kind::refused) {
        renderer.problem(input.text);
        co_return exit_usage;
    }
    if (input.kind == ChatInput::Kind::action) {
        co_await conversation.perform(input.action, std::move(input.text), abilities);
        co_return status;
    }
    // Commands come from the user at the terminal, not from piped text (B11).
    if (input.is_aside) {
        Task<bool> asking = conversation.ask_aside(std::move(input.text), nullptr);
        const bool answered = co_await until_signal(std::move(asking));
        co_return answered ? exit_ok : exit_failed;
    }
    // The text of a template is never a command.
    const bool from_operator = abilities.trusted && !input.argument;
    Attachments attached;
    if (input.kind == ChatInput::Kind::prompt && next.names_resources) {
        Task<Attachments> reading = attach_mcp_resources(
            Attachments(), input.argument.value_or(input.text), conversation.plan().servers);
        attached = co_await until_signal(std::move(reading));
        if (!attached.remark.empty()) renderer.note("Attached: " + attached.remark);
    }
    input.text += attached.text;
    bub::Envelope message = conversation.pipeline().message(std::move(input.text), from_operator);
    if (next.pasted) message.rest[bub::pasted_key] = true;
    if (input.kind == ChatInput::Kind::prompt) {
        message.media = std::exchange(pictures, {}).media;
        message.media.insert(message.media.end(), attached.media.begin(), attached.media.end());
    }
    for (;;) {
        status = co_await conversation.run_turn(std::move(message));
        out() << "\n";
        if (input.kind != ChatInput::Kind::prompt || status != exit_ok) co_return status;
        std::optional<std::string> carry_out =
            co_await until_signal(conversation.ask_to_carry_out());
        if (!carry_out) co_return status;
        message = conversation.pipeline().message(std::move(*carry_out), false);
    }
}

bool leaves(const std::string& input, bool terminal) {
    const ChatAbilities abilities{.live = false, .trusted = terminal};
    const ChatInput read = read_chat_input(input, abilities);
    return read.kind == ChatInput::Kind::action && read.action == ChatAction::quit;
}

/// Asks the questions of a suspended session, each answer of which continues its run, until nothing waits or the user does
/// not answer. Returns the exit status so far; `status` is the one before.
Task<int> ask_open_questions(Conversation& conversation, int status) {
    for (;;) {
        std::optional<bub::Envelope> answer =
            co_await until_signal(conversation.ask_open_question());
        if (!answer) break;
        status = co_await conversation.run_turn(std::move(*answer));
        out() << "\n";
    }
    if (conversation.waits_for_answer()) co_await conversation.show_open_questions();
    co_return status;
}

/// Reads and answers inputs until the input ends. Returns the exit status.
Task<int> answer_inputs(Conversation& conversation, Renderer& renderer, LinePrompter& prompter,
                        std::string first, Attachments pictures) {
    const bool terminal = isatty(STDIN_FILENO) == 1;
    int status = exit_ok;
    PromptTemplates templates;
    if (terminal) templates = load_templates(conversation.plan().project.prompts);
    if (terminal) status = co_await ask_open_questions(conversation, status);
    for (;;) {
        NextInput next;
        bool typed = false;
        if (first.empty()) {
            next = co_await next_input(prompter, renderer.style());
            typed = terminal;
            next.names_resources = terminal && !next.pasted;
        } else {
            next.text = std::exchange(first, {});
            next.names_resources = true;
        }
        if (next.ended_by != 0) co_return 128 + next.ended_by;
        if (!next.text || leaves(*next.text, terminal)) break;
        if (next.text->find_first_not_of(" \t\r\n") == std::string::npos) continue;
        prompter.remember(*next.text);
        const ChatAbilities abilities{.live = false, .trusted = typed, .templates = &templates};
        status =
            co_await handle(conversation, renderer, std::move(next), abilities, pictures, status);
        if (status > 128 && status != exit_aborted) co_return status;
    }
    out() << "\n";
    // At a terminal the user has seen the failures; a script needs the status.
    co_return terminal ? exit_ok : status;
}

/// The session of `cubepi resume`: the one that is named, or picked, maybe in another directory. False: none was picked.
Task<bool> choose_session(CommandLine& line, std::shared_ptr<Console> console) {
    const SavedSessions saved = SavedSessions::here();
    std::string& session = line.conversation.session;
    if (!line.sessions.name.empty()) {
        Task<std::string> finding = find_session_named(saved, line.sessions.name);
        if (!console) {
            session = co_await std::move(finding);
            co_return true;
        }
        std::optional<std::string> found = co_await unless_interrupted(console, std::move(finding));
        if (found) session = std::move(*found);
        co_return found.has_value();
    }
    if (!console) {
        throw Error(ErrorCode::invalid_argument,
                    "picking a session needs a terminal; name it: cubepi resume NAME\n"
                    "  To list the names: cubepi sessions list");
    }
    const std::optional<ListedSession> picked = co_await pick_session(console, saved, line.all);
    if (!picked) co_return false;
    if (!picked->is_here) {
        line.conversation.directory = picked->workspace;
        enter_directory(line);
    }
    session = picked->name;
    co_return true;
}

constexpr const char* background_note =
    "it ends when the user leaves this chat or begins a new session";

/// `cubepi chat` without a live prompt: one input after another.
Task<int> chat_by_lines(CommandLine line) {
    const Executor executor = co_await this_executor;
    Attachments pictures = attach_pictures(line.run.images);
    if (line.sessions.resume) {
        Task<bool> choosing = choose_session(line, nullptr);
        (void)co_await until_signal(std::move(choosing));
    }
    const bool terminal = isatty(STDIN_FILENO) == 1;
    // The greeting names keys; the output of a script is its answers.
    using Opening = PlainRenderer::Opening;
    PlainRenderer renderer(*Runtime::standard()->clock, executor,
                           terminal ? Opening::greeting : Opening::notes);
    auto lines = std::make_shared<LinePrompter>(
        executor, terminal ? history_path() : std::filesystem::path());
    const std::shared_ptr<Prompter> prompter = terminal ? lines : nullptr;
    SessionParts session = session_parts(renderer, prompter, executor);
    session.asks_for_trust = true;
    Task<SessionPlan> planning = plan_session(line.conversation, std::move(session));
    SessionPlan plan = co_await until_signal(std::move(planning));
    plan.shell.background_note = background_note;
    plan.in_chat = terminal;
    Conversation::Parts parts;
    parts.plugins = line.plugins;
    Conversation conversation(std::move(plan), renderer, std::move(parts));
    co_await conversation.begin();
    std::string first = prompt_of(line.words);
    Task<int> answering =
        answer_inputs(conversation, renderer, *lines, std::move(first), std::move(pictures));
    const int status = co_await with_cleanup(std::move(answering), conversation.pipeline().close());
    co_return leave(conversation.plan(), status);
}

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

    /// `first_prompt` precedes the first typed prompt; empty: none. `pictures` go with the first of both.
    Task<> run(std::string first_prompt, Attachments pictures) {
        first_prompt_ = std::move(first_prompt);
        pictures_ = std::move(pictures);
        co_await conversation_.begin();
        co_await conversation_.answer_requests_during(manager_.run());
    }
    const SessionPlan& plan() const noexcept { return conversation_.plan(); }
    /// The name of the session that the user wants instead of this one; empty: the user has left.
    const std::string& next_session() const noexcept { return next_session_; }
    /// The pictures that no prompt has taken.
    Attachments take_pictures() { return channel_ ? channel_->take_pictures() : Attachments(); }

private:
    Conversation::Parts conversation_parts(const AddPlugins& plugins) {
        Conversation::Parts parts;
        parts.plugins = plugins;
        parts.on_tasks = [this] { renderer_.view().set_tasks(conversation_.pipeline().tasks()); };
        parts.deliver_results = [this](bub::Envelope message) {
            if (channel_) channel_->receive_results(std::move(message));
        };
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
        parts.pictures = std::move(pictures_);
        parts.new_id = [] { return Runtime::standard()->ids->next(); };
        parts.abort = [this] { return manager_.abort_session(plan().session_id); };
        parts.switch_to = [this](std::string name) {
            next_session_ = std::move(name);
            manager_.request_stop();
        };
        parts.leave = [this] { manager_.request_stop(); };
        channel_ = std::make_shared<CliChannel>(std::move(parts));
        return channel_;
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
    Attachments pictures_;
    std::string next_session_;
    bub::MessageHandler handler_;
    std::shared_ptr<CliChannel> channel_;  ///< null before the manager asks for it
    Conversation conversation_;
    bub::ChannelManager manager_;
};

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

/// One session of a live chat. Returns the name of the session that follows; empty: the user has left.
struct SessionEnd {
    std::string next = {};
    std::string name = {};      ///< of this one; empty: it is not saved
    std::string hint = {};      ///< how to resume this one
    Attachments pictures = {};  ///< for the first prompt of the session that follows
};

Task<SessionEnd> run_session(CommandLine line, std::shared_ptr<Console> console,
                             Attachments pictures) {
    const Executor executor = co_await this_executor;
    Clock& clock = *Runtime::standard()->clock;
    LiveRenderer renderer(console, clock, executor);
    SessionParts parts = session_parts(renderer, console, executor);
    parts.asks_for_trust = true;
    parts.show_work = [&renderer](const std::string& what) {
        renderer.view().show_work(what.empty() ? TerminalText()
                                               : for_terminal(what + "; Esc stops"));
    };
    std::optional<SessionPlan> plan =
        co_await plan_unless_interrupted(line.conversation, std::move(parts), console);
    SessionEnd end;
    if (!plan) co_return end;
    plan->shell.background_note = background_note;
    plan->in_chat = true;
    LiveChat chat(std::move(*plan), line.plugins, console, renderer);
    co_await chat.run(prompt_of(line.words), std::move(pictures));
    end.next = chat.next_session();
    end.name = chat.plan().name;
    end.hint = resume_hint(chat.plan());
    end.pictures = chat.take_pictures();
    co_return end;
}

/// `cubepi chat` at a terminal: the prompt stays usable while an answer arrives. Returns the exit status.
Task<int> live_chat(CommandLine line) {
    const Executor executor = co_await this_executor;
    Clock& clock = *Runtime::standard()->clock;
    Task<bool> ready = wait_for_foreground(STDIN_FILENO);
    const bool foreground = co_await until_signal(std::move(ready));
    if (!foreground) {
        throw Error(ErrorCode::invalid_state,
                    "the terminal belongs to another job, and no shell can continue this one");
    }
    Attachments pictures = attach_pictures(line.run.images);
    auto console = std::make_shared<Console>(executor, clock, history_path());
    bool chosen = true;
    if (line.sessions.resume) chosen = co_await choose_session(line, console);
    SessionEnd end;
    std::optional<ConversationFlags> before;  // of the session that the user has left for this one
    while (chosen) {
        Task<SessionEnd> running = run_session(line, console, pictures);
        Outcome<SessionEnd> ran = co_await outcome_of(std::move(running));
        line.words.clear();
        if (!ran && before && !ran.cancelled() && !console->has_end()) {
            console->print(for_terminal(visible("! " + explain(ran.failure()).text)) + "\n");
            line.conversation = *std::exchange(before, {});
            continue;
        }
        end = std::move(ran).value();
        pictures = std::exchange(end.pictures, {});
        if (end.next.empty()) break;
        console->print(for_terminal(end.hint) + "\n");
        // A chat that had no name may have one now.
        line.conversation.session = std::move(end.name);
        line.conversation.continue_last = false;
        before = line.conversation;
        line.conversation.session = std::move(end.next);
        line.conversation.no_save = false;
    }
    console->close();
    const int signal = console->ended_by();
    // After SIGHUP there is no terminal to print to.
    if (signal != SIGHUP) out() << for_terminal(end.hint) << flush_now;
    co_return signal == 0 ? exit_ok : 128 + signal;
}

}  // namespace

int chat_command(const CommandLine& line) {
    if (!Console::possible()) return run(chat_by_lines(line));
    std::string reason;
    try {
        return run(live_chat(line));
    } catch (const NoConfiguredModel&) {
        reason = explain(std::current_exception()).text;
    }
    const int status = offer_onboarding(line, reason);
    return status == exit_ok ? run(live_chat(line)) : status;
}

}  // namespace cubepi::app
