#include "config_file.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string_view>

#include <sys/stat.h>

#include <yaml-cpp/yaml.h>

#include <cubepi/core/error.hpp>

#include "paths.hpp"

namespace cubepi::app {

namespace {

constexpr std::array<std::string_view, 7> known_keys{
    "provider", "model", "base_url", "api_key", "api_key_env", "providers", "allow"};
constexpr std::array<std::string_view, 5> provider_keys{"type", "base_url", "api_key",
                                                        "api_key_env", "model"};

[[noreturn]] void refuse(const std::filesystem::path& path, int line, const std::string& what) {
    throw Error(ErrorCode::parse, path.string() + ":" + std::to_string(line + 1) + ": " + what +
                                      "; see docs/cli.md for the file's keys");
}

YAML::Node load(const std::filesystem::path& path) {
    std::ifstream file(path);
    if (!file) return YAML::Node(YAML::NodeType::Map);
    std::stringstream text;
    text << file.rdbuf();
    try {
        YAML::Node node = YAML::Load(text.str());
        if (!node || node.IsNull()) return YAML::Node(YAML::NodeType::Map);
        if (!node.IsMap()) refuse(path, 0, "expected keys and values");
        return node;
    } catch (const YAML::ParserException& error) {
        refuse(path, error.mark.line, error.msg);
    }
}

std::string text(const std::filesystem::path& path, const YAML::Node& node, const char* key) {
    const YAML::Node value = node[key];
    if (!value || value.IsNull()) return {};
    if (!value.IsScalar()) refuse(path, value.Mark().line, std::string(key) + " is a text");
    return value.as<std::string>();
}

template <class Keys>
void refuse_others(const std::filesystem::path& path, const YAML::Node& node, const Keys& keys) {
    for (const auto& entry : node) {
        const std::string key = entry.first.as<std::string>();
        if (std::find(keys.begin(), keys.end(), key) == keys.end())
            refuse(path, entry.first.Mark().line, "unknown key '" + key + "'");
    }
}

ProviderConfig read_provider(const std::filesystem::path& path, const YAML::Node& name,
                             const YAML::Node& node) {
    ProviderConfig provider;
    provider.name = name.as<std::string>();
    const int line = name.Mark().line;
    if (provider.name.empty() || provider.name.find('/') != std::string::npos)
        refuse(path, line, "a provider's name is a text without '/'");
    if (!node.IsMap())
        refuse(path, line, "provider " + provider.name + " has keys (type, base_url, ...)");
    refuse_others(path, node, provider_keys);
    if (const std::string type = text(path, node, "type"); !type.empty()) {
        provider.type = provider_type(type);
        if (!provider.type) {
            refuse(path, node["type"].Mark().line,
                   "unknown type '" + type + "'; there are openai, openai-responses, anthropic");
        }
    }
    provider.base_url = text(path, node, "base_url");
    provider.api_key = text(path, node, "api_key");
    provider.api_key_env = text(path, node, "api_key_env");
    provider.model = text(path, node, "model");
    if (provider.base_url.empty() && !provider.type && !known_provider(provider.name))
        refuse(path, line, "provider " + provider.name + " has neither type nor base_url");
    return provider;
}

void read_providers(const std::filesystem::path& path, const YAML::Node& node, ConfigFile& config) {
    if (!node || node.IsNull()) return;
    if (!node.IsMap()) refuse(path, node.Mark().line, "providers has a name for each");
    for (const auto& entry : node)
        config.providers.push_back(read_provider(path, entry.first, entry.second));
    for (const ProviderConfig& provider : config.providers) {
        if (provider.name != config.provider) continue;
        if (!config.base_url.empty() || !config.api_key.empty() || !config.api_key_env.empty()) {
            refuse(path, node.Mark().line - 1,
                   "base_url, api_key and api_key_env of the provider " + provider.name +
                       " belong to its entry here");
        }
    }
}

bool has_secret(const ConfigFile& config) {
    return !config.api_key.empty() ||
           std::any_of(config.providers.begin(), config.providers.end(),
                       [](const ProviderConfig& one) { return !one.api_key.empty(); });
}

}  // namespace

ConfigFile read_config(const std::filesystem::path& path) {
    const YAML::Node node = load(path);
    refuse_others(path, node, known_keys);
    ConfigFile config;
    config.provider = text(path, node, "provider");
    config.model = text(path, node, "model");
    config.base_url = text(path, node, "base_url");
    config.api_key = text(path, node, "api_key");
    config.api_key_env = text(path, node, "api_key_env");
    read_providers(path, node["providers"], config);
    if (const YAML::Node allow = node["allow"]; allow && !allow.IsNull()) {
        if (!allow.IsSequence()) refuse(path, allow.Mark().line, "allow is a list of rules");
        for (const YAML::Node& rule : allow) config.allow.push_back(rule.as<std::string>());
    }
    struct stat info = {};
    config.too_open =
        has_secret(config) && stat(path.c_str(), &info) == 0 && (info.st_mode & 077) != 0;
    return config;
}

void save_allow_rule(const std::filesystem::path& path, const std::string& rule) {
    YAML::Node node = load(path);
    node["allow"].push_back(rule);
    make_private_folder(path);
    std::filesystem::path fresh = path;
    fresh += ".new";
    {
        const mode_t before = umask(077);
        std::ofstream file(fresh);
        umask(before);
        file << node << '\n';
        file.flush();
        if (!file) throw Error(ErrorCode::io, "cannot write " + fresh.string());
    }
    std::error_code failed;
    std::filesystem::rename(fresh, path, failed);
    if (failed)
        throw Error(ErrorCode::io, "cannot write " + path.string() + ": " + failed.message());
}

}  // namespace cubepi::app
