#include "questions.hpp"

#include <array>
#include <cstdint>
#include <sstream>
#include <string_view>
#include <utility>

#include <bub/channel/telegram_pairing.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>

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

/// The token and the name of its bot.
struct CheckedToken {
    std::string token = {};
    std::string bot = {};
};

bub::TelegramConnection connection(const TelegramQuestionsInput& input, std::string token) {
    bub::TelegramConnection made;
    made.token = std::move(token);
    made.runtime = input.runtime;
    const Json* const gateway = input.config.if_contains("gateway");
    const JsonObject* const channels = gateway ? gateway->if_object() : nullptr;
    const Json* const telegram = channels ? channels->if_contains("telegram") : nullptr;
    const JsonObject* const settings = telegram ? telegram->if_object() : nullptr;
    const Json* const url = settings ? settings->if_contains("api_url") : nullptr;
    if (url && url->is_string()) made.api_url = std::string(url->get_string());
    return made;
}

bool is_wrong_token(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        return error.code() == ErrorCode::auth || error.code() == ErrorCode::invalid_argument;
    } catch (...) {
        return false;
    }
}

Task<CheckedToken> ask_for_token(TelegramQuestionsInput input, bub::OnboardingUi& ui) {
    CheckedToken checked;
    if (input.token.empty()) {
        ui.say(
            "Telegram's @BotFather makes the bot: open https://t.me/BotFather, send /newbot, and "
            "copy the token that it answers with.");
    } else {
        ui.say("The token is taken from " + input.token_variable + ".");
    }
    while (true) {
        checked.token = input.token;
        if (checked.token.empty()) checked.token = co_await ui.ask_secret("Bot token:");
        Task<std::string> naming = bub::telegram_bot_name(connection(input, checked.token));
        Outcome<std::string> name = co_await outcome_of(std::move(naming));
        if (name) {
            checked.bot = std::move(name).value();
            co_return checked;
        }
        if (!input.token.empty() || !is_wrong_token(name.failure())) name.rethrow();
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

Task<JsonObject> ask_for_telegram(TelegramQuestionsInput input, bub::OnboardingUi& ui) {
    Task<CheckedToken> asking = ask_for_token(input, ui);
    const CheckedToken checked = co_await std::move(asking);
    ui.say("The bot is @" + checked.bot + ".\n\nNow send this code to the bot, in Telegram: " +
           input.code + "\n  or open https://t.me/" + checked.bot + "?start=" + input.code +
           "\nWaiting for it; Ctrl-C cancels.");
    Task<bub::TelegramUser> pairing =
        bub::pair_telegram_user(connection(input, checked.token), input.code);
    const bub::TelegramUser user = co_await std::move(pairing);
    const bool is_operator = co_await ui.confirm(
        user.name + " (" + user.id +
            ") sent the code. May this user approve tool calls and use commands (operator)?",
        true);
    JsonObject wanted = input.config;
    JsonObject& settings = object_in(object_in(wanted, "gateway"), "telegram");
    if (input.token.empty()) settings["token"] = checked.token;
    add_id(settings, is_operator ? "operators" : "users", user.id);
    co_return wanted;
}

std::string with_telegram_comments(const std::string& text) {
    struct Comment {
        std::string_view key;
        std::string_view words;
    };
    constexpr std::array<Comment, 5> comments{{
        {"telegram:", "# A bot of Telegram; docs/guides/bub/telegram.md lists the settings."},
        {"token:", "# From @BotFather. In place of it: token_env, the name of a variable."},
        {"users:",
         "# Who may write to the bot: ids, which the bot tells users who are not listed."},
        {"chats:", "# Groups whose members may write to the bot."},
        {"operators:", "# Users who may also answer every question and use comma commands."},
    }};
    std::istringstream lines(text);
    std::string out;
    std::string previous;
    bool in_telegram = false;
    std::size_t depth = 0;
    for (std::string line; std::getline(lines, line); previous = line) {
        const std::size_t indent = line.find_first_not_of(' ');
        const std::string_view words = indent == std::string::npos
                                           ? std::string_view()
                                           : std::string_view(line).substr(indent);
        if (in_telegram && !words.empty() && indent <= depth && !words.starts_with('#'))
            in_telegram = false;
        const bool begins = words.starts_with("telegram:") && indent > 0;
        const bool has_comment = previous.find_first_not_of(' ') != std::string::npos &&
                                 previous[previous.find_first_not_of(' ')] == '#';
        for (const Comment& comment : comments) {
            if ((in_telegram || begins) && words.starts_with(comment.key) && !has_comment)
                out += std::string(indent, ' ') + std::string(comment.words) + "\n";
        }
        if (begins) {
            in_telegram = true;
            depth = indent;
        }
        out += line + "\n";
    }
    return out;
}

}  // namespace cubepi::app
