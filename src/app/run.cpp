#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>
#include <unistd.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/workspace/files/content.hpp>

#include "conversation/attachments.hpp"
#include "conversation/conversation.hpp"
#include "conversation/session.hpp"
#include "failure.hpp"
#include "mcp/mcp_offers.hpp"
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
    if (line.words.size() == 1 && line.words.front() == "-")
        return read_input(line.run.input_limit);
    std::string prompt = prompt_of(line.words);
    const std::string piped = input_is_piped() ? read_input(line.run.input_limit) : std::string();
    if (!piped.empty()) prompt += (prompt.empty() ? "" : "\n\n") + piped;
    return prompt;
}

/// The part of the prompt that may name resources: standard input may be of others (D188).
std::string naming_part(const CommandLine& line) {
    const bool reads_input = line.words.size() == 1 && line.words.front() == "-";
    return reads_input ? std::string() : prompt_of(line.words);
}

/// Adds the resources of MCP servers that the command line names to `text`, and the remark about them to the notes of the plan.
Task<std::vector<bub::MediaItem>> attach_named(const CommandLine* line, std::string* text,
                                               SessionPlan* plan) {
    Task<Attachments> reading =
        attach_mcp_resources(Attachments(), naming_part(*line), plan->servers);
    Attachments attached = co_await until_signal(std::move(reading));
    *text += attached.text;
    if (!attached.remark.empty()) plan->notes.push_back("Attached: " + attached.remark);
    co_return std::move(attached.media);
}

bool can_ask(const CommandLine& line) {
    return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 &&
           line.run.output == RunArguments::Output::text && !line.run.json_input;
}

std::unique_ptr<Renderer> make_renderer(const CommandLine& line, Executor executor) {
    using Output = RunArguments::Output;
    if (line.run.output == Output::stream_json) return std::make_unique<JsonRenderer>();
    if (line.run.output == Output::json) return std::make_unique<ResultRenderer>();
    return std::make_unique<PlainRenderer>(*Runtime::standard()->clock, std::move(executor),
                                           PlainRenderer::Opening::notes);
}

/// Throws Error(invalid_argument) if the file is not a JSON Schema.
Json schema_in(const std::string& path) {
    const std::string text = read_whole(path, mebibyte);
    boost::system::error_code failed;
    Json schema = boost::json::parse(text, failed);
    if (failed || !schema.is_object())
        throw Error(ErrorCode::invalid_argument,
                    visible(path) + " is not a JSON Schema, which is a JSON object" +
                        (failed ? ": " + failed.message() : std::string()));
    return schema;
}

/// Reads a message of --input-format stream-json: {"type": "user", "message": {"role": "user", "content": ...}} with a text or the
/// parts `text` and `image` (base64) of the Messages API as its content. Throws Error(invalid_argument).
bub::Envelope message_in(std::string_view text, std::size_t number) {
    const auto refuse = [number](const std::string& why) {
        throw Error(ErrorCode::invalid_argument,
                    "line " + std::to_string(number) + " of standard input " + why +
                        "\n  A message is: {\"type\": \"user\", \"message\": {\"role\": \"user\", "
                        "\"content\": \"TEXT\"}}");
    };
    boost::system::error_code failed;
    const Json line = boost::json::parse(text, failed);
    if (failed) refuse("is not JSON: " + failed.message());
    const auto member = [](const Json& value, std::string_view name) -> const Json* {
        return value.is_object() ? value.get_object().if_contains(name) : nullptr;
    };
    const auto is = [&member](const Json& value, std::string_view name, std::string_view expected) {
        const Json* found = member(value, name);
        return found && found->is_string() && found->get_string() == expected;
    };
    if (!is(line, "type", "user")) refuse("is not a message of the type \"user\"");
    const Json* const message = member(line, "message");
    const Json* const content = message ? member(*message, "content") : nullptr;
    if (!content || !is(*message, "role", "user")) refuse("has no content of the user");
    bub::Envelope made;
    made.content.emplace();
    if (content->is_string()) {
        made.content = content->get_string();
        if (made.content->empty()) refuse("has an empty text");
        return made;
    }
    if (!content->is_array()) refuse("has a content that is neither a text nor a list");
    for (const Json& part : content->get_array()) {
        const Json* const words = member(part, "text");
        if (is(part, "type", "text") && words && words->is_string()) {
            if (!made.content->empty()) *made.content += "\n";
            *made.content += words->get_string();
            continue;
        }
        const Json* const source = member(part, "source");
        const Json* const kind = source ? member(*source, "media_type") : nullptr;
        const Json* const data = source ? member(*source, "data") : nullptr;
        if (!is(part, "type", "image") || !source || !is(*source, "type", "base64") || !kind ||
            !kind->is_string() || !data || !data->is_string())
            refuse("has a part that is neither a text nor a picture in base64");
        bub::MediaItem item;
        item.mime_type = kind->get_string();
        item.url = "data:" + item.mime_type + ";base64," + std::string(data->get_string());
        made.media.push_back(std::move(item));
    }
    if (made.content->empty() && made.media.empty()) refuse("has neither a text nor a picture");
    return made;
}

