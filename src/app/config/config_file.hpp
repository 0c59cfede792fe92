#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/workspace/environment.hpp>

#include "endpoint.hpp"

namespace cubepi::app {

/// What ~/.config/cubepi/config.yaml says. All keys are optional:
///
///     model: gpt-5.1
///     base_url: https://api.openai.com/v1
///     api_key: sk-...                # or api_key_env: the name of a variable
///     provider: work                 # the provider to use when flags name none
///     providers:
///       work: {type: anthropic, base_url: https://llm.example.com, api_key_env: WORK_KEY, model: m}
///     fallback_models: [anthropic/claude-sonnet-4-5]   # asked in turn when the model does not answer
///     model_timeout: 300             # seconds for one call of a model, all in all
///     max_turns: 50                  # model calls of one prompt
///     max_tokens: 8192               # of one answer
///     allow: ["shell: ls *"]         # what tools may do without asking
///     environment: {inherit: all, exclude: [], include: []}   # variables that commands get
///     plugins: {name: ...}           # what plugins keep; theirs alone
struct ConfigFile {
    std::string provider = {};
    std::string model = {};
    std::string base_url = {};
    std::string api_key = {};
    std::string api_key_env = {};
    std::vector<ProviderConfig> providers = {};  ///< in the file's order
    std::vector<std::string> fallback_models = {};
    std::optional<std::chrono::milliseconds> model_timeout = {};
    std::optional<std::size_t> max_turns = {};
    std::optional<std::int64_t> max_tokens = {};
    std::vector<std::string> allow = {};
    EnvironmentPolicy environment = {};  ///< of commands
    /// The file has a key, and its group or others may read it.
    bool too_open = false;
};

/// Empty when there is no file. Throws Error(parse) with file and line for one that is no YAML or has unknown keys.
ConfigFile read_config(const std::filesystem::path& path);

/// For ConfigFile::too_open: what is wrong, and the command that repairs it; one line.
std::string open_key_file_note(const std::filesystem::path& path);

/// All that the file says, also what is not the program's; empty when there is none. Throws Error(parse).
JsonObject config_values(const std::filesystem::path& path);

/// Makes the file say `wanted` where it said `before`: comments and all that does not change stay. It is written whole or
/// not at all, for its owner alone (0600). Throws Error(parse) when that would be no proper configuration,
/// Error(invalid_state) when somebody else has changed it meanwhile, Error(io).
void save_config(const std::filesystem::path& path, const JsonObject& before,
                 const JsonObject& wanted);

/// Adds a rule to `allow`, keeping the rest of the file; makes the file (0600) when there is none. Throws like save_config.
void save_allow_rule(const std::filesystem::path& path, const std::string& rule);

}  // namespace cubepi::app
