#include <bub/builtin/settings.hpp>

#include <yaml-cpp/yaml.h>

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <utility>

#include <unistd.h>

#include <cubepi/core/error.hpp>

extern char** environ;

namespace bub {

namespace {

[[noreturn]] void refuse(const std::string& where, std::string_view expected) {
    throw cubepi::Error(cubepi::ErrorCode::parse, where + ": expected " + std::string(expected));
}

std::string lower(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

std::int64_t number(const std::string& where, const std::string& text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value <= 0) {
        refuse(where, "a number above 0");
    }
    return value;
}

std::chrono::milliseconds seconds(const std::string& where, const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(value >= 0) || value > 1e9) {
        refuse(where, "a number of seconds");
    }
    return std::chrono::milliseconds(static_cast<std::int64_t>(value * 1000));
}

bool flag(const std::string& where, const std::string& text) {
    const std::string value = lower(text);
    for (const std::string_view yes : {"true", "1", "yes", "on"}) {
        if (value == yes) return true;
    }
    for (const std::string_view no : {"false", "0", "no", "off"}) {
        if (value == no) return false;
    }
    refuse(where, "true or false");
}

/// "a, b", or a JSON list, which is YAML as well.
std::vector<std::string> list(const std::string& text) {
    std::vector<std::string> items;
    if (text.starts_with('[')) {
        for (const YAML::Node& item : YAML::Load(text)) items.push_back(item.as<std::string>());
        return items;
    }
    std::size_t from = 0;
    while (from <= text.size()) {
        const std::size_t comma = std::min(text.find(',', from), text.size());
        std::string item = text.substr(from, comma - from);
        while (item.starts_with(' ')) item.erase(0, 1);
        while (item.ends_with(' ')) item.pop_back();
        if (!item.empty()) items.push_back(std::move(item));
        from = comma + 1;
    }
    return items;
}

/// One setting by its name in the file; false when there is none of that name.
bool set(Settings& settings, const std::string& key, const std::string& value,
         const std::string& where) {
    if (key == "model") {
        settings.model = value;
    } else if (key == "fallback_models") {
        settings.fallback_models = list(value);
    } else if (key == "api_key") {
        settings.api_key = value;
    } else if (key == "api_base") {
        settings.api_base = value;
    } else if (key == "max_steps") {
        settings.max_steps = number(where, value);
    } else if (key == "max_tokens") {
        settings.max_tokens = number(where, value);
    } else if (key == "model_timeout_seconds") {
        settings.model_timeout = seconds(where, value);
    } else if (key == "enabled_channels") {
        settings.enabled_channels = value;
    } else if (key == "stream_output") {
        settings.stream_output = flag(where, value);
    } else if (key == "debounce_seconds") {
        settings.debounce = seconds(where, value);
    } else if (key == "max_wait_seconds") {
        settings.max_wait = seconds(where, value);
    } else if (key == "active_time_window") {
        settings.active_time_window = seconds(where, value);
    } else {
        return false;
    }
    return true;
}

void read_file(Settings& settings, const std::filesystem::path& file) {
    std::error_code error;
    if (file.empty() || !std::filesystem::exists(file, error)) return;
    try {
        const YAML::Node root = YAML::LoadFile(file.string());
        if (!root.IsMap()) return;
        for (const auto& member : root) {
            const std::string key = member.first.as<std::string>();
            const YAML::Node& value = member.second;
            const std::string where = file.string() + ": " + key;
            if (value.IsScalar() && !value.IsNull()) {
                set(settings, key, value.as<std::string>(), where);
            } else if (value.IsSequence() && key == "fallback_models") {
                settings.fallback_models = value.as<std::vector<std::string>>();
            } else if (value.IsMap() && (key == "api_key" || key == "api_base")) {
                auto& places = key == "api_key" ? settings.api_keys : settings.api_bases;
                for (const auto& one : value) {
                    places[lower(one.first.as<std::string>())] = one.second.as<std::string>();
                }
            }
        }
    } catch (const YAML::Exception& failure) {
        throw cubepi::Error(cubepi::ErrorCode::parse,
                            "cannot read " + file.string() + ": " + failure.what());
    }
}

void read_variable(Settings& settings, const std::string& name, const std::string& value) {
    const std::string key = lower(name.substr(4));
    if (value.empty() || lower(value) == "null") return;
    if (set(settings, key, value, name)) return;
    const auto provider = [&key](std::string_view suffix) {
        return key.ends_with(suffix) && key.size() > suffix.size()
                   ? key.substr(0, key.size() - suffix.size())
                   : std::string();
    };
    if (std::string owner = provider("_api_key"); !owner.empty()) {
        settings.api_keys[std::move(owner)] = value;
    } else if (owner = provider("_api_base"); !owner.empty()) {
        settings.api_bases[std::move(owner)] = value;
    }
}

std::string find(const std::map<std::string, std::string>& places, std::string_view provider,
                 const std::string& common) {
    const auto found = places.find(lower(std::string(provider)));
    return found == places.end() ? common : found->second;
}

}  // namespace

std::string Settings::key_for(std::string_view provider) const {
    return find(api_keys, provider, api_key);
}

std::string Settings::base_for(std::string_view provider) const {
    return find(api_bases, provider, api_base);
}

std::pair<std::string, std::string> Settings::provider_and_model() const {
    const std::size_t colon = model.find(':');
    if (colon == std::string::npos) return {std::string(), model};
    return {model.substr(0, colon), model.substr(colon + 1)};
}

Settings read_settings(const std::filesystem::path& file, const ReadVariable& variable,
                       const std::vector<std::string>& variable_names) {
    Settings settings;
    read_file(settings, file);
    for (const std::string& name : variable_names) {
        if (lower(name).starts_with("bub_")) read_variable(settings, name, variable(name));
    }
    return settings;
}

Settings read_settings() {
    std::vector<std::string> names;
    for (char** entry = environ; entry && *entry; ++entry) {
        const std::string_view text(*entry);
        names.emplace_back(text.substr(0, text.find('=')));
    }
    const auto variable = [](const std::string& name) {
        const char* value = std::getenv(name.c_str());
        return std::string(value ? value : "");
    };
    const std::string home = variable("HOME");
    const std::filesystem::path file = home.empty()
                                           ? std::filesystem::path()
                                           : std::filesystem::path(home) / ".bub" / "config.yml";
    return read_settings(file, variable, names);
}

}  // namespace bub
