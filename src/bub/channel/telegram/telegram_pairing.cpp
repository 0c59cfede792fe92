#include <bub/channel/telegram_pairing.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include <bub/channel/shared/access.hpp>
#include <bub/channel/telegram/telegram_api.hpp>
#include <bub/channel/telegram/update.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub {

namespace {

using cubepi::Error;
using cubepi::ErrorCode;
using cubepi::Outcome;
using cubepi::detail::integer_member;
using cubepi::detail::object_member;
using cubepi::detail::string_member;
using telegram::ApiFailure;
using telegram::TelegramApi;

constexpr std::int64_t batch_size = 100;

std::shared_ptr<const TelegramApi> api_of(const TelegramConnection& connection) {
    telegram::ApiOptions options;
    options.token = connection.token;
    options.base_url = connection.api_url;
    options.runtime = connection.runtime;
    return std::make_shared<const TelegramApi>(std::move(options));
}

/// A private message with a code.
struct SentCode {
    std::int64_t update = 0;
    TelegramUser user = {};
    std::int64_t chat = 0;
    std::string code = {};
};

std::optional<SentCode> sent_code(const Json& update) {
    const JsonObject* const object = update.if_object();
    const JsonObject* const message = object ? object_member(*object, "message") : nullptr;
    const JsonObject* const from = message ? object_member(*message, "from") : nullptr;
    const JsonObject* const chat = message ? object_member(*message, "chat") : nullptr;
    if (!from || !chat) return std::nullopt;
    SentCode sent;
    sent.update = telegram::update_id_of(update).value_or(0);
    sent.chat = integer_member(*chat, "id").value_or(0);
    const std::int64_t user = integer_member(*from, "id").value_or(0);
    std::optional<std::string> code = shared::PairingCode::find(string_member(*message, "text"));
    if (user <= 0 || sent.chat <= 0 || !code) return std::nullopt;
    sent.user.id = std::to_string(user);
    sent.user.name = telegram::display_name(*from);
    sent.code = std::move(*code);
    return sent;
}

/// Reads codes until the right one comes.
class Pairing {
public:
    Pairing(std::shared_ptr<const TelegramApi> api, cubepi::Clock& clock, std::string code)
        : api_(std::move(api)), clock_(clock), code_(std::move(code)) {}

    Task<SentCode> run() {
        JsonObject nothing;
        (void)co_await api_->call("deleteWebhook", std::move(nothing));
        while (true) {
            const std::optional<SentCode> found = co_await look();
            if (found) {
                SentCode sent = *found;
                co_return sent;
            }
            co_await clock_.sleep_for(std::chrono::seconds(1));
        }
    }

private:
    Task<std::optional<SentCode>> look() {
        std::optional<SentCode> found;
        Task<Json> fetching = fetch();
        Outcome<Json> updates = co_await cubepi::outcome_of(std::move(fetching));
        if (!updates) {
            const std::optional<ApiFailure> failure = telegram::api_failure(updates.failure());
            if (failure && failure->status == 409)
                throw Error(ErrorCode::busy,
                            "another process receives the messages of this bot; stop it first "
                            "(cubepi gateway drain)");
            if (!failure || !failure->is_transient()) updates.rethrow();
            co_return found;
        }
        const JsonArray* const all = updates.value().if_array();
        if (!all || all->empty()) co_return found;
        for (const Json& update : *all) {
            found = check(update);
            if (found) break;
        }
        // The code is not a message for the agent.
        const std::int64_t first = telegram::update_id_of(all->front()).value_or(0);
        if (found && found->update == first) offset_ = first + 1;
        if (!found && static_cast<std::int64_t>(all->size()) >= batch_size)
            offset_ = telegram::update_id_of(all->back()).value_or(0) + 1;
        if (found && offset_ == found->update + 1) {
            Task<Json> confirming = fetch();
            (void)co_await cubepi::outcome_of(std::move(confirming));
        }
        co_return found;
    }

    Task<Json> fetch() const {
        JsonObject parameters;
        if (offset_ != 0) parameters["offset"] = offset_;
        parameters["limit"] = batch_size;
        parameters["timeout"] = 0;
        return api_->call("getUpdates", std::move(parameters));
    }

    std::optional<SentCode> check(const Json& update) {
        std::optional<SentCode> sent = sent_code(update);
        if (!sent || !seen_.insert(sent->update).second) return std::nullopt;
        if (!code_.accepts(sent->code)) sent.reset();
        return sent;
    }

    const std::shared_ptr<const TelegramApi> api_;
    cubepi::Clock& clock_;
    shared::PairingCode code_;
    std::set<std::int64_t> seen_;
    std::int64_t offset_ = 0;
};

}  // namespace

Task<std::string> telegram_bot_name(TelegramConnection connection) {
    const std::shared_ptr<const TelegramApi> api = api_of(connection);
    Task<Json> asking = api->call("getMe", JsonObject());
    Outcome<Json> me = co_await cubepi::outcome_of(std::move(asking));
    if (!me) {
        const std::optional<ApiFailure> failure = telegram::api_failure(me.failure());
        if (failure && (failure->status == 401 || failure->status == 404))
            throw Error(ErrorCode::auth, "Telegram does not know this token");
        me.rethrow();
    }
    const JsonObject* const bot = me.value().if_object();
    co_return bot ? cubepi::detail::text_member(*bot, "username") : std::string();
}

std::string new_pairing_code() { return shared::PairingCode::make(); }

Task<TelegramUser> pair_telegram_user(TelegramConnection connection, std::string code) {
    const std::shared_ptr<const TelegramApi> api = api_of(connection);
    const std::shared_ptr<const cubepi::Runtime> runtime =
        connection.runtime ? connection.runtime : cubepi::Runtime::standard();
    Pairing pairing(api, *runtime->clock, std::move(code));
    SentCode sent = co_await pairing.run();
    JsonObject answer;
    answer["chat_id"] = sent.chat;
    answer["text"] = "You are paired. This chat works as soon as the gateway runs.";
    Task<Json> answering = api->call("sendMessage", std::move(answer));
    const Outcome<Json> answered = co_await cubepi::outcome_of(std::move(answering));
    if (answered.cancelled()) answered.rethrow();
    co_return std::move(sent.user);
}

}  // namespace bub
