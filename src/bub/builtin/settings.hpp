#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/channel/debounce.hpp>

namespace bub {

/// Bub's own configuration, used for settings that CubePi's configuration does not set. Unset members are empty.
struct Settings {
    std::string model = {};  ///< "provider:model"
    std::vector<std::string> fallback_models = {};
    std::string api_key = {};
    std::map<std::string, std::string> api_keys = {};  ///< by provider, lower case
    std::string api_base = {};
    std::map<std::string, std::string> api_bases = {};
    std::optional<std::int64_t> max_steps = {};
    std::optional<std::int64_t> max_tokens = {};
    std::optional<std::chrono::milliseconds> model_timeout = {};
    std::string enabled_channels = {};
    std::optional<bool> stream_output = {};
    std::optional<std::chrono::milliseconds> debounce = {};
    std::optional<std::chrono::milliseconds> max_wait = {};
    std::optional<std::chrono::milliseconds> active_time_window = {};

    /// The variable or file that set each value, by the member's name; those of one provider as "api_keys.openai".
    std::map<std::string, std::string> origins = {};
    /// Values that could not be read: each names the file or the variable and what was expected, but not the value. The
    /// other settings are still read.
    std::vector<std::string> problems = {};

    /// Returns the variable or file that set a member; empty if unset.
    std::string origin(const std::string& name) const;
    /// Returns the key of a provider: its own, or the common one.
    std::string key_for(std::string_view provider) const;
    /// Splits `model`: "openrouter:openrouter/free" is {"openrouter", "openrouter/free"}. The provider is empty if
    /// `model` does not name one.
    std::pair<std::string, std::string> provider_and_model() const;
    /// Returns how channels collect messages, with defaults for unset values.
    DebounceOptions debounce_options() const;
};

/// Returns the value of an environment variable; empty if not set.
using ReadVariable = std::function<std::string(const std::string& name)>;

/// Reads BUB_* and the file (by default ~/.bub/config.yml). The environment takes precedence over the file. Unknown
/// keys are ignored. Values that cannot be read are reported in `problems`.
Settings read_settings(const std::filesystem::path& file, const ReadVariable& variable,
                       const std::vector<std::string>& variable_names);
/// Reads the environment of this process and ~/.bub/config.yml.
Settings read_settings();

}  // namespace bub