/// Throws Error(invalid_argument) if the answer could not be written to the file: then the model is not asked.
void check_writable(const std::string& path) {
    if (path.empty()) return;
    std::error_code ignored;
    if (path.ends_with('/') || std::filesystem::is_directory(path, ignored))
        throw Error(ErrorCode::invalid_argument,
                    "cannot write " + visible(path) + ": " + detail::errno_text(EISDIR));
    const std::filesystem::path directory = std::filesystem::path(path).parent_path();
    const bool exists = access(path.c_str(), F_OK) == 0;
    const std::string place = exists ? path : directory.empty() ? "." : directory.string();
    if (access(place.c_str(), W_OK) != 0)
        throw Error(ErrorCode::invalid_argument,
                    "cannot write " + visible(path) + ": " + detail::errno_text(errno));
}

/// Writes the answer to the file of --output. A failed prompt leaves the file as it was.
void write_answer(const std::string& path, const TurnEnd& end) {
    if (path.empty() || end.failure.exit_code != exit_ok) return;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << end.text << (end.text.ends_with('\n') ? "" : "\n") << std::flush;
    if (!file)
        throw Error(ErrorCode::io,
                    "cannot write " + visible(path) + ": " + detail::errno_text(errno));
}

/// Answers the messages of standard input, one after another. Returns the exit status of the last one that failed.
Task<int> answer_lines(Conversation& conversation, std::size_t limit) {
    const Executor executor = co_await this_executor;
    LineInput input(executor);
    int status = exit_ok;
    for (std::size_t number = 1;; ++number) {
        Task<std::optional<std::string>> reading = input.next(limit);
        const std::optional<std::string> line = co_await until_signal(std::move(reading));
        if (!line) co_return status;
        if (detail::trimmed(*line).empty()) continue;
        bub::Envelope given = message_in(*line, number);
        bub::Envelope message = conversation.pipeline().message(std::move(*given.content), false);
        message.media = std::move(given.media);
        const int ended = co_await conversation.run_turn(std::move(message));
        if (ended != exit_ok) status = ended;
        if (ended > 128 || ended == exit_waiting) co_return status;
    }
}

/// Runs the turns of `cubepi run`. Returns the exit status.
Task<int> answer_messages(Conversation& conversation, Renderer& renderer,
                          const RunArguments& arguments, bub::Envelope message) {
    const bool from_operator = message.answer.has_value();
    // The operator has answered one of its questions.
    co_await conversation.begin(!from_operator);
    if (conversation.waits_for_answer() && !from_operator) {
        TurnEnd end;
        end.failure.exit_code = exit_waiting;
        end.failure.text = "the prompt was not read, because the session waits for an answer";
        if (arguments.output == RunArguments::Output::json) renderer.end_turn(end);
        co_return exit_waiting;
    }
    if (arguments.json_input)
        co_return co_await answer_lines(conversation, arguments.input_limit * mebibyte);
    co_return co_await conversation.run_turn(std::move(message));
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
    check_writable(line.run.answer_file);
    std::shared_ptr<WantedAnswer> wanted;
    if (!line.run.schema_file.empty()) {
        wanted = std::make_shared<WantedAnswer>();
        wanted->schema = schema_in(line.run.schema_file);
    }
    std::vector<bub::MediaItem> pictures;
    for (const std::string& path : line.run.images) pictures.push_back(picture_in(path));
    // The form of an answer is not stored with a run.
    line.conversation.suspend = !prompter && !line.conversation.no_save && !wanted;
    // The messages of one input are one conversation, which a failure does not end.
    const bool saves_failed = !line.conversation.no_save && !line.run.json_input && !from_operator;
    line.conversation.no_save = true;  // unless a session is named
    Task<SessionPlan> planning =
        plan_session(line.conversation, session_parts(*renderer, std::move(prompter), executor));
    SessionPlan plan = co_await until_signal(std::move(planning));
    plan.shell.background_note = "it ends with this answer, because cubepi run exits then";
    plan.wanted = std::move(wanted);
    plan.waits_for_tasks = true;
    plan.saves_failed = saves_failed;
    if (!from_operator && !line.run.json_input) {
        std::vector<bub::MediaItem> named = co_await attach_named(&line, &text, &plan);
        pictures.insert(pictures.end(), named.begin(), named.end());
    }
    Conversation::Parts parts;
    parts.plugins = line.plugins;
    parts.on_end = [file = line.run.answer_file](const TurnEnd& end) { write_answer(file, end); };
    Conversation conversation(std::move(plan), *renderer, std::move(parts));
    bub::Envelope message = conversation.pipeline().message(std::move(text), from_operator);
    message.media = std::move(pictures);
    message.answer = std::move(answer);
    Task<int> answering = answer_messages(conversation, *renderer, line.run, std::move(message));
    co_return co_await with_cleanup(std::move(answering), conversation.pipeline().close());
}

int run_command(const CommandLine& line) {
    if (line.run.json_input) {
        if (line.words.empty() && line.run.images.empty())
            return run(run_message(line, std::string(), std::nullopt));
        err() << "cubepi: with --input-format stream-json, prompts and pictures come from standard "
                 "input.\n  Omit them on the command line\n";
        return exit_usage;
    }
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
