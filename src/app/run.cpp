#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/workspace/files/content.hpp>

#include "conversation/conversation.hpp"
#include "conversation/session.hpp"
#include "failure.hpp"
#include "process.hpp"
#include "program.hpp"
#include "render/renderers.hpp"
#include "terminal/prompter.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t mebibyte = 1024 * 1024;
/// As much as decides whether data is binary.
constexpr std::size_t decisive = 8192;

void refuse_binary(std::string_view start) {
    if (!detail::looks_binary(start) && detail::image_type(start).empty()) return;
    throw Error(ErrorCode::invalid_argument,
                "standard input is binary data, not text.\n"
                "  Save it to a file in this directory and name the path in the prompt; the model "
                "opens text and images with its read tool:\n"
                "  cubepi run \"describe picture.png\"");
}

[[noreturn]] void refuse_size(std::size_t mebibytes) {
    throw Error(ErrorCode::invalid_argument,
                "standard input exceeds " + std::to_string(mebibytes) +
                    " MiB.\n  Raise the limit with --max-input MIB, or save the input to a file "
                    "in this directory and name the path in the prompt");
}

/// The text on standard input. Invalid UTF-8 is replaced. Throws Error(invalid_argument) for binary data and for more than
/// `mebibytes` MiB.
std::string read_input(std::size_t mebibytes) {
    std::string text;
    std::array<char, 65536> block = {};
    bool checked = false;
    for (;;) {
        const ssize_t count = read(STDIN_FILENO, block.data(), block.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) {  // the pipe was made non-blocking by another process
            pollfd ready = {STDIN_FILENO, POLLIN, 0};
            (void)poll(&ready, 1, -1);
            continue;
        }
        if (count < 0 && errno == EBADF) return {};  // open for writing only
        if (count < 0) {
            throw Error(ErrorCode::io, "cannot read standard input: " + detail::errno_text(errno));
        }
        text.append(block.data(), static_cast<std::size_t>(count));
        if (!checked && (count == 0 || text.size() >= decisive)) {
            refuse_binary(text);
            checked = true;
        }
        if (count == 0) break;
        if (text.size() > mebibytes * mebibyte) refuse_size(mebibytes);
    }
    return is_utf8(text) ? text : replace_broken_utf8(text);
}

std::string prompt_with_input(const CommandLine& line) {
    // A terminal or a device, which may never end, is read on request only.
    if (line.words.size() == 1 && line.words.front() == "-") return read_input(line.input_limit);
    std::string prompt = prompt_of(line.words);
    const std::string piped = input_is_piped() ? read_input(line.input_limit) : std::string();
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

Task<int> run_message(CommandLine line, std::string text, std::optional<bub::Answer> answer) {
    const Executor executor = co_await this_executor;
    const std::unique_ptr<Renderer> renderer = make_renderer(line, executor);
    std::shared_ptr<Prompter> prompter;
    const bool from_operator = answer.has_value();
    // An answer continues a run whose later questions are stored as well.
    if (can_ask(line) && !from_operator)
        prompter = std::make_shared<LinePrompter>(executor, std::filesystem::path());
    line.conversation.suspend = !prompter && !line.conversation.no_save;
    line.conversation.no_save = true;  // unless a session is named
    Task<SessionPlan> planning =
        plan_session(line.conversation, session_parts(*renderer, std::move(prompter), executor));
    SessionPlan plan = co_await until_signal(std::move(planning));
    plan.shell.background_note = "it ends with this answer, because cubepi run exits then";
    Conversation::Parts parts;
    parts.plugins = line.plugins;
    Conversation conversation(std::move(plan), *renderer, std::move(parts));
    // The operator has answered one of its questions.
    co_await conversation.begin(!from_operator);
    if (conversation.waits_for_answer() && !from_operator) co_return exit_waiting;
    bub::Envelope message = conversation.pipeline().message(std::move(text), from_operator);
    message.answer = std::move(answer);
    co_return co_await conversation.run_turn(std::move(message));
}

int run_command(const CommandLine& line) {
    std::string prompt = prompt_with_input(line);
    if (prompt.find_first_not_of(" \t\r\n") == std::string::npos) {
        const bool resumes = line.conversation.continue_last || !line.conversation.session.empty();
        err() << (resumes ? TerminalView("cubepi: without a terminal, a session is continued by a "
                                         "prompt.\n  Example: cubepi run --continue \"and "
                                         "now?\"\n")
                          : TerminalView("cubepi: the prompt is empty.\n  Example: cubepi run "
                                         "\"what does this project do?\"\n"));
        return exit_usage;
    }
    // The prompt of a script is never a command (B11).
    return run(run_message(line, std::move(prompt), std::nullopt));
}

}  // namespace cubepi::app
