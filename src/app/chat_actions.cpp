#include "chat_actions.hpp"

#include <chrono>
#include <ctime>
#include <filesystem>
#include <utility>

#include <bub/tape/file_tape_store.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/workspace/files/content.hpp>

#include "new_file.hpp"
#include "shell_quoting.hpp"
#include "terminal/event_text.hpp"
#include "terminal/style.hpp"
#include "transcript.hpp"

namespace cubepi::app {

namespace {

/// Terminals ignore longer sequences; xterm's limit is among the smallest.
constexpr std::size_t clipboard_bytes = 50'000;

std::string local_minute() {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm local = {};
    char text[32] = "";
    if (localtime_r(&now, &local)) (void)std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
    return text;
}

/// `~/x` is in the home directory; no name: one made of the session's name and the time.
std::filesystem::path export_path(std::string file, const std::string& session) {
    if (file.starts_with("~/")) return bub::home_directory() / file.substr(2);
    if (!file.empty()) return file;
    std::string name = session.empty() ? "chat" : session.substr(0, 60);
    for (char& c : name) {
        const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                           (c >= 'a' && c <= 'z') || c == '-' || c == '_';
        if (!plain) c = '-';
    }
    return "cubepi-" + name + "-" + local_minute() + ".md";
}

std::string row(std::string_view label, const std::string& value) {
    std::string text = "  " + std::string(label);
    text.resize(13, ' ');
    return text + value + "\n";
}

std::string count_of(std::int64_t count, std::string_view what) {
    return count_text(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

std::string cost_of_session(const SessionUsage& usage) {
    if (usage.calls == 0) return "nothing yet";
    if (usage.unpriced == usage.calls)
        return "unknown (no list price for " + printable(usage.last_model) + ")";
    std::string text = money_text(usage.cost);
    if (usage.unpriced > 0) {
        text += ", without " + count_of(static_cast<std::int64_t>(usage.unpriced), "call") +
                " of unknown price";
    }
    return text;
}

}  // namespace

TerminalText clipboard_sequence(std::string_view text) {
    return "\x1b]52;c;" + for_terminal(cubepi::detail::base64(text)) + "\x07";
}

ChatActions::ChatActions(Pipeline& pipeline, Renderer& renderer)
    : pipeline_(pipeline), renderer_(renderer) {}

Task<> ChatActions::perform(ChatAction action, std::string argument) {
    std::exception_ptr failure;
    try {
        co_await act(action, std::move(argument));
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) co_return;
    if (is_cancellation(failure)) std::rethrow_exception(failure);
    renderer_.problem(bub::describe(failure));
}

Task<> ChatActions::act(ChatAction action, std::string argument) {
    switch (action) {
        case ChatAction::new_session: co_return begin_session();
        case ChatAction::status: co_return co_await show_status();
        case ChatAction::cost: co_return co_await show_cost();
        case ChatAction::copy: co_return co_await copy_answer();
        case ChatAction::export_file: co_return co_await export_to(std::move(argument));
        case ChatAction::help:
        case ChatAction::later:
        case ChatAction::details:
        case ChatAction::stop:
        case ChatAction::quit: break;
    }
}

Task<MessageList> ChatActions::conversation() const {
    return read_conversation(pipeline_.plan().tapes, tape_of(pipeline_.plan()));
}

void ChatActions::begin_session() {
    const std::string before = pipeline_.plan().name;
    pipeline_.move_to(next_session(pipeline_.plan()));
    renderer_.begin_session(pipeline_.plan().name);
    const bool saved = static_cast<bool>(pipeline_.plan().create);
    std::string text = saved ? "New session; its first prompt names it.\n"
                             : "New session; the previous one was not saved.\n";
    if (!before.empty()) {
        text += "Resume the previous one: cubepi chat --session " + printable(shell_word(before)) +
                "\n";
    }
    renderer_.print(text);
}

Task<> ChatActions::show_status() {
    const SessionPlan& plan = pipeline_.plan();
    const MessageList messages = co_await conversation();
    const SessionUsage usage = usage_of(messages, pipeline_.model().model.spec());
    std::string text = row("model", printable(pipeline_.model().where));
    text +=
        row("session", (plan.create         ? "new"
                        : plan.name.empty() ? "not saved"
                                            : printable(plan.name)) +
                           ", " + count_of(static_cast<std::int64_t>(messages.size()), "message"));
    text += row("directory", printable(std::filesystem::current_path().string()));
    const std::int64_t window = pipeline_.model().model.spec().context_window.value_or(0);
    std::string context = count_of(usage.context, "token");
    if (window > 0) {
        context += " of " + count_text(window) + " (" +
                   std::to_string(100 * usage.context / window) + "%)";
    }
    text += row("context", context);
    if (!plan.approval) {
        text += row("tools", "none (--no-tools)");
    } else if (plan.approval->allows_all()) {
        text += row("rules", "tools act without asking (--yes)");
    } else if (plan.approval->rules().rules().empty()) {
        text += row("rules", "none");
    } else {
        std::string_view label = "rules";
        for (const ApprovalRule& rule : plan.approval->rules().rules())
            text += row(std::exchange(label, ""), printable(rule.text()));
    }
    renderer_.print(text);
}

Task<> ChatActions::show_cost() {
    const MessageList messages = co_await conversation();
    const SessionUsage usage = usage_of(messages, pipeline_.model().model.spec());
    std::string text =
        row("calls", count_text(static_cast<std::int64_t>(usage.calls)) + " of a model");
    text += row("tokens",
                count_text(usage.tokens_in) + " in, " + count_text(usage.tokens_out) + " out");
    text += row("cost", cost_of_session(usage));
    renderer_.print(text);
}

Task<> ChatActions::copy_answer() {
    const MessageList messages = co_await conversation();
    const std::string text = last_answer(messages);
    if (text.empty()) {
        renderer_.problem("there is no answer to copy.");
    } else if (!renderer_.has_control()) {
        renderer_.problem("this terminal has no clipboard sequence; write a file: /export");
    } else if (text.size() > clipboard_bytes) {
        renderer_.problem("the answer has " + count_text(static_cast<std::int64_t>(text.size())) +
                          " bytes; terminals take " +
                          count_text(static_cast<std::int64_t>(clipboard_bytes)) +
                          ". Write a file: /export");
    } else {
        renderer_.write_control(clipboard_sequence(text));
        renderer_.print("Sent " + count_of(static_cast<std::int64_t>(text.size()), "byte") +
                        " to the terminal's clipboard (OSC 52; the terminal must allow it).\n");
    }
}

Task<> ChatActions::export_to(std::string file) {
    const SessionPlan& plan = pipeline_.plan();
    const MessageList messages = co_await conversation();
    if (messages.empty()) co_return renderer_.problem("there is nothing to export yet.");
    const std::string title = title_of(messages);
    const std::filesystem::path path = export_path(std::move(file), plan.name);
    std::ofstream out;
    try {
        out = create_file(path, false);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::invalid_argument) throw;
        throw Error(ErrorCode::invalid_argument,
                    std::string(error.what()) + "; name another: /export FILE");
    }
    out << to_markdown(messages, title.empty() ? "Conversation" : title);
    out.close();
    if (!out) throw Error(ErrorCode::io, "'" + path.string() + "' was not written completely");
    renderer_.print("Wrote " + count_of(static_cast<std::int64_t>(messages.size()), "message") +
                    " to " + printable(path.string()) + "\n");
}

}  // namespace cubepi::app
