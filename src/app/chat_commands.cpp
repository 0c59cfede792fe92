#include "chat_commands.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <bub/close_matches.hpp>
#include <cubepi/core/support/trimmed.hpp>

#include "terminal/keys.hpp"
#include "terminal/terminal_stream.hpp"

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

constexpr std::array<ChatCommand, 30> commands{{
    {"new", "", "start a new session; the current one stays saved", ChatAction::new_session},
    {"resume", "[NAME]", "open another saved session; without NAME pick one", ChatAction::resume,
     true},
    {"rename", "TITLE", "set the title of this session", ChatAction::rename},
    {"model", "[ID]", "switch to another model; without ID pick one", std::nullopt},
    {"effort", "[LEVEL]", "how hard the model thinks; without LEVEL pick one", std::nullopt},
    {"status", "", "model, session, directory, context, rules, what runs", ChatAction::status},
    {"context", "", "what the next request consists of, in tokens", ChatAction::context},
    {"cost", "", "tokens and cost of this session", ChatAction::cost},
    {"todo", "", "show the to-do list of the model", std::nullopt},
    {"tasks", "[cancel] [ID]", "what runs in the background (/ps); show one, or end it",
     ChatAction::tasks},
    {"mcp", "[reconnect NAME]", "MCP servers and their tools; connect to one again",
     ChatAction::servers},
    {"goal", "[TEXT]", "work until TEXT is achieved; show the goal, or `clear` it", std::nullopt},
    {"copy", "", "copy the last answer to the clipboard", ChatAction::copy},
    {"export", "[FILE]", "write the conversation to a file: Markdown, or HTML",
     ChatAction::export_file},
    {"later", "TEXT", "send TEXT when the answer is complete", ChatAction::later, true},
    {"details", "", "show tool results in full, or fold them", ChatAction::details, true},
    {"compact", "[TEXT]", "summarize the older messages for the model; TEXT matters", std::nullopt},
    {"permissions", "[remove N]", "what tools may do without asking; withdraw a rule",
     ChatAction::permissions},
    {"theme", "[NAME]", "colors: auto, dark or light; without NAME pick one", ChatAction::theme,
     true},
    {"mode", "[NAME]", "what tools may do: ask, accept-edits, plan, all", ChatAction::mode},
    {"skills", "", "list the skills ($NAME in a prompt names one)", std::nullopt},
    {"hooks", "", "list your commands that run around calls and prompts", std::nullopt},
    {"diff", "[last]", "show what has changed; last: since the last prompt", ChatAction::diff},
    {"undo", "", "take back the changes of files of the last prompt", ChatAction::undo},
    {"redo", "", "make the changes again that /undo has taken back", ChatAction::redo},
    {"rewind", "[N]", "return to an earlier prompt, with its files (Esc Esc)", ChatAction::rewind},
    {"fork", "[NAME]", "continue in a new session; this one stays as it is", ChatAction::fork},
    {"stop", "", "stop the answer (Esc, Ctrl-C)", ChatAction::stop, true},
    {"help", "", "keys and commands (also help, ?)", ChatAction::help, false, true},
    {"quit", "", "leave (also exit, quit, Ctrl-D)", ChatAction::quit, false, true},
}};

/// Commands that have a second name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> second_names{
    {{"clear", "new"},
     {"sessions", "resume"},
     {"rules", "permissions"},
     {"ps", "tasks"},
     {"exit", "quit"}}};

/// Comma commands with another name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> comma_names{
    {{"effort", "reasoning_effort"}, {"skills", "skill"}}};

/// Names that other programs have for commands.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> other_names{
    {{"think", "effort"},
     {"thinking", "effort"},
     {"reset", "new"},
     {"cancel", "stop"},
     {"usage", "cost"},
     {"bye", "quit"},
     {"checkpoint", "rewind"},
     {"branch", "fork"}}};

