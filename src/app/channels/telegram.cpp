#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/gateway_peers.hpp>
#include <bub/channel/telegram_channel.hpp>
#include <bub/channel/telegram_pairing.hpp>
#include <bub/framework.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/error_code_of.hpp>

#include "../gateway/gateway_findings.hpp"
#include "../gateway/gateway_instance.hpp"
#include "channel_kinds.hpp"

namespace cubepi::app {

namespace {

constexpr const char* set_up = "cubepi onboard telegram";
constexpr std::string_view user_ids = "ids of users, positive numbers";
constexpr std::string_view group_ids = "ids of groups, negative numbers";

constexpr std::array keys{
    ChannelKey{"token_env", KeyType::variable, "TELEGRAM_BOT_TOKEN",
               "The variable that has the token of the bot."},
    ChannelKey{"token", KeyType::secret, "",
               "From @BotFather. In place of it: token_env, the name of a variable."},
    ChannelKey{"users", KeyType::list, "",
               "Who may write to the bot: ids, which the bot tells users who are not listed.",
               user_ids},
    ChannelKey{"chats", KeyType::list, "", "Groups whose members may write to the bot.", group_ids},
    ChannelKey{"operators", KeyType::list, "",
               "Users who may also answer every question and use comma commands.", user_ids},
    ChannelKey{"progress", KeyType::flag, "true", "Answers are shown while they are generated."},
    ChannelKey{"api_url", KeyType::text, "https://api.telegram.org", "The address of the Bot API."},
    ChannelKey{"webhook", KeyType::mapping, "", "Updates as requests, in place of polling."},
    ChannelKey{"webhook.url", KeyType::text, "", "The public address."},
    ChannelKey{"webhook.listen", KeyType::address, "127.0.0.1:8643"},
    ChannelKey{"webhook.path", KeyType::text, "/telegram"},
    ChannelKey{"webhook.secret_env", KeyType::variable, "TELEGRAM_WEBHOOK_SECRET",
               "The variable that has the secret of the requests."}};

/// Ids of users are positive, those of groups negative: one in the wrong list would never match.
void check_ids(const ChannelSettings& settings, const char* key) {
    const bool of_groups = std::string_view(key) == "chats";
    for (const std::string& id : settings.list(key)) {
        const std::string_view digits = std::string_view(id).substr(of_groups ? 1 : 0);
        const bool is_id = id.starts_with('-') == of_groups && !digits.empty() &&
                           digits.find_first_not_of("0123456789") == std::string_view::npos;
        if (!is_id)
            settings.refuse(key, "a list of " + std::string(of_groups ? group_ids : user_ids));
    }
}

void check(const ChannelSettings& settings) {
    for (const char* key : {"users", "chats", "operators"}) check_ids(settings, key);
    if (!settings.has("webhook")) return;
    if (!settings.text("webhook.url").starts_with("https://"))
        settings.refuse("webhook.url", "the public address, beginning with https://");
    if (!settings.text("webhook.path").starts_with('/')) settings.refuse("webhook.path", "a path");
}

std::shared_ptr<bub::Channel> make(const ChannelSettings& settings, const GatewayInstance& gateway,
                                   bub::ProvideChannelsCall& call) {
    bub::TelegramChannelOptions options;
    options.token = settings.secret("token", "token", std::string("To set it up: ") + set_up);
    options.users = settings.list("users");
    options.chats = settings.list("chats");
    options.operators = settings.list("operators");
    for (const Approver& one : gateway.settings().approvers) {
        if (one.channel == telegram_kind.name) options.approvers.push_back(one.user);
    }
    options.shows_progress = settings.flag("progress");
    options.max_file_bytes =
        std::min(options.max_file_bytes, gateway.settings().files.max_file_bytes);
    options.api_url = settings.text("api_url");
    options.runtime = call.framework.runtime();
    options.on_warning = call.framework.options().on_warning;
    // The part before the colon, the id of the bot, is not a secret.
    if (const std::shared_ptr<bub::DeliveryLog>& log = gateway.deliveries()) {
        options.lease =
            log->account_lease("telegram:" + options.token.substr(0, options.token.find(':')));
        options.stores_partly = [log] { return !log->partial_outage().empty(); };
        if (const std::shared_ptr<bub::GatewayPeers> peers = log->peers())
            options.count_gateways = [peers] { return peers->count(); };
    }
    if (settings.has("webhook")) {
        options.webhook.emplace();
        options.webhook->url = settings.text("webhook.url");
        options.webhook->path = settings.text("webhook.path");
        options.webhook->server = gateway.server(settings.path_of("webhook.listen"));
        options.webhook->secret =
            settings.secret("webhook.secret", "webhook secret",
                            "To make one: export " + settings.text("webhook.secret_env") +
                                "=$(openssl rand -hex 32)");
    }
    return std::make_shared<bub::TelegramChannel>(std::move(options), call.handler);
}

void find(const ChannelSettings& settings, const Environment& /*environment*/, Findings& findings) {
    if (settings.list("users").empty() && settings.list("chats").empty() &&
        settings.list("operators").empty())
        findings.problem("channel telegram: no user may write to the bot",
                         "List users in " + settings.path_of("users") + ": " + set_up);
    if (!settings.list("chats").empty())
        findings.plain("every member of these groups may write to the bot");
}

bool is_wrong_token(const std::exception_ptr& failure) {
    const ErrorCode code = detail::error_code_of(failure);
    return code == ErrorCode::auth || code == ErrorCode::invalid_argument;
}

/// Completes the connection with a token, and returns the name of its bot.
Task<std::string> ask_for_token(bub::TelegramConnection& connection, bub::OnboardingUi& ui) {
    const bool is_given = !connection.token.empty();
    while (true) {
        if (!is_given) connection.token = co_await ui.ask_secret("Bot token:");
        Task<std::string> naming = bub::telegram_bot_name(connection);
        Outcome<std::string> name = co_await outcome_of(std::move(naming));
        if (name) co_return std::move(name).value();
        if (is_given || !is_wrong_token(name.failure())) name.rethrow();
        ui.say(exception_text(name.failure()) + ". Copy it again, or leave with Ctrl-C.");
    }
}

JsonObject& object_in(JsonObject& parent, std::string_view key) {
    Json& value = parent[key];
    if (!value.is_object()) value.emplace_object();
    return value.get_object();
}

void add_id(JsonObject& settings, std::string_view list, const std::string& id) {
    Json& ids = settings[list];
    if (!ids.is_array()) ids.emplace_array();
    for (const Json& one : ids.get_array()) {
        if (one == Json(id) || boost::json::serialize(one) == id) return;
    }
    ids.get_array().emplace_back(static_cast<std::int64_t>(std::stoll(id)));
}

/// Asks for the bot token, checks it, and waits until the first user has sent a code to the bot.
Task<JsonObject> onboard(JsonObject config, std::shared_ptr<const Runtime> runtime,
                         bub::OnboardingUi& ui) {
    const ChannelSettings settings = channel_settings(config, telegram_kind);
    const std::string variable = settings.text("token_env");
    const char* const given = std::getenv(variable.c_str());
    bub::TelegramConnection connection;
    if (given) connection.token = given;
    connection.api_url = settings.text("api_url");
    connection.runtime = std::move(runtime);
    ui.say(!connection.token.empty()
               ? "The token is taken from " + variable + "."
               : "Telegram's @BotFather makes the bot: open https://t.me/BotFather, send /newbot, "
                 "and copy the token that it answers with.");
    const bool is_typed = connection.token.empty();
    Task<std::string> asking = ask_for_token(connection, ui);
    const std::string bot = co_await std::move(asking);
    const std::string code = bub::new_pairing_code();
    ui.say("The bot is @" + bot + ".\n\nNow send this code to the bot, in Telegram: " + code +
           "\n  or open https://t.me/" + bot + "?start=" + code +
           "\nWaiting for it; Ctrl-C cancels.");
    Task<bub::TelegramUser> pairing = bub::pair_telegram_user(connection, code);
    const bub::TelegramUser user = co_await std::move(pairing);
    const bool is_operator = co_await ui.confirm(
        user.name + " (" + user.id +
            ") sent the code. May this user approve tool calls and use commands (operator)?",
        true);
    JsonObject& wanted = object_in(object_in(config, "gateway"), "telegram");
    if (is_typed) wanted["token"] = connection.token;
    add_id(wanted, is_operator ? "operators" : "users", user.id);
    co_return config;
}

}  // namespace

const ChannelKind telegram_kind{
    "telegram",
    "A bot of Telegram; docs/guides/bub/telegram.md lists the settings.",
    keys,
    check,
    make,
    find,
    "Set up the gateway's channel telegram: bot token and first user",
    onboard};

}  // namespace cubepi::app
