#pragma once

#include <filesystem>
#include <string>
#include <vector>

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
///     allow: ["shell: git status"]   # what tools may do without asking
struct ConfigFile {
    std::string provider = {};
    std::string model = {};
    std::string base_url = {};
    std::string api_key = {};
    std::string api_key_env = {};
    std::vector<ProviderConfig> providers = {};  ///< in the file's order
    std::vector<std::string> allow = {};
    /// The file has a key and others may read it.
    bool too_open = false;
};

/// Empty when there is no file. Throws Error(parse) with file and line for one that is no YAML or has unknown keys.
ConfigFile read_config(const std::filesystem::path& path);

/// Adds a rule to `allow`, keeping the rest of the file; makes the file (0600) when there is none. Throws Error(io).
void save_allow_rule(const std::filesystem::path& path, const std::string& rule);

}  // namespace cubepi::app
