#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/net/utf8.hpp>

#include "chat_actions.hpp"
#include "chat_commands.hpp"
#include "commands.hpp"
#include "config/paths.hpp"
#include "conversation.hpp"
#include "exit_code.hpp"
#include "live_chat.hpp"
#include "pipeline.hpp"
#include "session.hpp"
#include "terminal/console.hpp"
#include "terminal/line_editor.hpp"
#include "terminal/screen.hpp"
#include "terminal/terminal_stream.hpp"
#include "transcript.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t replayed_entries = 300;
constexpr std::size_t plain_rows = 16;

void greet(const SessionPlan& session, const Style& style) {
    out() << style.bold() << "cubepi" << style.off() << " talks to "
          << spelled_out(session.model.where) << ".";
    if (!session.name.empty()) out() << " Session: " << for_terminal(session.name) << ".";
    out() << "\n"
          << style.dim() << "Ctrl-C stops an answer, Ctrl-D or /quit leaves, /help says more."
          << style.off() << "\n\n";
    for (const std::string& note : session.notes) out() << for_terminal(note) << "\n\n";
}

/// The end of a resumed conversation, as it was shown.
Task<> show_end(Screen& screen, const SessionPlan& plan) {
    if (!plan.resumed || !screen.style().terminal) co_return;
    const MessageList messages = co_await read_end(plan.tapes, tape_of(plan), replayed_entries);
    Replay replay;
    replay.prompt = [&screen, first = true](const std::string& text) mutable {
        screen.pause();
        if (!std::exchange(first, false)) out() << "\n";
        out() << "> " << for_terminal(text) << "\n";
    };
    replay.answer = [&screen](const std::string& text) {
        screen.on_text(text);
        screen.pause();
    };
    replay.tool = [&screen](const AgentEvent& event) { screen.on_event(event); };
    const auto columns = static_cast<std::size_t>(screen.style().columns);
    (void)replay_end(messages, columns, plain_rows, replay);
    screen.pause();
    const std::string text = resumed_text(*plan.resumed, std::chrono::system_clock::now());
    out() << for_terminal(text) << "\n\n";
}

/// The next thing that the person says; without a text at the end.
struct NextInput {
    std::optional<std::string> text = {};
    bool pasted = false;
    int ended_by = 0;  ///< the signal that was the end; 0: none
};

Task<NextInput> next_input(LineEditor& editor, const Style& style) {
    bool asked_to_leave = false;
    NextInput input;
    std::stop_source leave;
    {
        const Executor executor = co_await this_executor;
        const SignalWatch watch(executor, [&](int signal) {
            if (signal != SIGINT) {
                input.ended_by = signal;
                leave.request_stop();
            } else if (editor.clear_line()) {
                asked_to_leave = false;
            } else if (std::exchange(asked_to_leave, true)) {
                leave.request_stop();
            } else {
                out() << style.dim() << "(Ctrl-C again leaves)" << style.off() << " " << flush_now;
            }
        });
        try {
            input.text =
                co_await cancel_on(leave.get_token(), editor.next_line(TerminalView("> ")));
        } catch (...) {
            if (!leave.stop_requested()) throw;
        }
    }
    input.pasted = editor.last_was_block();
    if (input.text && !is_utf8(*input.text)) input.text = replace_broken_utf8(*input.text);
    co_return input;
}

/// Prints how to resume, unless there is no terminal or reader any more. Returns `status`.
int leave(const SessionPlan& plan, int status) {
    if (status != 128 + SIGHUP && status != exit_closed_pipe)
        err() << for_terminal(resume_hint(plan));
    return status;
}

ChatActions::Parts action_parts(Screen& screen) {
    ChatActions::Parts parts;
    parts.print = [](const std::string& text) { out() << for_terminal(text) << flush_now; };
    parts.problem = [&screen](const std::string& text) {
        screen.pause();
        err() << "cubepi: " << for_terminal(text) << "\n";
    };
    return parts;
}

/// One input that is not the end. Returns the exit status so far; `status` is the one before.
Task<int> handle(Pipeline& pipeline, Screen& screen, NextInput next, bool terminal, int status) {
    const ChatAbilities abilities{.live = false, .trusted = terminal};
    ChatInput input = read_chat_input(*next.text, abilities);
    if (input.kind == ChatInput::Kind::nothing) co_return status;
    if (input.kind == ChatInput::Kind::refused) {
        err() << "cubepi: " << for_terminal(input.text) << "\n";
        co_return exit_usage;
    }
    if (input.kind == ChatInput::Kind::action) {
        if (input.action == ChatAction::help) out() << for_terminal(chat_help(abilities));
        ChatActions actions(pipeline, action_parts(screen));
        co_await actions.perform(input.action, std::move(input.text));
        co_return status;
    }
    // Commands come from the user at the terminal, not from piped text (B11).
    bub::Envelope message = pipeline.message(std::move(input.text), terminal);
    if (next.pasted) message.rest[bub::pasted_key] = true;
    status = co_await converse(pipeline, screen, std::move(message));
    out() << "\n";
    co_return status;
}

bool leaves(const std::string& input, bool terminal) {
    const ChatAbilities abilities{.live = false, .trusted = terminal};
    const ChatInput read = read_chat_input(input, abilities);
    return read.kind == ChatInput::Kind::action && read.action == ChatAction::quit;
}

Task<int> talk(CommandLine line) {
    const Executor executor = co_await this_executor;
    Screen screen(*Runtime::standard()->clock, executor);
    const bool terminal = isatty(STDIN_FILENO) == 1;
    auto editor =
        std::make_shared<LineEditor>(executor, terminal ? history_path() : std::filesystem::path());
    SessionParts parts;
    parts.style = screen.style();
    if (terminal) {
        parts.questions = std::make_shared<TurnQuestions>(editor, *Runtime::standard()->clock,
                                                          executor, [&screen] { screen.pause(); });
    }
    Pipeline::Parts around;
    around.plugins = line.plugins;
    around.on_warning = [&screen](const std::string& text) {
        screen.pause();
        err() << "cubepi: " << for_terminal(text) << "\n";
    };
    Task<SessionPlan> planning = plan_session(line.conversation, std::move(parts));
    SessionPlan plan = co_await until_signal(std::move(planning));
    Pipeline pipeline(std::move(plan), std::move(around));
    greet(pipeline.plan(), screen.style());
    co_await show_end(screen, pipeline.plan());
    int status = exit_ok;
    std::string first = prompt_of(line.words);
    for (;;) {
        NextInput next;
        bool typed = false;
        if (first.empty()) {
            next = co_await next_input(*editor, screen.style());
            typed = terminal;
        } else {
            next.text = std::exchange(first, {});
        }
        if (next.ended_by != 0) co_return leave(pipeline.plan(), 128 + next.ended_by);
        if (!next.text || leaves(*next.text, terminal)) break;
        if (next.text->find_first_not_of(" \t\r\n") == std::string::npos) continue;
        editor->remember(*next.text);
        status = co_await handle(pipeline, screen, std::move(next), typed, status);
        if (status > 128 && status != exit_aborted) co_return leave(pipeline.plan(), status);
    }
    out() << "\n";
    // At a terminal the failures were seen and answered; a script needs the status.
    co_return leave(pipeline.plan(), terminal ? exit_ok : status);
}

}  // namespace

int chat_command(const CommandLine& line) {
    return run(Console::possible() ? live_chat(line) : talk(line));
}

}  // namespace cubepi::app
