#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <unistd.h>

#include <cubepi/core/run.hpp>

#include "commands.hpp"
#include "conversation/conversation.hpp"
#include "conversation/session.hpp"
#include "exit_code.hpp"
#include "render/json_renderer.hpp"
#include "render/plain_renderer.hpp"
#include "signals.hpp"
#include "standard_input.hpp"
#include "terminal/line_editor.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

std::string prompt_with_input(const CommandLine& line) {
    std::string prompt = prompt_of(line.words);
    const std::string piped = piped_input(line.input_limit);
    if (!piped.empty()) prompt += (prompt.empty() ? "" : "\n\n") + piped;
    return prompt;
}

bool can_ask(const CommandLine& line) {
    return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && !line.conversation.json;
}

std::unique_ptr<Renderer> make_renderer(const CommandLine& line, Executor executor) {
    if (line.conversation.json) return std::make_unique<JsonRenderer>();
    return std::make_unique<PlainRenderer>(*Runtime::standard()->clock, std::move(executor),
                                           PlainRenderer::Opening::notes);
}

}  // namespace

Task<int> run_message(CommandLine line, std::string text, bool from_operator) {
    const Executor executor = co_await this_executor;
    const std::unique_ptr<Renderer> renderer = make_renderer(line, executor);
    std::shared_ptr<Prompter> prompter;
    // An answer continues a run whose later questions are stored as well.
    if (can_ask(line) && !from_operator)
        prompter = std::make_shared<LineEditor>(executor, std::filesystem::path());
    line.conversation.suspend = !prompter && !line.conversation.no_save;
    line.conversation.no_save = true;  // unless a session is named
    Task<SessionPlan> planning =
        plan_session(line.conversation, session_parts(*renderer, std::move(prompter), executor));
    SessionPlan plan = co_await until_signal(std::move(planning));
    Conversation::Parts parts;
    parts.plugins = line.plugins;
    Conversation conversation(std::move(plan), *renderer, std::move(parts));
    co_await conversation.begin();
    if (conversation.waits_for_answer() && !from_operator) co_return exit_waiting;
    bub::Envelope message = conversation.pipeline().message(std::move(text), from_operator);
    co_return co_await conversation.run_turn(std::move(message));
}

int run_command(const CommandLine& line) {
    std::string prompt = prompt_with_input(line);
    if (prompt.find_first_not_of(" \t\r\n") == std::string::npos) {
        err() << "cubepi: the prompt is empty.\n  Example: cubepi run \"what does this "
                 "project do?\"\n";
        return exit_usage;
    }
    // The prompt of a script is never a command (B11).
    return run(run_message(line, std::move(prompt), false));
}

}  // namespace cubepi::app
