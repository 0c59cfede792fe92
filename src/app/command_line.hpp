#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <bub/hooks.hpp>

#include "tape.hpp"

namespace cubepi::app {

/// Which model to ask, as far as flags say.
struct ModelFlags {
    std::string provider = {};
    std::string model = {};
    std::string base_url = {};
    bool offline = false;
    std::string script = {};  ///< answers of the offline model, a JSON file
};

/// How a conversation is run.
struct ConversationFlags {
    ModelFlags model = {};
    std::string session = {};
    bool continue_last = false;
    bool yes = false;
    bool json = false;
    bool no_tools = false;
    std::string system_prompt = {};
    int max_turns = 0;  ///< 0: the library's own limit
};

enum class Verb {
    none,
    run,
    chat,
    demo,
    models,
    onboard,
    doctor,
    hooks,
    sessions_list,
    sessions_delete,
    tape,
    completion,
    demo_step,
    plugin
};

/// Registers plugins besides the builtin one; null: there are none.
using AddPlugins = std::function<void(bub::Framework& framework)>;

/// What the command line asks for.
struct CommandLine {
    Verb verb = Verb::none;
    ConversationFlags conversation = {};
    TapeArguments tape = {};
    std::vector<std::string> words =
        {};  ///< the prompt's or a filter's words, a session's or shell's name, a plugin command's arguments
    bool key_from_input = false;      ///< onboard: the key is on standard input
    bool fast = false;                ///< demo: without waiting
    bool all = false;                 ///< sessions: those of all folders
    std::string plugin_command = {};  ///< plugin: which of the plugins' commands
    AddPlugins plugins = {};          ///< set by run_program
    std::string demo_tapes = {};
    std::string demo_folder = {};
    std::optional<int> exit_code =
        {};  ///< set when there is nothing to run: help was shown, or a flag is wrong
};

/// Never throws for wrong flags: says what is wrong on stderr and sets exit_code. `more` are the commands of plugins; what
/// follows their names is theirs. Their names are none of own_command_names().
CommandLine parse_command_line(int argc, char** argv,
                               const std::vector<bub::CliCommand>& more = {});

/// The names of the program's own commands.
std::vector<std::string> own_command_names();

}  // namespace cubepi::app
