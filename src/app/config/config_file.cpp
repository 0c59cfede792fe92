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

constexpr std::array<std::string_view, 6> known_keys{"provider", "model",       "base_url",
                                                     "api_key",  "api_key_env", "allow"};

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

}  // namespace

ConfigFile read_config(const std::filesystem::path& path) {
    const YAML::Node node = load(path);
    for (const auto& entry : node) {
        const std::string key = entry.first.as<std::string>();
        if (std::find(known_keys.begin(), known_keys.end(), key) == known_keys.end()) {
            refuse(path, entry.first.Mark().line, "unknown key '" + key + "'");
        }
    }
    ConfigFile config;
    config.provider = text(path, node, "provider");
    config.model = text(path, node, "model");
    config.base_url = text(path, node, "base_url");
    config.api_key = text(path, node, "api_key");
    config.api_key_env = text(path, node, "api_key_env");
    if (const YAML::Node allow = node["allow"]; allow && !allow.IsNull()) {
        if (!allow.IsSequence()) refuse(path, allow.Mark().line, "allow is a list of rules");
        for (const YAML::Node& rule : allow) config.allow.push_back(rule.as<std::string>());
    }
    struct stat info = {};
    config.too_open =
        !config.api_key.empty() && stat(path.c_str(), &info) == 0 && (info.st_mode & 077) != 0;
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