/// Completed like commands; `,help` lists all of them.
const std::array<Command, 5>& pipeline_completions() {
    static const std::array<Command, 5> known{
        {{",help", "list the commands of the pipeline"},
         {",model ", "switch to another model", true},
         {",tape_info", "length of the conversation"},
         {",tape_search query=", "search the conversation", true},
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

/// The other name of a pair, or the name itself.
template <std::size_t N>
std::string_view replaced(const std::array<std::pair<std::string_view, std::string_view>, N>& pairs,
                          std::string_view name) {
    for (const auto& [from, to] : pairs) {
        if (name == from) return to;
    }
    return name;
}

std::string unknown(const std::string& name, ChatAbilities chat) {
    std::vector<std::string> names;
    for (const ChatCommand& command : commands) {
        if (is_available(command, chat)) names.emplace_back(command.name);
    }
    for (const auto& [second, own] : second_names) names.emplace_back(second);
    if (chat.templates) {
        for (const PromptTemplate& one : chat.templates->all) names.push_back(one.name);
    }
    std::string text = "there is no command /" + printable(name) + ".";
    // An abbreviation is closer than a name with a similar spelling.
    std::vector<std::string> close;
    for (const std::string& known : names) {
        if (known.starts_with(name)) close.push_back(known);
    }
    // The name that other programs use is closer than a similar spelling.
    for (const auto& [other, own] : other_names) {
        if (close.empty() && name == other) close.emplace_back(own);
    }
    if (close.empty()) close = bub::close_matches(name, names);
    if (!close.empty()) text += " Did you mean /" + close.front() + "?";
    return text + " /help lists the commands; //" + printable(name) + " sends the text /" +
           printable(name) + ".";
}

/// The prompt that a template stands for.
ChatInput read_template(const PromptTemplate& found, std::string_view rest) {
    const std::string_view argument = detail::trimmed(rest);
    const std::string& hint = found.argument_hint;
    if (!hint.empty() && !hint.starts_with('[') && argument.empty())
        return refused("usage: /" + found.name + " " + hint);
    ChatInput input = of_kind(ChatInput::Kind::prompt, found.expanded(argument));
    input.argument = std::string(argument);
    input.is_aside = found.is_aside;
    return input;
}

ChatInput read_command(const Word& word, std::string_view rest, ChatAbilities chat) {
    const std::string_view name = replaced(second_names, word.name);
    const auto found = std::find_if(commands.begin(), commands.end(), [&](const ChatCommand& one) {
        return one.name == name && is_available(one, chat);
    });
    if (found == commands.end() && chat.templates && chat.trusted) {
        if (const PromptTemplate* one = chat.templates->find(word.name))
            return read_template(*one, rest);
    }
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
    // The message sets the goal.
    if (found->name == "goal" && !argument.empty() && argument != "clear")
        return of_kind(ChatInput::Kind::prompt, "/goal " + std::string(argument));
    const bool picks = argument.empty() && chat.live;
    if (picks && (found->name == "model" || found->name == "effort")) {
        ChatInput input = of_kind(ChatInput::Kind::action, {});
        input.action = found->name == "model" ? ChatAction::pick_model : ChatAction::pick_effort;
        return input;
    }
    if (!found->action) {
        std::string line = "," + std::string(replaced(comma_names, found->name));
        // The text of `,compact` is a sentence, in which quotes belong to the text.
        if (!argument.empty())
            line += " " + (found->name == "compact" ? std::string(argument) : quoted(argument));
        return of_kind(ChatInput::Kind::pipeline, std::move(line));
    }
    ChatInput input = of_kind(ChatInput::Kind::action, std::string(argument));
    input.action = *found->action;
    return input;
}

/// A text that is a command without a slash: users type these words to leave a program or to learn about it. After a blank
/// they are a prompt. `,quit` would end the work of the session and stay in the chat.
std::optional<ChatAction> action_word(std::string_view text, ChatAbilities chat) {
    while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != text.npos)
        text.remove_suffix(1);
    if (text == "exit" || text == "quit") return ChatAction::quit;
    if (text == "help" || text == "?") return ChatAction::help;
    if (chat.trusted && text.starts_with(',') && detail::trimmed(text.substr(1)) == "quit")
        return ChatAction::quit;
    return std::nullopt;
}

}  // namespace

bool is_change_action(ChatAction action) noexcept {
    switch (action) {
        case ChatAction::undo:
        case ChatAction::redo:
        case ChatAction::rewind:
        case ChatAction::fork:
        case ChatAction::diff: return true;
        default: return false;
    }
}

ChatInput read_chat_input(const std::string& text, ChatAbilities chat) {
    using Kind = ChatInput::Kind;
    if (detail::trimmed(text).empty()) return {};
    if (const std::optional<ChatAction> action = action_word(text, chat)) {
        ChatInput input = of_kind(Kind::action, {});
        input.action = *action;
        return input;
    }
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
    constexpr std::size_t width = 18;
    std::string text;
    const auto add = [&text](std::string_view name, std::string_view help) {
        text += "  " + std::string(name);
        // A long name has a line of its own.
        const bool fits = name.size() < width;
        text += fits ? std::string(width - name.size(), ' ') : "\n" + std::string(width + 2, ' ');
        text += std::string(help) + "\n";
    };
    for (const ChatCommand& command : commands) {
        if (!is_available(command, chat) || (!chat.trusted && !command.for_pipes)) continue;
        add(usage(command), command.help);
    }
    if (chat.trusted && chat.templates) {
        for (const PromptTemplate& one : chat.templates->all) {
            const std::string hint = one.argument_hint.empty() ? "" : " " + one.argument_hint;
            const bool is_shipped = one.source == PromptTemplate::Source::program;
            add("/" + one.name + hint,
                one.description + (is_shipped ? ""
                                   : one.source == PromptTemplate::Source::user
                                       ? " (your prompt)"
                                       : " (prompt of this project)"));
        }
    }
    if (chat.trusted) {
        add("!COMMAND", "run a shell command; the model gets the command and its output");
        add(",help", "commands of the pipeline: tools, tape, model");
        add("//TEXT", "send /TEXT to the model");
    }
    if (chat.live) {
        text +=
            "  Text entered while an answer arrives steers it. One key answers a question.\n"
            "Keys; `keys` in the configuration changes those with a name in parentheses\n"
            "  Esc, Ctrl-C       stop the answer; Esc twice: return to an earlier prompt\n"
            "  Ctrl-D            leave, at the empty prompt\n"
            "  Tab               complete a command or the name of a file\n" +
            KeyBindings::current().help();
    } else {
        text += "  Ctrl-C          stop the answer; at the prompt, twice: leave\n";
    }
    return text +
           "  A pasted block is one input. Tools that write, run commands or use the network ask "
           "first.\n";
}

std::vector<Command> chat_completions(ChatAbilities chat) {
    std::vector<Command> known;
    std::vector<Command> second_entries;
    for (const ChatCommand& command : commands) {
        if (!is_available(command, chat)) continue;
        Command entry;
        entry.name = "/" + std::string(command.name);
        if (!command.argument.empty()) entry.name += ' ';
        entry.help = command.help;
        entry.needs_argument = !command.argument.empty() && !command.argument.starts_with('[');
        known.push_back(entry);
        // Their letters may also be those of another name, which the popup must not put in their place.
        for (const auto& [second, own] : second_names) {
            if (own != command.name) continue;
            entry.name = "/" + std::string(second) + (command.argument.empty() ? "" : " ");
            second_entries.push_back(entry);
        }
    }
    known.insert(known.end(), second_entries.begin(), second_entries.end());
    if (chat.templates) {
        for (const PromptTemplate& one : chat.templates->all) {
            Command entry;
            entry.name = "/" + one.name + " ";
            entry.help = one.description;
            entry.needs_argument =
                !one.argument_hint.empty() && !one.argument_hint.starts_with('[');
            known.push_back(std::move(entry));
        }
    }
    known.insert(known.end(), pipeline_completions().begin(), pipeline_completions().end());
    return known;
}

}  // namespace cubepi::app
