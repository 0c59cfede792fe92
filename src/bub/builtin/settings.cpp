#include <bub/builtin/settings.hpp>

#include <yaml-cpp/yaml.h>

#include <cctype>
#include <cstdlib>
#include <utility>

#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/posix_file.hpp>

extern char** environ;

namespace bub {

namespace {

using cubepi::detail::lower_case;

[[noreturn]] void refuse(const std::string& where, std::string_view expected) {
    throw cubepi::Error(cubepi::ErrorCode::parse, where + ": expected " + std::string(expected));
}

std::int64_t number(const std::string& where, const std::string& text) {
    const std::int64_t value = cubepi::detail::parsed_number<std::int64_t>(text).value_or(0);
    if (value <= 0) refuse(where, "a number above 0");
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
    const std::string value = lower_case(text);
    for (const std::string_view yes : {"true", "1", "yes", "on"}) {
        if (value == yes) return true;
    }
    for (const std::string_view no : {"false", "0", "no", "off"}) {
        if (value == no) return false;
    }
    refuse(where, "true or false");
}

/// Parses "a, b", or a JSON list, which is also YAML.
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

/// Sets one setting by its name in the file; returns false if there is none with that name.
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

using ProviderValues = std::map<std::string, std::string>;

/// Returns the place of provider-specific values; null for other settings.
ProviderValues* values_of(Settings& settings, const std::string& key) {
    if (key == "api_key") return &settings.api_keys;
    return key == "api_base" ? &settings.api_bases : nullptr;
}

/// A reader of the settings of one source, the file or a variable.
class Reader {
public:
    Reader(Settings& settings, std::string origin)
        : settings_(settings), origin_(std::move(origin)) {}

    /// Returns false if there is no setting with that name.
    bool scalar(const std::string& key, const std::string& value, const std::string& where) {
        if (!set(settings_, key, value, where)) return false;
        settings_.origins[member_of(key)] = origin_;
        return true;
    }
    /// Reads api_key or api_base by provider.
    void by_provider(const std::string& key, const YAML::Node& values) {
        for (const auto& one : values) {
            own(key, lower_case(one.first.as<std::string>()), one.second.as<std::string>());
        }
    }
    void own(const std::string& key, const std::string& provider, const std::string& value) {
        (*values_of(settings_, key))[provider] = value;
        settings_.origins[key + "s." + provider] = origin_;
    }
    void fallbacks(const YAML::Node& values) {
        settings_.fallback_models = values.as<std::vector<std::string>>();
        settings_.origins["fallback_models"] = origin_;
    }

private:
    static std::string member_of(const std::string& key) {
        if (key == "model_timeout_seconds") return "model_timeout";
        if (key == "debounce_seconds") return "debounce";
        if (key == "max_wait_seconds") return "max_wait";
        return key;
    }

    Settings& settings_;
    std::string origin_;
};

void read_member(Settings& settings, const std::string& file, const std::string& key,
                 const YAML::Node& value) {
    Reader reader(settings, file);
    const std::string where = file + ": " + key;
    try {
        if (value.IsNull()) return;
        if (value.IsScalar()) {
            reader.scalar(key, value.as<std::string>(), where);
        } else if (value.IsSequence() && key == "fallback_models") {
            reader.fallbacks(value);
        } else if (value.IsMap() && values_of(settings, key)) {
            reader.by_provider(key, value);
        }
    } catch (const YAML::Exception&) {
        settings.problems.push_back(where + ": expected texts");
    } catch (const cubepi::Error& failure) {
        settings.problems.emplace_back(failure.what());
    }
}

void read_file(Settings& settings, const std::filesystem::path& file) {
    std::error_code error;
    if (file.empty() || !std::filesystem::exists(file, error)) return;
    if (const auto kind = cubepi::detail::kind_if_not_regular(file); !kind.empty()) {
        settings.problems.push_back("cannot read " + file.string() + ": it is " +
                                    std::string(kind) + ", and should be a file");
        return;
    }
    YAML::Node root;
    try {
        root = YAML::LoadFile(file.string());
    } catch (const YAML::Exception& failure) {
        settings.problems.push_back("cannot read " + file.string() + ": " + failure.what());
        return;
    }
    if (root.IsNull()) return;
    if (!root.IsMap()) {
        settings.problems.push_back("cannot read " + file.string() + ": expected keys and values");
        return;
    }
    for (const auto& member : root) {
        if (!member.first.IsScalar()) continue;
        read_member(settings, file.string(), member.first.as<std::string>(), member.second);
    }
}

/// Returns "openai" for "openai_api_key".
std::string owner_of(const std::string& key, std::string_view suffix) {
    return key.ends_with(suffix) && key.size() > suffix.size()
               ? key.substr(0, key.size() - suffix.size())
               : std::string();
}

void read_variable(Settings& settings, const std::string& name, const std::string& value) {
    const std::string key = lower_case(name.substr(4));
    if (value.empty() || lower_case(value) == "null") return;
    Reader reader(settings, name);
    try {
        if (values_of(settings, key) && value.starts_with('{')) {
            reader.by_provider(key, YAML::Load(value));
        } else if (reader.scalar(key, value, name)) {
            return;
        } else if (const std::string keys = owner_of(key, "_api_key"); !keys.empty()) {
            reader.own("api_key", keys, value);
        } else if (const std::string bases = owner_of(key, "_api_base"); !bases.empty()) {
            reader.own("api_base", bases, value);
        }
    } catch (const YAML::Exception&) {
        settings.problems.push_back(name + ": expected a list or an object as JSON has them");
    } catch (const cubepi::Error& failure) {
        settings.problems.emplace_back(failure.what());
    }
}

std::string find(const std::map<std::string, std::string>& places, std::string_view provider,
                 const std::string& common) {
    const auto found = places.find(lower_case(std::string(provider)));
    return found == places.end() ? common : found->second;
}

}  // namespace

std::string Settings::origin(const std::string& name) const {
    const auto found = origins.find(name);
    return found == origins.end() ? std::string() : found->second;
}

DebounceOptions Settings::debounce_options() const {
    DebounceOptions options;
    if (debounce) options.delay = *debounce;
    if (max_wait) options.max_wait = *max_wait;
    if (active_time_window) options.active_window = *active_time_window;
    return options;
}

std::string Settings::key_for(std::string_view provider) const {
    return find(api_keys, provider, api_key);
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
        if (lower_case(name).starts_with("bub_")) read_variable(settings, name, variable(name));
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
