#include <array>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <bub/framework.hpp>

#include "channels/channel_kinds.hpp"
#include "gateway/gateway_findings.hpp"
#include "matrix_channel.hpp"

// All that the program needs to know of the channel: its row in the list of kinds.

namespace matrix {

namespace {

using cubepi::app::ChannelKey;
using cubepi::app::ChannelKind;
using cubepi::app::ChannelSettings;
using cubepi::app::KeyType;

constexpr std::string_view user_ids = "ids of users, such as @ann:example.org";

constexpr std::array keys{
    ChannelKey{"homeserver", KeyType::text, "", "The address of the homeserver."},
    ChannelKey{"token_env", KeyType::variable, "MATRIX_TOKEN"},
    ChannelKey{"token", KeyType::secret, "", "The access token of the bot's account."},
    ChannelKey{"users", KeyType::list, "", "Who may write to the bot.", user_ids},
    ChannelKey{"operators", KeyType::list, "",
               "Users who may also answer every question and use comma commands.", user_ids}};

void check(const ChannelSettings& settings) {
    if (!settings.text("homeserver").starts_with("http"))
        settings.refuse("homeserver", "an address that begins with https://");
    for (const char* key : {"users", "operators"}) {
        for (const std::string& id : settings.list(key)) {
            if (!id.starts_with('@') || id.find(':') == std::string::npos)
                settings.refuse(key, "a list of " + std::string(user_ids));
        }
    }
}

std::set<std::string> set_of(const std::vector<std::string>& ids) {
    return {ids.begin(), ids.end()};
}

std::shared_ptr<bub::Channel> make(const ChannelSettings& settings,
                                   const cubepi::app::GatewayInstance& /*gateway*/,
                                   bub::ProvideChannelsCall& call) {
    MatrixOptions options;
    options.homeserver = settings.text("homeserver");
    options.token = settings.secret("token", "token", "To set it up: cubepi onboard matrix");
    options.users = set_of(settings.list("users"));
    options.operators = set_of(settings.list("operators"));
    options.runtime = call.framework.runtime();
    options.on_warning = call.framework.options().on_warning;
    return std::make_shared<MatrixChannel>(std::move(options), call.handler);
}

void find(const ChannelSettings& settings, const cubepi::app::Environment& /*environment*/,
          cubepi::app::Findings& findings) {
    if (settings.list("users").empty() && settings.list("operators").empty())
        findings.problem("channel matrix: no user may write to the bot",
                         "List users in gateway.matrix.users.");
}

Task<JsonObject> onboard(JsonObject config, std::shared_ptr<const cubepi::Runtime> runtime,
                         bub::OnboardingUi& ui) {
    JsonObject settings;
    const std::string homeserver = co_await ui.ask("Homeserver", "https://matrix.org");
    const std::string token = co_await ui.ask_secret("Access token:");
    const std::string user = co_await ui.ask("Your user id", "");
    const Homeserver server(homeserver, token, std::move(runtime));
    Task<JsonObject> checking = server.call("GET", "account/whoami");
    (void)co_await std::move(checking);
    settings["homeserver"] = homeserver;
    settings["token"] = token;
    settings["operators"] = bub::JsonArray{Json(user)};
    Json& gateway = config["gateway"];
    if (!gateway.is_object()) gateway.emplace_object();
    gateway.get_object()["matrix"] = std::move(settings);
    co_return config;
}

const ChannelKind kind{"matrix",
                       "A bot in chats of Matrix.",
                       keys,
                       check,
                       make,
                       find,
                       "Set up the gateway's channel matrix: account and first user",
                       onboard};

// Before main(), which is the one of the other gateway tests: it runs the tests, and as `--program` the program `cubepi`.
const bool is_added = (cubepi::app::add_channel_kind(kind), true);

}  // namespace

}  // namespace matrix
