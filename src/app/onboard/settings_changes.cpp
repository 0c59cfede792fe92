#include "settings_changes.hpp"

#include <string_view>

namespace cubepi::app {

namespace {

bool is_secret(std::string_view name) {
    if (name.ends_with("_env")) return false;
    for (const char* word : {"key", "token", "secret", "password"}) {
        if (name.find(word) != std::string_view::npos) return true;
    }
    return false;
}

std::string shown(std::string_view name, const Json& value) {
    if (!value.is_string()) return is_secret(name) ? "set" : boost::json::serialize(value);
    std::string text(value.get_string());
    if (!is_secret(name)) return text;
    return text.size() < 12 ? "set" : "..." + text.substr(text.size() - 4);
}

}  // namespace

std::string settings_changes(const JsonObject& before, const JsonObject& wanted,
                             const std::string& path) {
    std::string text;
    for (const auto& [key, value] : before) {
        if (!wanted.contains(key)) text += "  " + path + std::string(key) + ": removed\n";
    }
    for (const auto& [key, value] : wanted) {
        const std::string name = path + std::string(key);
        const Json* old = before.if_contains(key);
        if (old && *old == value) continue;
        if (const JsonObject* object = value.if_object()) {
            const JsonObject* known = old ? old->if_object() : nullptr;
            text += settings_changes(known ? *known : JsonObject(), *object, name + ".");
            continue;
        }
        text += "  " + name + ": " + shown(key, value);
        if (old) text += " (was " + shown(key, *old) + ")";
        text += "\n";
    }
    return text;
}

}  // namespace cubepi::app
