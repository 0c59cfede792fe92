#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "command_tree.hpp"

// Options that several commands have.
namespace cubepi::app {

CLI::Validator positive_number();

/// --provider, --base-url and --api-key-env.
void add_endpoint_flags(CLI::App& command, ModelFlags& flags);
/// --model, those of the endpoint, --offline and --script.
void add_model_flags(CLI::App& command, ModelFlags& flags);
void add_session_option(CLI::App& command, std::string& session, const char* description);
/// --db, the database of sessions.
void add_db_option(CLI::App& command, std::string& database);
void add_log_flags(CLI::App& command, LogFlags& flags);

}  // namespace cubepi::app
