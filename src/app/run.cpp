#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/core/run.hpp>
#include <cubepi/net/utf8.hpp>

#include "commands.hpp"
#include "conversation.hpp"
#include "exit_code.hpp"
#include "failure.hpp"
#include "session.hpp"
#include "terminal/line_editor.hpp"
#include "terminal/screen.hpp"

namespace cubepi::app {

namespace {

/// What is piped in; empty at a terminal, and when standard input is something that nobody writes to.
std::string piped_input() {
    struct stat info = {};
    if (fstat(STDIN_FILENO, &info) != 0) return {};
    if (!S_ISFIFO(info.st_mode) && !S_ISREG(info.st_mode) && !S_ISSOCK(info.st_mode)) return {};
    std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
    return is_utf8(text) ? text : replace_broken_utf8(text);
}

std::string prompt_of(const CommandLine& line) {
    std::string prompt;
    for (const std::string& word : line.words) prompt += (prompt.empty() ? "" : " ") + word;
    const std::string piped = piped_input();
    if (!piped.empty()) prompt += (prompt.empty() ? "" : "\n\n") + piped;
    return prompt;
}

/// The events, one JSON object a line.
Task<int> run_as_json(Session& session, std::string prompt) {
    const Executor executor = co_await this_executor;
    const InterruptWatch watch(executor, [&] { session.agent->abort(); });
    session.agent->subscribe([](const AgentEvent& event) {
        std::cout << boost::json::serialize(to_json(event)) << '\n' << std::flush;
    });
    FailureContext context;
    context.where = session.model.where;
    context.key_variable = session.model.key_variable;
    Failure said;
    said.exit_code = exit_ok;
    std::exception_ptr failure;
    try {
        const RunResult result = co_await session.agent->prompt(std::move(prompt));
        if (!result) said = explain(result.error(), context);
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) said = explain(failure, context);
    if (said.exit_code != exit_ok) std::cerr << "cubepi: " << printable(said.text) << '\n';
    co_return said.exit_code;
}

Task<int> run_once(CommandLine line, std::string prompt) {
    const Executor executor = co_await this_executor;
    Screen screen(*Runtime::standard()->clock, executor);
    SessionParts parts;
    parts.style = screen.style();
    const bool can_ask =
        isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && !line.conversation.json;
    if (can_ask) parts.asker = std::make_shared<LineEditor>(executor, std::filesystem::path());
    parts.before_question = [&screen] { screen.pause(); };
    Session session = co_await open_session(line.conversation, std::move(parts));
    if (session.model.found_locally) std::cerr << "Using " << session.model.where << ".\n";
    if (line.conversation.json) co_return co_await run_as_json(session, std::move(prompt));
    co_return co_await converse(session, screen, std::move(prompt));
}

}  // namespace

int run_command(const CommandLine& line) {
    std::string prompt = prompt_of(line);
    if (prompt.find_first_not_of(" \t\r\n") == std::string::npos) {
        std::cerr << "cubepi: there is no prompt.\n  Say something: cubepi run \"what does this "
                     "project do?\"\n";
        return exit_usage;
    }
    return run(run_once(line, std::move(prompt)));
}

}  // namespace cubepi::app
