#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/limits/usage_store.hpp>
#include <bub/schedule/schedule.hpp>
#include <cubepi/core/json.hpp>

namespace cubepi::app {

struct ChannelKind;

/// An address to listen on: "127.0.0.1:8642".
struct ListenAddress {
    std::string host = {};
    std::uint16_t port = 0;
    bool is_common = false;  ///< that of `gateway.listen`

    std::string text() const;
    /// Returns true if other machines cannot reach it.
    bool is_local() const {
        return host == "::1" || host == "localhost" || host.starts_with("127.");
    }
};

/// The permissions of the senders of some messages (B26). An empty channel, chat or user matches all of them.
struct SenderRule {
    std::string channel = {};
    std::string chat = {};
    std::string user = {};
    std::vector<std::string> allow =
        {};  ///< these calls run without a question: "shell: cd * && git status *"
    std::vector<std::string> refuse = {};  ///< names of tools that never run

    bool matches(std::string_view of_channel, std::string_view of_chat,
                 std::string_view of_user) const;
};

/// A user of a channel who may answer all questions (B25).
struct Approver {
    std::string channel = {};
    std::string user = {};
};

/// The settings of a channel: a value of the type of its key (channels/channel_kinds.hpp) for each key of the mappings that are present.
/// Reading a key that the kind does not have is a programming error.
class ChannelSettings {
public:
    ChannelSettings(const ChannelKind& kind, JsonObject values)
        : kind_(&kind), values_(std::move(values)) {}

    const ChannelKind& kind() const noexcept { return *kind_; }
    /// Returns true if the key has a value; a mapping, if it is present.
    bool has(std::string_view key) const { return values_.contains(key); }
    /// Returns a text, a secret, the name of a variable, or an absolute path; empty: not configured.
    std::string text(std::string_view key) const;
    bool flag(std::string_view key) const { return values_.at(key).as_bool(); }
    std::size_t number(std::string_view key) const {
        return values_.at(key).to_number<std::size_t>();
    }
    std::vector<std::string> list(std::string_view key) const;
    ListenAddress address(std::string_view key) const;

    /// Returns the path of a key in the configuration file: "gateway.NAME.KEY".
    std::string path_of(std::string_view key) const;
    /// Returns the secret that the key has, or else the variable that KEY_env names. Throws Error(invalid_argument) if neither is set,
    /// with the description of the secret and the advice.
    std::string secret(const std::string& key, const std::string& what,
                       const std::string& advice) const;
    /// Throws Error(parse): the key "must be `expected`".
    [[noreturn]] void refuse(std::string_view key, const std::string& expected) const;

private:
    const ChannelKind* kind_;
    JsonObject values_;  // by path below the channel
};

/// The routes of operators, which have the operations of `cubepi gateway`. Without a token they are not served.
struct AdminSettings {
    ListenAddress listen = {"127.0.0.1", 8640};
    std::string viewer_token_env = {};    ///< the variable with the token that may only read
    std::string operator_token_env = {};  ///< the variable with the token that may do everything
};

/// The key `gateway` of the configuration file (`man cubepi`).
struct GatewaySettings {
    std::vector<std::string> channels = {"all"};
    /// The directory with the workspaces of the sessions; empty: below $XDG_DATA_HOME/cubepi.
    std::filesystem::path root = {};
    bool shared_workspace = false;  ///< all sessions work in `root` itself
    /// The sessions are those that the terminal has in `root`; not a key of the file.
    bool has_terminal_sessions = false;
    /// Gateways with the same namespace and database share their sessions.
    std::string tape_namespace = "gateway";
    /// The database by an address that reaches it without a pooler, for notifications (D238); empty: that of the sessions.
    std::string notify_database = {};
    std::chrono::seconds drain_timeout{30};
    /// The time for which turns are tried again that fail because of the infrastructure; then their messages are held.
    std::chrono::seconds retry_limit{3600};
    std::size_t max_waiting = 32;              ///< messages of a session that wait
    std::size_t threads = 0;                   ///< that run turns; 0: one for each core
    bool stream = true;                        ///< answers are shown while they are generated
    bool show_error_details = false;           ///< senders see more of a failure than its id
    std::chrono::seconds question_timeout{0};  ///< the time to answer a question; 0: no limit
    bub::SessionFiles files = {};
    std::vector<SenderRule> rules = {};
    std::vector<Approver> approvers = {};
    std::vector<bub::Schedule> schedules = {};
    std::string time_zone =
        {};  ///< of schedules that name none, and of limits; empty: that of the system
    bub::UsageLimitOptions limits = {};
    std::vector<ChannelSettings> configured =
        {};  ///< the channels with settings, in the order of channel_kinds()
    std::optional<AdminSettings> admin = {};
    std::optional<ListenAddress> console = {};  ///< the web console
    std::optional<ListenAddress> status = {};   ///< health, readiness and metrics
    /// The address of the parts above that have none of their own.
    std::optional<ListenAddress> listen = {};
    // HttpAccess, of all addresses.
    std::string base_path = {};
    std::vector<std::string> allowed_hosts = {};
    std::vector<std::string> trusted_proxies = {};
};

/// Whether the time zones of schedules are looked up in the database of this machine, which only a gateway needs.
enum class TimeZones : std::uint8_t {
    resolved,
    ignored,  ///< the times of schedules are read as UTC, and are of no use
};

/// Reads the member `gateway` of the configuration file's values (config_values). Throws Error(parse) that names the key
/// and what is expected; Error(unsupported) if this machine has no database of the time zones.
GatewaySettings gateway_settings(const JsonObject& config, TimeZones zones = TimeZones::resolved);

/// Returns the paths of all keys below `gateway`: "gateway.http.listen". The documentation must have each of them.
std::vector<std::string> gateway_setting_names();

}  // namespace cubepi::app
