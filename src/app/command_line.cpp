#include "command_line.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <bub/close_matches.hpp>

#include "command_tree.hpp"
#include "failure.hpp"
#include "shell_quoting.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

using Words = std::vector<std::string>;

constexpr const char* description = "An agent at your terminal.";

bool is_option(std::string_view word) { return word.size() > 1 && word.starts_with('-'); }

bool is_ascii_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

/// Whether a first argument that names no command is a prompt. A single ASCII word is not: it could be a misspelt command,
/// and a prompt costs money. Languages that are written without spaces are not ASCII.
bool is_prompt(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](char c) {
        return is_ascii_space(c) || static_cast<unsigned char>(c) >= 0x80;
    });
}

bool is_blank(std::string_view text) {
    return std::all_of(text.begin(), text.end(), is_ascii_space);
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        if (command->check_name(name)) return command;
    }
    return nullptr;
}

Words visible_commands(const CLI::App& app) {
    Words names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        if (!command->get_group().empty()) names.push_back(command->get_name());
    }
    return names;
}

/// "; did you mean 'chat'?", or nothing.
std::string suggestion(std::string_view word, const Words& names) {
    const Words close = bub::close_matches(word, names);
    return close.empty() ? std::string() : "; did you mean '" + close.front() + "'?";
}

/// The parsed command, with a space before each of its words; empty: none.
std::string command_of(const CLI::App& app) {
    std::string names;
    for (const CLI::App* last = &app; !last->get_subcommands().empty();) {
        last = last->get_subcommands().front();
        names += " " + last->get_name();
    }
    return names;
}

const CLI::App& parsed_command(const CLI::App& app) {
    const CLI::App* last = &app;
    while (!last->get_subcommands().empty()) last = last->get_subcommands().front();
    return *last;
}

Words option_names(const CLI::App& command) {
    Words names;
    for (const CLI::Option* option : command.get_options()) {
        for (const std::string& name : option->get_lnames()) names.push_back(name);
    }
    return names;
}

/// The first command that has the option; empty: none.
std::string command_with_option(const CLI::App& app, const std::string& name) {
    for (const std::string& command : visible_commands(app)) {
        const Words options = option_names(*find_command(app, command));
        if (std::find(options.begin(), options.end(), name) != options.end()) return command;
    }
    return {};
}

std::string unknown_option(const CLI::App& app, const std::string& given) {
    const std::string option = given.substr(0, given.find('='));
    const std::string name = option.substr(option.find_first_not_of('-'));
    std::string text = "unknown option '" + visible(option) + "'";
    Words close;
    if (option.starts_with("--"))
        close = bub::close_matches(name, option_names(parsed_command(app)));
    if (!close.empty()) return text + "; did you mean '--" + close.front() + "'?";
    const std::string other = command_with_option(app, name);
    return other.empty() ? text : text + "; it is an option of 'cubepi " + other + "'";
}

/// Describes an error; uses the text of CLI11 if it is sufficient.
std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
    const auto is = [&error](CLI::ExitCodes code) {
        return error.get_exit_code() == static_cast<int>(code);
    };
    const Words left = app.remaining(true);
    const CLI::App& command = parsed_command(app);
    if (is(CLI::ExitCodes::ExtrasError) && !left.empty()) {
        if (is_option(left.front())) return unknown_option(app, left.front());
        return "unexpected argument '" + visible(left.front()) + "'";
    }
    const Words names = visible_commands(command);
    if (is(CLI::ExitCodes::RequiredError) && !names.empty() && &command != &app) {
        if (!left.empty() && !is_option(left.front())) {
            return "'" + visible(left.front()) + "' is not a command of 'cubepi" + command_of(app) +
                   "'" + suggestion(left.front(), names);
        }
        std::string list;
        for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
        return "'cubepi" + command_of(app) + "' needs a command: " + list;
    }
    return error.what();
}

/// A first argument that is neither a command nor a prompt.
std::string not_a_command(const CLI::App& app, const std::string& word) {
    if (is_blank(word)) {
        return "the prompt is empty.\n"
               "  Start a chat: cubepi chat. Ask one question: cubepi run \"PROMPT\"";
    }
    const std::string shown = shell_word(word);
    return "'" + visible(word) + "' is not a command" + suggestion(word, visible_commands(app)) +
           "\n  To use it as a prompt: cubepi run " + shown + " or cubepi chat " + shown +
           "\n  To list the commands: cubepi help";
}

/// `help COMMAND...` becomes `COMMAND... --help`. Empty: there is no such command, which is reported.
Words help_request(const CLI::App& app, Words names) {
    names.erase(names.begin());
    const CLI::App* command = &app;
    for (const std::string& name : names) {
        const CLI::App* next = find_command(*command, name);
        if (!next) {
            err() << "cubepi: '" << spelled_out(name) << "' is not a command"
                  << for_terminal(suggestion(name, visible_commands(*command)))
                  << "\n  To list the commands: cubepi help\n";
            return {};
        }
        command = next;
    }
    names.emplace_back("--help");
    return names;
}

/// Describes an option whose value is empty, as that of an unset variable of a script; empty: there is none. Of `--name=`, CLI11 would take the next argument for the value.
std::string empty_value(const CLI::App& app, const Words& words) {
    const auto problem = [](const std::string& name) {
        const std::string what = name == "--session" ? "the session name" : "the value of " + name;
        return what + " is empty.\n  Write a value after it, or omit " + name;
    };
    for (const std::string& word : words) {
        if (word == "--") break;
        if (word.starts_with("--") && word.find('=') == word.size() - 1)
            return problem(visible(word.substr(0, word.size() - 1)));
    }
    for (const CLI::App* command = &app; command;) {
        for (const CLI::Option* option : command->get_options()) {
            const Words& values = option->results();
            if (!option->get_positional() && option->get_type_size() > 0 &&
                std::find(values.begin(), values.end(), "") != values.end())
                return problem(option->get_name());
        }
        const auto chosen = command->get_subcommands();
        command = chosen.empty() ? nullptr : chosen.front();
    }
    return {};
}

