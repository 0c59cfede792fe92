#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <bub/hooks.hpp>
#include <cubepi/core/run.hpp>

#include "command_tree.hpp"
#include "config/config_file.hpp"
#include "config/paths.hpp"
#include "config/provider_kinds.hpp"
#include "failure.hpp"
#include "program.hpp"
#include "saved_sessions.hpp"
#include "shell_quoting.hpp"
#include "terminal/terminal_stream.hpp"
#include "trace/trace_views.hpp"
#include "trace/traces.hpp"

namespace cubepi::app {

namespace {

struct Candidate {
    std::string value = {};
    std::string description = {};
};

/// The possible words at the cursor of a command line.
struct Candidates {
    enum class Files { none, any, directories };
    Files files = Files::none;  ///< names that the shell completes itself
    std::vector<Candidate> list = {};
};

/// Returns the values of a type of command_tree.hpp.
using ListValues = std::function<std::vector<Candidate>(const std::string& type)>;

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Follows the words of a command line through the tree of commands.
class Walk {
public:
    Walk(const CLI::App& root, const ListValues& values)
        : root_(root), command_(&root), values_(values) {}

    void take(const std::string& word) {
        if (pending_) {
            pending_ = nullptr;
        } else if (!only_arguments_ && word == "--") {
            only_arguments_ = true;
        } else if (!only_arguments_ && word.size() > 1 && word.starts_with('-')) {
            const CLI::Option* option = find_option(word);
            const bool with_value = word.find('=') != std::string::npos;
            if (option && takes_value(*option) && !with_value) pending_ = option;
        } else if (const CLI::App* next = find_command(word)) {
            // After `help` come the names of commands.
            command_ = word == "help" && command_ == &root_ ? &root_ : next;
            arguments_ = 0;
        } else {
            ++arguments_;
        }
    }

    Candidates at(const std::string& word) const {
        if (pending_) return values_of(*pending_, {});
        if (only_arguments_ || !word.starts_with('-')) return arguments();
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos) return options();
        const std::string name = word.substr(0, equals);
        const CLI::Option* option = find_option(name);
        return option && takes_value(*option) ? values_of(*option, name + "=") : Candidates();
    }

private:
    template <class See>
    void each_option(See see) const {
        for (const CLI::App* from = command_; from;
             from = from->get_fallthrough() ? from->get_parent() : nullptr) {
            for (const CLI::Option* option : from->get_options()) see(*option);
        }
    }

    const CLI::Option* find_option(const std::string& word) const {
        const std::string name = word.substr(0, word.find('='));
        const CLI::Option* found = nullptr;
        each_option([&](const CLI::Option& option) {
            if (!found && !option.get_positional() && option.check_name(name)) found = &option;
        });
        return found;
    }

    const CLI::App* find_command(const std::string& name) const {
        for (const CLI::App* next : command_->get_subcommands([](const CLI::App*) { return true; }))
            if (next->check_name(name)) return next;
        return nullptr;
    }

    Candidates options() const {
        Candidates found;
        each_option([&found](const CLI::Option& option) {
            for (const std::string& name : option.get_lnames())
                found.list.push_back({"--" + name, option.get_description()});
            for (const std::string& name : option.get_snames())
                found.list.push_back({"-" + name, option.get_description()});
        });
        return found;
    }

    Candidates arguments() const {
        Candidates found;
        if (arguments_ == 0) {
            for (const CLI::App* next :
                 command_->get_subcommands([](const CLI::App*) { return true; })) {
                if (!next->get_group().empty())
                    found.list.push_back({next->get_name(), first_line(next->get_description())});
            }
        }
        if (!found.list.empty()) return found;
        std::size_t place = 0;
        for (const CLI::Option* option : command_->get_options()) {
            if (!option->get_positional()) continue;
            const bool is_repeated = option->get_items_expected_max() > 1;
            if (place++ == arguments_ || is_repeated) return values_of(*option, {});
        }
        return found;
    }

    Candidates values_of(const CLI::Option& option, const std::string& prefix) const {
        Candidates found;
        const std::string type = option.get_type_name();
        if (type == value_type::file) found.files = Candidates::Files::any;
        if (type == value_type::directory) found.files = Candidates::Files::directories;
        found.list = values_(type);
        for (Candidate& one : found.list) one.value.insert(0, prefix);
        return found;
    }

