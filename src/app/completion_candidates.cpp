#include "completion_candidates.hpp"

#include <string_view>

#include <CLI/CLI.hpp>

#include "command_tree.hpp"

namespace cubepi::app {

namespace {

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
            if (next->get_name() == name) return next;
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

}  // namespace

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

}  // namespace cubepi::app
