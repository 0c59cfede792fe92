#include "shared_options.hpp"

#include <CLI/CLI.hpp>

#include "config/tape_place.hpp"

namespace cubepi::app {

namespace {

/// An empty name comes from an unset variable of a script, and nothing would be saved.
std::string check_session_name(const std::string& text) {
    return text.empty() ? "the session name is empty" : std::string();
}

std::string check_session_database(const std::string& text) {
    if (is_postgres_url(text)) return {};
    // Not the text itself, which may have a password.
    return "the value is not the URL of a PostgreSQL database (postgres://...)";
}

}  // namespace

CLI::Validator positive_number() {
    CLI::Validator check;
    check.name("");
    check.operation([](std::string& text) -> std::string {
        const bool number = !text.empty() && text.size() < 10 &&
                            text.find_first_not_of("0123456789") == std::string::npos &&
                            text.find_first_not_of('0') != std::string::npos;
        return number ? std::string() : "'" + text + "' is not a positive number";
    });
    return check;
}

void add_endpoint_flags(CLI::App& command, ModelFlags& flags) {
    command
        .add_option("--provider", flags.provider,
                    "openai, openai-responses, anthropic, openrouter, ollama, ..., or one of "
                    "the configuration")
        ->type_name(value_type::provider);
    command
        .add_option("--base-url", flags.base_url,
                    "Server of the provider (OpenAI-compatible if none is named), e.g. "
                    "http://localhost:11434/v1")
        ->type_name("URL");
    command
        .add_option("--api-key-env", flags.api_key_env,
                    "Environment variable that has the key for that server")
        ->type_name("NAME");
}

void add_session_option(CLI::App& command, std::string& session, const char* description) {
    command.add_option("-s,--session", session, description)
        ->check(check_session_name)
        ->type_name(value_type::session);
}

void add_model_flags(CLI::App& command, ModelFlags& flags) {
    command
        .add_option("-m,--model", flags.model,
                    "Model id, e.g. gpt-5.1 or anthropic/claude-sonnet-4-5")
        ->type_name(value_type::model);
    add_endpoint_flags(command, flags);
    command.add_flag("--offline", flags.offline, "Use the scripted model: no network, no key");
    command
        .add_option("--script", flags.script,
                    "Answers of the offline model, a JSON file (format: man cubepi)")
        ->type_name(value_type::file);
}

void add_db_option(CLI::App& command, std::string& database) {
    command
        .add_option("--db", database,
                    "PostgreSQL database of the sessions, instead of files: postgres://...")
        ->check(check_session_database)
        ->type_name(value_type::database);
}

void add_log_flags(CLI::App& command, LogFlags& flags) {
    command
        .add_option("--log-level", flags.level,
                    "Write a log to standard error: debug, info, warning, error (or CUBEPI_LOG)")
        ->type_name("LEVEL");
    command.add_option("--log-format", flags.format, "Format of the log: text or json")
        ->type_name("FORMAT");
}

}  // namespace cubepi::app