    const CLI::App& root_;
    const CLI::App* command_;
    const ListValues& values_;
    const CLI::Option* pending_ = nullptr;  // the option whose value comes next
    std::size_t arguments_ = 0;             // of the command, before the cursor
    bool only_arguments_ = false;
};

/// `before` are the words between the program's name and the cursor, `word` the start of the one at the cursor. The list is
/// not filtered by `word`, which only decides between options and other arguments.
Candidates candidates_for(const std::vector<std::string>& before, const std::string& word,
                          const std::vector<bub::CliCommand>& more, const ListValues& values) {
    CommandLine line;
    CLI::App app;
    add_commands(app, line, more);
    Walk walk(app, values);
    // Without a command the options are those of `chat`.
    if (!before.empty() && before.front().starts_with('-')) walk.take("chat");
    for (const std::string& one : before) walk.take(one);
    return walk.at(word);
}

// The scripts ask the program for candidates and never evaluate an answer: the answers are separated by NUL, and
// names of sessions are untrusted data. The first field selects the file names that the shell completes itself.

// The program quotes for bash, since `complete -F` inserts the answer as it is. $2 is the part of the line that readline
// replaces.
constexpr const char* bash_script =
    R"script(# cubepi completion for bash. Put this into ~/.bashrc:  source <(cubepi completion bash)
_cubepi() {
    local files='' candidate
    COMPREPLY=()
    {
        IFS= read -r -d '' files
        while IFS= read -r -d '' candidate; do COMPREPLY+=("$candidate"); done
    } < <(command cubepi __complete bash "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    case "$files" in
        any) compopt -o default ;;
        directories) compopt -o dirnames ;;
    esac
}
complete -F _cubepi cubepi
)script";

// ${(Q)...} removes quotes without expanding anything; compadd quotes what it inserts.
constexpr const char* zsh_script =
    R"script(#compdef cubepi
# cubepi completion for zsh. Put this into ~/.zshrc, after compinit:  source <(cubepi completion zsh)
_cubepi() {
    emulate -L zsh
    local -a answer values shown before
    local value description
    before=("${(@Q)words[2,CURRENT-1]}")
    (( CURRENT > 2 )) || before=()
    answer=("${(@0)$(command cubepi __complete words "${before[@]}" "${(Q)PREFIX}" 2>/dev/null)}")
    case "$answer[1]" in
        any) _files; return ;;
        directories) _files -/; return ;;
    esac
    shift answer
    while (( $#answer > 1 )); do
        value="$answer[1]" description="$answer[2]"
        shift 2 answer
        values+=("$value")
        shown+=("${(V)value}${description:+  -- ${(V)description}}")
    done
    compadd -l -d shown -a values
}
compdef _cubepi cubepi
)script";

// split0 keeps line breaks inside of an answer; fish quotes what it inserts, except for a ~ at the start. A candidate ends
// at its first tab, after which fish expects the description.
constexpr const char* fish_script =
    R"script(# cubepi completion for fish. Save it:  cubepi completion fish > ~/.config/fish/completions/cubepi.fish
function __cubepi_complete
    set -l words (commandline -opc)
    set -l answer (command cubepi __complete fish $words[2..] (commandline -ct) 2>/dev/null | string split0)
    set -l word (commandline -ct)
    switch "$answer[1]"
        case any
            __fish_complete_path "$word"
        case directories
            __fish_complete_directories "$word" ''
    end
    test (count $answer) -gt 1; and string join0 -- $answer[2..] | string split0
end
complete -c cubepi -f -a '(__cubepi_complete)'
)script";

Task<std::vector<Candidate>> session_names() {
    SavedSessions saved = SavedSessions::here();
    std::vector<SavedSession> sessions = co_await saved.on_tapes(SessionsOf::directory);
    try {
        std::vector<SavedSession> older = co_await saved.in_database();
        for (SavedSession& one : older) sessions.push_back(std::move(one));
    } catch (const Error&) {
        // A damaged database hides its sessions, not those on tapes.
    }
    newest_first(sessions);
    std::vector<Candidate> names;
    for (SavedSession& one : sessions) names.push_back({std::move(one.name), {}});
    co_return names;
}

std::vector<Candidate> provider_names() {
    std::vector<Candidate> names;
    for (const KnownProvider& known : known_providers())
        names.push_back({std::string(known.name), std::string(known.title)});
    for (const ProviderConfig& one : read_config(config_path()).providers) {
        if (!known_provider(one.name)) names.push_back({one.name, "of the configuration"});
    }
    return names;
}

Task<std::vector<Candidate>> tape_names() {
    std::vector<Candidate> names;
    const std::vector<std::string> tapes = co_await SavedSessions::here().tapes()->all_tapes();
    for (const std::string& name : tapes) names.push_back({name, {}});
    co_return names;
}

