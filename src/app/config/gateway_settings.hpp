#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <cubepi/core/json.hpp>

namespace cubepi::app {

/// An address to listen on: "127.0.0.1:8642".
struct ListenAddress {
    std::string host = {};
    std::uint16_t port = 0;
    bool is_common = false;  ///< that of `gateway.listen`

    std::string text() const;
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

/// The channel `http`.
struct HttpChannelSettings {
    ListenAddress listen = {"127.0.0.1", 8642};
    std::string token_env = "CUBEPI_HTTP_TOKEN";  ///< the variable that has the bearer token
    std::vector<std::string> operators =
        {};                       ///< users who may answer everything and use comma commands
    std::size_t max_body_mb = 1;  ///< limit of a request, in MiB
    std::filesystem::path certificate = {};  ///< PEM; empty: no TLS
    std::filesystem::path key = {};          ///< PEM
};

/// Updates of Telegram as requests, in place of polling.
struct TelegramWebhookSettings {
    std::string url = {};  ///< the public address
    ListenAddress listen = {"127.0.0.1", 8643};
    std::string path = "/telegram";
    std::string secret_env = "TELEGRAM_WEBHOOK_SECRET";  ///< the variable that has the secret
};

/// The channel `telegram`.
struct TelegramChannelSettings {
    std::string token_env = "TELEGRAM_BOT_TOKEN";  ///< the variable that has the bot token
    std::string token = {};               ///< the token itself; empty: that of the variable
    std::vector<std::string> users = {};  ///< ids of users in private chats
    std::vector<std::string> chats = {};  ///< ids of groups
    std::vector<std::string> operators =
        {};                ///< users who may also answer everything and use comma commands
    bool progress = true;  ///< answers are shown while they are generated
    std::string api_url = "https://api.telegram.org";
    std::optional<TelegramWebhookSettings> webhook = {};
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
    /// Gateways with the same namespace and database share their sessions.
    std::string tape_namespace = "gateway";
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
    std::optional<HttpChannelSettings> http = {};
    std::optional<TelegramChannelSettings> telegram = {};
    std::optional<AdminSettings> admin = {};
    std::optional<ListenAddress> status = {};  ///< health, readiness and metrics
    /// The address of the parts above that have none of their own.
    std::optional<ListenAddress> listen = {};
    // HttpAccess, of all addresses.
    std::string base_path = {};
    std::vector<std::string> allowed_hosts = {};
    std::vector<std::string> trusted_proxies = {};
};

/// Reads the member `gateway` of the configuration file's values (config_values). Throws Error(parse) that names the key
/// and what is expected.
GatewaySettings gateway_settings(const JsonObject& config);

/// Returns the paths of all keys below `gateway`: "gateway.telegram.users". The documentation must have each of them.
std::vector<std::string> gateway_setting_names();

}  // namespace cubepi::app
