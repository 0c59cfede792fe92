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

/// What Bub's own configuration says, for where ours is silent. A member that nobody set is empty.
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

    /// Where each value was said: a variable or a file, by the member's name, those of one provider as
    /// "api_keys.openai".
    std::map<std::string, std::string> origins = {};
    /// What could not be read, with the file or the variable and what was expected, and without its value. The rest was
    /// read.
    std::vector<std::string> problems = {};

    /// Where a member was said; empty: nowhere.
    std::string origin(const std::string& name) const;
    /// The key and the address for a provider: its own, or the common one.
    std::string key_for(std::string_view provider) const;
    std::string base_for(std::string_view provider) const;
    /// `model` apart: "openrouter:openrouter/free" is {"openrouter", "openrouter/free"}. No provider: empty.
    std::pair<std::string, std::string> provider_and_model() const;
    /// How channels collect messages, with the usual where nothing was said.
    DebounceOptions debounce_options() const;
};

/// The value of an environment variable; empty: not set.
using ReadVariable = std::function<std::string(const std::string& name)>;

/// Reads BUB_* and the file (usually ~/.bub/config.yml). What the environment says wins over the file. Unknown keys are
/// left alone. What cannot be read is one of `problems`.
Settings read_settings(const std::filesystem::path& file, const ReadVariable& variable,
                       const std::vector<std::string>& variable_names);
/// The same with this process's environment and ~/.bub/config.yml.
Settings read_settings();

}  // namespace bub