class Parser {
public:
    Parser(const std::vector<bub::CliCommand>& more, bool terminal, bool piped)
        : app_(description, "cubepi"), terminal_(terminal), piped_(piped) {
        add_commands(app_, line_, more);
    }

    CommandLine parse(Words words) {
        if (!words.empty() && words.front() == "help") {
            words = help_request(app_, std::move(words));
            if (words.empty()) return failed();
        } else if (!names_command(words)) {
            if (!may_be_prompt(words)) return failed();
            words.insert(words.begin(), terminal_ ? "chat" : "run");
            implicit_ = true;
        }
        const Words given = words;
        std::reverse(words.begin(), words.end());  // the order that CLI11 expects
        try {
            app_.parse(std::move(words));
        } catch (const CLI::ParseError& error) {
            if (!refuse_empty_value(given)) report(error);
            return std::move(line_);
        }
        if (line_.verb != Verb::plugin && refuse_empty_value(given)) return std::move(line_);
        if (implicit_ && !line_.words.empty() && !check_prompt()) return failed();
        const ConversationFlags& flags = line_.conversation;
        if (flags.no_save && (flags.continue_last || !flags.session.empty()))
            return refused("--no-save cannot be combined with --session or --continue");
        if (flags.continue_last && !flags.session.empty())
            return refused("--continue cannot be combined with --session, which names another");
        return std::move(line_);
    }

private:
    CommandLine refused(const char* problem) {
        err() << "cubepi: " << for_terminal(std::string(problem))
              << ".\n  Options and examples: cubepi help chat\n";
        return failed();
    }

    bool names_command(const Words& words) const {
        static constexpr std::string_view own_options[] = {"-h", "--help", "-V", "--version"};
        if (words.empty()) return false;
        return find_command(app_, words.front()) ||
               std::find(std::begin(own_options), std::end(own_options), words.front()) !=
                   std::end(own_options);
    }

    /// Without a command: whether the arguments can start a chat or a run. Reports why they cannot.
    bool may_be_prompt(const Words& words) const {
        if (words.empty() && !terminal_ && !piped_) {
            err() << "cubepi: a chat needs a terminal; standard input or output is not one.\n"
                     "  Ask one question: cubepi run \"PROMPT\". All commands: cubepi help\n";
            return false;
        }
        if (words.size() == 1 && words.front() == "-" && !terminal_) return true;
        if (words.empty() || is_option(words.front()) || is_prompt(words.front())) {
            if (words.empty() || !is_blank(words.front())) return true;
        }
        err() << "cubepi: " << for_terminal(not_a_command(app_, words.front())) << "\n";
        return false;
    }

    /// The first argument after options.
    bool check_prompt() const {
        const std::string& first = line_.words.front();
        if (find_command(app_, first)) {
            err() << "cubepi: the command '" << for_terminal(first)
                  << "' must come before its options.\n  Write: cubepi " << for_terminal(first)
                  << " [OPTIONS]\n";
            return false;
        }
        if (is_prompt(first) && !is_blank(first)) return true;
        if (first == "-" && !terminal_) return true;
        err() << "cubepi: " << for_terminal(not_a_command(app_, first)) << "\n";
        return false;
    }

    bool refuse_empty_value(const Words& words) {
        const std::string problem = empty_value(app_, words);
        if (problem.empty()) return false;
        err() << "cubepi: " << for_terminal(problem) << "\n  Options and examples: cubepi help"
              << for_terminal(command_of(app_)) << "\n";
        line_.exit_code = exit_usage;
        return true;
    }

    void report(const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) {
            line_.exit_code = app_.exit(error);
            return;
        }
        err() << "cubepi: " << for_terminal(complaint(app_, error)) << "\n  Options and examples: "
              << "cubepi help" << for_terminal(command_of(app_)) << "\n";
        line_.exit_code = exit_usage;
    }

    CommandLine failed() {
        line_.exit_code = exit_usage;
        return std::move(line_);
    }

    CommandLine line_;
    CLI::App app_;
    bool terminal_;
    bool piped_;
    bool implicit_ = false;
};

}  // namespace

std::string prompt_of(const std::vector<std::string>& words) {
    std::string prompt;
    for (const std::string& word : words) prompt += (prompt.empty() ? "" : " ") + word;
    return prompt;
}

bool at_terminal() noexcept { return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1; }

bool input_is_piped() noexcept {
    struct stat info = {};
    return fstat(STDIN_FILENO, &info) == 0 &&
           (S_ISFIFO(info.st_mode) || S_ISREG(info.st_mode) || S_ISSOCK(info.st_mode));
}

CommandLine parse_command_line(int argc, char** argv, const std::vector<bub::CliCommand>& more,
                               bool terminal, bool piped) {
    Words words(argv + std::min(argc, 1), argv + argc);
    if (!words.empty() && words.front() == "__complete") {
        CommandLine line;
        line.verb = Verb::complete;
        line.words.assign(words.begin() + 1, words.end());
        return line;
    }
    return Parser(more, terminal, piped).parse(std::move(words));
}

std::vector<std::string> own_command_names() {
    CommandLine line;
    CLI::App app;
    add_commands(app, line, {});
    Words names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(command->get_name());
    return names;
}

}  // namespace cubepi::app
