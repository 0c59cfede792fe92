#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "command_line.hpp"

namespace cubepi::app {

/// Adds the commands of the program and then those of plugins, with options, help and examples. Parsing fills `line`, which
/// must outlive `app`. The command line, the help, the completion and the man page all come from this tree.
void add_commands(CLI::App& app, CommandLine& line, const std::vector<bub::CliCommand>& more);

/// Type names of options and arguments, as the help shows them. Completion chooses its values by them.
namespace value_type {
inline constexpr const char* session = "SESSION";
inline constexpr const char* provider = "PROVIDER";
inline constexpr const char* model = "MODEL";
inline constexpr const char* kind = "KIND";
inline constexpr const char* shell = "SHELL";
inline constexpr const char* tape = "TAPE";
inline constexpr const char* trace = "TRACE";
inline constexpr const char* table = "TABLE";
inline constexpr const char* request_form = "FORM";
inline constexpr const char* command = "COMMAND";
inline constexpr const char* file = "FILE";
inline constexpr const char* directory = "DIR";
inline constexpr const char* database = "DATABASE";
}  // namespace value_type

// Parts of add_commands().

/// Adds an option or an argument. `type` is its type name.
template <class Value>
CLI::Option* option(CLI::App& command, const char* names, Value& value, const char* description,
                    const char* type) {
    return command.add_option(names, value, description)->type_name(type);
}

/// Adds a command of the program; `examples` follow its help.
CLI::App* add_command(CLI::App& app, CommandLine& line, Verb verb, const char* name,
                      const std::string& description, const char* examples = "");

/// Adds a subcommand that sets `target` to `value`.
template <class What>
CLI::App& add_action(CLI::App& command, const char* name, const char* description, What& target,
                     What value) {
    CLI::App* added = command.add_subcommand(name, description);
    added->footer("");
    added->callback([&target, value] { target = value; });
    return *added;
}

/// Adds the commands that show and change records: tape, trace and db.
void add_record_commands(CLI::App& app, CommandLine& line);
/// Adds the commands about MCP servers.
void add_mcp_commands(CLI::App& app, CommandLine& line);
/// Adds the commands about trusted directories.
void add_trust_commands(CLI::App& app, CommandLine& line);
/// Adds the commands about rules.
void add_permission_commands(CLI::App& app, CommandLine& line);
/// Adds --db, the database of sessions.
void add_db_option(CLI::App& command, std::string& database);
CLI::Validator positive_number();

}  // namespace cubepi::app
