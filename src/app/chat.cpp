#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/net/utf8.hpp>

#include "chat_commands.hpp"
#include "commands.hpp"
#include "config/paths.hpp"
#include "conversation/conversation.hpp"
#include "conversation/live_chat.hpp"
#include "conversation/session.hpp"
#include "exit_code.hpp"
#include "render/plain_renderer.hpp"
#include "signals.hpp"
#include "terminal/console.hpp"
#include "terminal/line_editor.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

/// The next input of the user; without a text at its end.
struct NextInput {
    std::optional<std::string> text = {};
    bool pasted = false;
    int ended_by = 0;  ///< the signal that ended the input; 0: none
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

/// Prints how to resume, unless the terminal or the reader is gone. Returns `status`.
int leave(const SessionPlan& plan, int status) {
    if (status != 128 + SIGHUP && status != exit_closed_pipe)
        err() << for_terminal(resume_hint(plan));
    return status;
}

/// Handles one input that is not the end. Returns the exit status so far; `status` is the one before.
Task<int> handle(Conversation& conversation, Renderer& renderer, NextInput next, bool trusted,
                 int status) {
    const ChatAbilities abilities{.live = false, .trusted = trusted};
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
    bub::Envelope message = conversation.pipeline().message(std::move(input.text), trusted);
    if (next.pasted) message.rest[bub::pasted_key] = true;
    status = co_await conversation.run_turn(std::move(message));
    out() << "\n";
    co_return status;
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
Task<int> answer_inputs(Conversation& conversation, Renderer& renderer, LineEditor& editor,
                        std::string first) {
    const bool terminal = isatty(STDIN_FILENO) == 1;
    int status = exit_ok;
    if (terminal) status = co_await ask_open_questions(conversation, status);
    for (;;) {
        NextInput next;
        bool typed = false;
        if (first.empty()) {
            next = co_await next_input(editor, renderer.style());
            typed = terminal;
        } else {
            next.text = std::exchange(first, {});
        }
        if (next.ended_by != 0) co_return 128 + next.ended_by;
        if (!next.text || leaves(*next.text, terminal)) break;
        if (next.text->find_first_not_of(" \t\r\n") == std::string::npos) continue;
        editor.remember(*next.text);
        status = co_await handle(conversation, renderer, std::move(next), typed, status);
        if (status > 128 && status != exit_aborted) co_return status;
    }
    out() << "\n";
    // At a terminal the user has seen the failures; a script needs the status.
    co_return terminal ? exit_ok : status;
}

/// `cubepi chat` without a live prompt: one input after another.
Task<int> plain_chat(CommandLine line) {
    const Executor executor = co_await this_executor;
    PlainRenderer renderer(*Runtime::standard()->clock, executor, PlainRenderer::Opening::greeting);
    const bool terminal = isatty(STDIN_FILENO) == 1;
    auto editor =
        std::make_shared<LineEditor>(executor, terminal ? history_path() : std::filesystem::path());
    const std::shared_ptr<Prompter> prompter = terminal ? editor : nullptr;
    Task<SessionPlan> planning =
        plan_session(line.conversation, session_parts(renderer, prompter, executor));
    SessionPlan plan = co_await until_signal(std::move(planning));
    Conversation::Parts parts;
    parts.plugins = line.plugins;
    Conversation conversation(std::move(plan), renderer, std::move(parts));
    co_await conversation.begin();
    std::string first = prompt_of(line.words);
    const int status = co_await answer_inputs(conversation, renderer, *editor, std::move(first));
    co_return leave(conversation.plan(), status);
}

}  // namespace

int chat_command(const CommandLine& line) {
    return run(Console::possible() ? live_chat(line) : plain_chat(line));
}

}  // namespace cubepi::app
