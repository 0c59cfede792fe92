#include "chat_commands.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <bub/close_matches.hpp>
#include <cubepi/core/support/trimmed.hpp>

#include "terminal/style.hpp"

namespace cubepi::app {

namespace {

struct ChatCommand {
    std::string_view name;
    std::string_view argument;  ///< as `/help` shows it; empty: none. "[...]": optional
    std::string_view help;
    std::optional<ChatAction> action;  ///< absent: the comma command of this name
    bool live_only = false;
    bool for_pipes = false;  ///< also accepted from a pipe
};

constexpr std::array<ChatCommand, 11> commands{{
    {"new", "", "start a new session; the current one stays saved", ChatAction::new_session},
    {"model", "[ID]", "list the models, or switch to another", std::nullopt},
    {"status", "", "model, session, directory, context, rules", ChatAction::status},
    {"cost", "", "tokens and cost of this session", ChatAction::cost},
    {"copy", "", "copy the last answer to the clipboard", ChatAction::copy},
    {"export", "[FILE]", "write the conversation to a Markdown file", ChatAction::export_file},
    {"later", "TEXT", "send TEXT when the answer is complete", ChatAction::later, true},
    {"details", "", "show tool results in full, or fold them (Ctrl-O)", ChatAction::details, true},
    {"stop", "", "stop the answer (Esc, Ctrl-C)", ChatAction::stop, true},
    {"help", "", "keys and commands", ChatAction::help, false, true},
    {"quit", "", "leave (also /exit, Ctrl-D)", ChatAction::quit, false, true},
}};

/// Completed like commands; `,help` lists all of them.
const std::array<Command, 5>& pipeline_completions() {
    static const std::array<Command, 5> known{{{",help", "list the commands of the pipeline"},
                                               {",model ", "switch to another model"},
                                               {",tape_info", "length of the conversation"},
                                               {",tape_search query=", "search the conversation"},
                                               {",tape_reset", "remove this conversation"}}};
    return known;
}

bool is_available(const ChatCommand& command, ChatAbilities chat) {
    return chat.live || !command.live_only;
}

std::string usage(const ChatCommand& command) {
    std::string text = "/" + std::string(command.name);
    if (!command.argument.empty()) text += " " + std::string(command.argument);
    return text;
}

/// The first word after the slash if it has the form of a command, with the position after it.
struct Word {
    std::string name = {};
    std::size_t end = 0;
};

std::optional<Word> command_word(std::string_view text) {
    if (!text.starts_with('/')) return std::nullopt;
    Word word;
    word.end = std::min(text.find_first_of(" \t\r\n"), text.size());
    word.name = text.substr(1, word.end - 1);
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    const bool plain = !word.name.empty() && is_letter(word.name.front()) &&
                       std::all_of(word.name.begin(), word.name.end(),
                                   [&](char c) { return is_letter(c) || c == '-'; });
    if (!plain) return std::nullopt;
    return word;
}

ChatInput of_kind(ChatInput::Kind kind, std::string text) {
    ChatInput input;
    input.kind = kind;
    input.text = std::move(text);
    return input;
}

ChatInput refused(std::string text) { return of_kind(ChatInput::Kind::refused, std::move(text)); }

/// As one word of a comma command.
std::string quoted(std::string_view word) {
    std::string text = "'";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
}

std::string unknown(const std::string& name, ChatAbilities chat) {
    std::vector<std::string> names;
    for (const ChatCommand& command : commands) {
        if (is_available(command, chat)) names.emplace_back(command.name);
    }
    names.emplace_back("exit");
    std::string text = "there is no command /" + printable(name) + ".";
    // An abbreviation is closer than a name with a similar spelling.
    std::vector<std::string> close;
    for (const std::string& known : names) {
        if (known.starts_with(name)) close.push_back(known);
    }
    if (close.empty()) close = bub::close_matches(name, names);
    if (!close.empty()) text += " Did you mean /" + close.front() + "?";
    return text + " /help lists the commands; //" + printable(name) + " sends the text /" +
           printable(name) + ".";
}

ChatInput read_command(const Word& word, std::string_view rest, ChatAbilities chat) {
    const std::string_view name = word.name == "exit" ? std::string_view("quit") : word.name;
    const auto found = std::find_if(commands.begin(), commands.end(), [&](const ChatCommand& one) {
        return one.name == name && is_available(one, chat);
    });
    if (found == commands.end()) return refused(unknown(word.name, chat));
    if (!chat.trusted && !found->for_pipes)
        return refused("/" + word.name + " works only at a terminal.");
    const std::string_view argument = detail::trimmed(rest);
    if (found->argument.empty() && !argument.empty()) {
        return refused("/" + word.name + " takes no arguments; //" + word.name +
                       " sends the line as text.");
    }
    const bool required = !found->argument.empty() && !found->argument.starts_with('[');
    if (required && argument.empty()) return refused("usage: " + usage(*found));
    if (!found->action) {
        const std::string line = "," + std::string(found->name);
        return of_kind(ChatInput::Kind::pipeline,
                       argument.empty() ? line : line + " " + quoted(argument));
    }
    ChatInput input = of_kind(ChatInput::Kind::action, std::string(argument));
    input.action = *found->action;
    return input;
}

}  // namespace

ChatInput read_chat_input(const std::string& text, ChatAbilities chat) {
    using Kind = ChatInput::Kind;
    if (detail::trimmed(text).empty()) return {};
    if (const auto word = command_word(text))
        return read_command(*word, std::string_view(text).substr(word->end), chat);
    if (text.starts_with("//") && command_word(std::string_view(text).substr(1)))
        return of_kind(Kind::prompt, text.substr(1));
    if (chat.trusted && text.starts_with('!')) {
        if (detail::trimmed(std::string_view(text).substr(1)).empty())
            return refused("usage: !COMMAND runs a shell command and shows it to the model");
        return of_kind(Kind::pipeline, "," + text);
    }
    if (chat.trusted && text.starts_with(',')) return of_kind(Kind::pipeline, text);
    return of_kind(Kind::prompt, text);
}

std::string chat_help(ChatAbilities chat) {
    constexpr std::size_t width = 16;
    std::string text;
    const auto add = [&text](std::string_view name, std::string_view help) {
        const std::size_t pad = name.size() < width ? width - name.size() : 1;
        text += "  " + std::string(name) + std::string(pad, ' ') + std::string(help) + "\n";
    };
    for (const ChatCommand& command : commands) {
        if (!is_available(command, chat) || (!chat.trusted && !command.for_pipes)) continue;
        add(usage(command), command.help);
    }
    if (chat.trusted) {
        add("!COMMAND", "run a shell command; the model gets the command and its output");
        add(",help", "commands of the pipeline: tools, tape, model");
        add("//TEXT", "send /TEXT to the model");
    }
    if (chat.live) {
        text +=
            "  Text entered while an answer arrives steers it.\n"
            "  Alt-Enter begins another line, Tab completes commands and file names, Ctrl-R "
            "searches the history.\n";
    } else {
        text += "  Ctrl-C          stop the answer; at the prompt, twice: leave\n";
    }
    return text +
           "  A pasted block is one input. Tools that write, run commands or use the network ask "
           "first.\n";
}

std::vector<Command> chat_completions(ChatAbilities chat) {
    std::vector<Command> known;
    for (const ChatCommand& command : commands) {
        if (!is_available(command, chat)) continue;
        std::string name = "/" + std::string(command.name);
        if (!command.argument.empty()) name += ' ';
        known.push_back(Command{std::move(name), std::string(command.help)});
    }
    known.insert(known.end(), pipeline_completions().begin(), pipeline_completions().end());
    return known;
}

}  // namespace cubepi::app