std::vector<Candidate> trace_ids() {
    std::vector<Candidate> ids;
    // The names of the files only: reading all of them would take too long.
    for (const TraceFiles& files : list_trace_files(trace_directory({}))) {
        if (is_trace_id(files.name)) ids.push_back({files.name, files.day});
    }
    return ids;
}

std::vector<Candidate> values_of(const std::string& type) {
    try {
        if (type == value_type::session) return run(session_names());
        if (type == value_type::provider) return provider_names();
        if (type == value_type::tape) return run(tape_names());
        if (type == value_type::trace) return trace_ids();
    } catch (const std::exception&) {
        return {};  // a completion has nowhere to report to; the command itself does
    }
    if (type == value_type::shell) return {{"bash", {}}, {"zsh", {}}, {"fish", {}}};
    if (type == value_type::request_form) return {{"curl", {}}};
    if (type == value_type::table) return {{"model", {}}, {"tool", {}}};
    if (type == value_type::kind) {
        return {
            {"message", {}}, {"tool_call", {}}, {"tool_result", {}}, {"anchor", {}}, {"event", {}}};
    }
    return {};
}

std::string files_field(Candidates::Files files) {
    if (files == Candidates::Files::any) return "any";
    return files == Candidates::Files::directories ? "directories" : "none";
}

void print_field(const std::string& text) { data_output(text + std::string(1, '\0')); }

/// The answer for bash: `line` up to the cursor; `replaced` is the end of it that readline replaces, without a quote that
/// is open there.
void complete_bash(const std::string& line, const std::string& replaced,
                   const std::vector<bub::CliCommand>& commands) {
    ShellLine typed = split_shell_line(line);
    if (typed.words.empty() || !typed.raw.ends_with(replaced)) return print_field("none");
    typed.words.erase(typed.words.begin());
    Candidates found;
    if (typed.redirection) {
        found.files = Candidates::Files::any;
    } else {
        found = candidates_for(typed.words, typed.word, commands, values_of);
    }
    std::string saved = typed.raw.substr(0, typed.raw.size() - replaced.size());
    if (typed.quote != ShellQuote::backslash && !saved.empty()) {
        // Readline takes the open quote for a part of what it replaces if the answer begins with it.
        saved.pop_back();
        if (typed.quote == ShellQuote::ansi_c && saved.ends_with('$')) saved.pop_back();
    }
    const std::size_t prefix = split_shell_line(saved).word.size();
    print_field(files_field(found.files));
    for (const Candidate& one : found.list) {
        if (one.value.starts_with(typed.word))
            print_field(quoted_for_shell(one.value.substr(prefix), typed.quote));
    }
}

/// The answer for shells that quote and filter on their own.
void complete_words(std::vector<std::string> words, bool for_fish,
                    const std::vector<bub::CliCommand>& commands) {
    if (words.empty()) return;
    const std::string word = std::move(words.back());
    words.pop_back();
    const Candidates found = candidates_for(words, word, commands, values_of);
    print_field(files_field(found.files));
    for (const Candidate& one : found.list) {
        if (!for_fish) {
            print_field(one.value);
            print_field(one.description);
        } else if (one.value.find('\t') == std::string::npos && !one.value.starts_with('~')) {
            print_field(one.value + '\t' + one.description);
        }
    }
}

}  // namespace

int complete_command(const CommandLine& line, const std::vector<bub::CliCommand>& commands) {
    std::vector<std::string> words = line.words;
    if (words.empty()) return exit_usage;
    const std::string shell = std::move(words.front());
    words.erase(words.begin());
    if (shell == "bash" && words.size() == 2) {
        complete_bash(words[0], words[1], commands);
    } else if (shell == "words" || shell == "fish") {
        complete_words(std::move(words), shell == "fish", commands);
    } else {
        return exit_usage;
    }
    return exit_ok;
}

int completion_command(const CommandLine& line) {
    const std::string shell = line.words.empty() ? std::string() : line.words.front();
    if (shell == "bash") {
        data_output(bash_script);
    } else if (shell == "zsh") {
        data_output(zsh_script);
    } else if (shell == "fish") {
        data_output(fish_script);
    } else {
        err() << "cubepi: no completion script for '" << for_terminal(shell)
              << "'; expected bash, zsh or fish.\n  Example: cubepi completion bash\n";
        return exit_usage;
    }
    return exit_ok;
}

}  // namespace cubepi::app
