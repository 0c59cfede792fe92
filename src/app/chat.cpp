#include <csignal>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/net/utf8.hpp>

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

namespace cubepi::app {

namespace {

void greet(const SessionPlan& session, const Style& style) {
    std::cout << style.bold() << "cubepi" << style.off() << " talks to " << session.model.where
              << ".";
    if (!session.name.empty()) std::cout << " Session: " << printable(session.name) << ".";
    std::cout << '\n'
              << style.dim() << "Ctrl-C stops an answer, Ctrl-D or /quit leaves, /help says more."
              << style.off() << "\n\n";
    for (const std::string& note : session.notes) std::cout << printable(note) << "\n\n";
}

void help(bool with_commands) {
    std::cout << "  /quit     leave (also Ctrl-D)\n"
                 "  /help     this\n"
                 "  Ctrl-C    stop the answer; at the prompt, twice: leave\n"
                 "  A pasted block of lines is one input. Tools that write, run commands or use "
                 "the network ask first.\n";
    if (with_commands) std::cout << "  ,help     commands of the pipeline: tools, tape, model\n";
}

/// The next thing that the person says; without a text at the end.
struct NextInput {
    std::optional<std::string> text = {};
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
                std::cout << style.dim() << "(Ctrl-C again leaves)" << style.off() << ' '
                          << std::flush;
            }
        });
        try {
            input.text = co_await cancel_on(leave.get_token(), editor.read("> "));
        } catch (...) {
            if (!leave.stop_requested()) throw;
        }
    }
    if (input.text && !is_utf8(*input.text)) input.text = replace_broken_utf8(*input.text);
    co_return input;
}

/// Prints how to resume, unless there is no terminal or reader any more. Returns `status`.
int leave(const SessionPlan& plan, int status) {
    if (status != 128 + SIGHUP && status != exit_closed_pipe) std::cerr << resume_hint(plan);
    return status;
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
        std::cerr << "cubepi: " << printable(text) << '\n';
    };
    Task<SessionPlan> planning = plan_session(line.conversation, std::move(parts));
    SessionPlan plan = co_await until_signal(std::move(planning));
    Pipeline pipeline(std::move(plan), std::move(around));
    greet(pipeline.plan(), screen.style());
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
        std::optional<std::string> input = std::move(next.text);
        if (!input || *input == "/quit" || *input == "/exit") break;
        if (input->find_first_not_of(" \t\r\n") == std::string::npos) continue;
        editor->remember(*input);
        if (*input == "/help") {
            help(terminal);
            continue;
        }
        // Only who sits at the terminal gives commands, not whoever wrote what is piped in (B11).
        bub::Envelope message = pipeline.message(std::move(*input), typed);
        status = co_await converse(pipeline, screen, std::move(message));
        if (status > 128 && status != exit_aborted) co_return leave(pipeline.plan(), status);
        std::cout << '\n';
    }
    std::cout << '\n';
    // At a terminal the failures were seen and answered; a script needs the status.
    co_return leave(pipeline.plan(), terminal ? exit_ok : status);
}

}  // namespace

int chat_command(const CommandLine& line) {
    return run(Console::possible() ? live_chat(line) : talk(line));
}

}  // namespace cubepi::app
