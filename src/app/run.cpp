#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

#include <cubepi/core/run.hpp>

#include "commands.hpp"
#include "conversation.hpp"
#include "exit_code.hpp"
#include "json_lines.hpp"
#include "pipeline.hpp"
#include "session.hpp"
#include "standard_input.hpp"
#include "terminal/line_editor.hpp"
#include "terminal/screen.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

std::string prompt_with_input(const CommandLine& line) {
    std::string prompt = prompt_of(line.words);
    const std::string piped = piped_input(line.input_limit);
    if (!piped.empty()) prompt += (prompt.empty() ? "" : "\n\n") + piped;
    return prompt;
}

Task<int> run_as_json(Pipeline& pipeline, bub::Envelope message) {
    const Executor executor = co_await this_executor;
    const TurnSignals signals(executor, pipeline);
    JsonLines lines(pipeline);
    Pipeline::Show show = [&lines](const bub::StreamEvent& event, const bub::Envelope&) {
        lines.show(event);
    };
    const Answer answer = co_await pipeline.ask(std::move(message), std::move(show));
    lines.finish(answer);
    if (signals.ended_by() == SIGPIPE) co_return exit_closed_pipe;
    const Failure& said = answer.failure;
    if (said.exit_code != exit_ok) err() << "cubepi: " << for_terminal(said.text) << "\n";
    co_return signals.ended_by() == 0 ? said.exit_code : 128 + signals.ended_by();
}

void warn(const std::string& text) { err() << "cubepi: " << for_terminal(text) << "\n"; }

Task<int> run_once(CommandLine line, std::string prompt) {
    const Executor executor = co_await this_executor;
    Screen screen(*Runtime::standard()->clock, executor);
    SessionParts parts;
    parts.style = screen.style();
    const bool can_ask =
        isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && !line.conversation.json;
    if (can_ask) {
        auto editor = std::make_shared<LineEditor>(executor, std::filesystem::path());
        parts.questions =
            std::make_shared<TurnQuestions>(std::move(editor), *Runtime::standard()->clock,
                                            executor, [&screen] { screen.pause(); });
    }
    Pipeline::Parts around;
    around.plugins = line.plugins;
    around.on_warning = warn;
    line.conversation.no_save = true;  // unless a session is named
    Task<SessionPlan> planning = plan_session(line.conversation, std::move(parts));
    SessionPlan plan = co_await until_signal(std::move(planning));
    if (plan.model.found_locally) err() << "Using " << spelled_out(plan.model.where) << ".\n";
    for (const std::string& note : plan.notes) err() << for_terminal(note) << "\n";
    Pipeline pipeline(std::move(plan), std::move(around));
    // What a script puts into a prompt is never a command (B11).
    bub::Envelope message = pipeline.message(std::move(prompt), false);
    if (line.conversation.json) co_return co_await run_as_json(pipeline, std::move(message));
    co_return co_await converse(pipeline, screen, std::move(message));
}

}  // namespace

int run_command(const CommandLine& line) {
    std::string prompt = prompt_with_input(line);
    if (prompt.find_first_not_of(" \t\r\n") == std::string::npos) {
        err() << "cubepi: the prompt is empty.\n  Example: cubepi run \"what does this "
                 "project do?\"\n";
        return exit_usage;
    }
    return run(run_once(line, std::move(prompt)));
}

}  // namespace cubepi::app
