#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <bub/channel.hpp>
#include <bub/hooks.hpp>
#include <bub/onboarding_ui.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>

#include "../config/gateway_settings.hpp"
#include "../config/provider_kinds.hpp"

// The kinds of channels that `cubepi gateway` serves: one list. A new kind is a file that describes it, and a row of the list in
// channel_kinds.cpp. A program that links this one adds a kind of its own with add_channel_kind().

namespace cubepi::app {

class Findings;
class GatewayInstance;

/// The type of a key. ChannelSettings reads each with a function of its own.
enum class KeyType : std::uint8_t {
    text,
    secret,  ///< a text that is never shown
    variable,  ///< the variable that has a secret, "token_env"; a key without "_env" has the secret itself
    flag,
    number,  ///< a whole number, at least 1
    list,    ///< of texts; ids may be written as numbers
    address,  ///< the gateway listens on it; with TLS if the key "certificate" of the same mapping has a file
    file,     ///< a path that begins with / or ~/
    mapping,  ///< its keys follow, as "MAPPING.KEY"; they have values only if it is present
};

struct ChannelKey {
    std::string_view path;  ///< below `gateway.NAME`
    KeyType type = KeyType::text;
    std::string_view default_value = {};  ///< as written in the configuration file; not of a list
    std::string_view comment = {};        ///< onboarding writes it above the key; empty: none
    std::string_view members = {};  ///< of a list, for the message about a wrong type: "users"

    std::string_view name() const { return path.substr(path.rfind('.') + 1); }
    /// Returns true for a key that is directly in a mapping: "webhook"; empty: the settings of the channel.
    bool is_in(std::string_view mapping) const {
        return path.size() - name().size() == (mapping.empty() ? 0 : mapping.size() + 1) &&
               path.starts_with(mapping);
    }
};

/// A kind of channel, with all that the program knows of it.
struct ChannelKind {
    std::string_view name;     ///< of the channel, and the key of its settings below `gateway`
    std::string_view comment;  ///< onboarding writes it above that key
    std::span<const ChannelKey> keys;
    /// Checks values that have the right types; calls ChannelSettings::refuse(). Null: there is nothing to check.
    void (*check)(const ChannelSettings& settings);
    /// Creates the channel. Throws Error(invalid_argument) if a secret is missing.
    std::shared_ptr<bub::Channel> (*make)(const ChannelSettings& settings,
                                          const GatewayInstance& gateway,
                                          bub::ProvideChannelsCall& call);
    /// Adds to the findings of `cubepi doctor`, which has reported addresses, lists and missing variables. Null: nothing.
    void (*find)(const ChannelSettings& settings, const Environment& environment,
                 Findings& findings);
    /// The description of `cubepi onboard NAME`; empty: there is no such command.
    std::string_view onboarding = {};
    /// Asks for the settings; returns the new values of the configuration file. Secrets from the environment are not part of them.
    /// Throws Error(cancelled) if the user does not agree.
    Task<JsonObject> (*onboard)(JsonObject config, std::shared_ptr<const Runtime> runtime,
                                bub::OnboardingUi& ui) = nullptr;
};

extern const ChannelKind http_kind;      ///< for programs (docs/guides/bub/http-channel.md)
extern const ChannelKind telegram_kind;  ///< bots of Telegram (docs/guides/bub/telegram.md)

/// Returns the list, in the order in which channels are created.
const std::vector<const ChannelKind*>& channel_kinds();

/// Returns the commands that set up a channel: "cubepi onboard telegram", separated by commas.
std::string onboarding_commands();

/// Adds a kind to the list; it must outlive the process's use of it. Called before run_program().
void add_channel_kind(const ChannelKind& kind);

/// Returns the settings of a channel of the configuration file's values; the defaults if it is not configured. Throws as
/// gateway_settings() does.
ChannelSettings channel_settings(const JsonObject& config, const ChannelKind& kind);

}  // namespace cubepi::app
