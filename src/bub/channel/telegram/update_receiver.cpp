#include <bub/channel/telegram/update_receiver.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

#include <bub/channel/debounce.hpp>
#include <bub/channel/telegram/update.hpp>
#include <bub/questions.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/error_code_of.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/parsed_number.hpp>

namespace bub::telegram {

namespace {

using cubepi::Error;
using cubepi::ErrorCode;
using cubepi::HttpServerRequest;
using cubepi::HttpServerResponse;
using cubepi::Outcome;
using cubepi::outcome_of;
using cubepi::detail::error_code_of;
using cubepi::detail::integer_member;
using cubepi::detail::object_member;
using cubepi::detail::text_member;

/// Returns 0 for a text that is not an id.
std::int64_t id_in(const std::string& text) {
    return cubepi::detail::parsed_number<std::int64_t>(text).value_or(0);
}

constexpr std::chrono::seconds poll_time{50};
constexpr std::chrono::seconds shortest_poll{1};
/// After an answer with an update that was left.
constexpr std::chrono::seconds left_pause{1};
/// A hundred updates of the greatest size that Telegram allows fit.
constexpr std::size_t max_batch_bytes = 16 << 20;

bool is_earlier(const Json& a, const Json& b) {
    return update_id_of(a).value_or(0) < update_id_of(b).value_or(0);
}

bool is_secret(std::string_view text) {
    return !text.empty() && text.size() <= 256 &&
           text.find_first_not_of(
               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") ==
               std::string_view::npos;
}

void check(const TelegramWebhook& webhook) {
    if (!is_secret(webhook.secret)) {
        throw Error(ErrorCode::invalid_argument,
                    "a webhook needs a secret of 1 to 256 characters A-Z, a-z, 0-9, _ and -, or "
                    "everyone could send messages to it; make one: openssl rand -hex 32");
    }
    if (!webhook.server) throw Error(ErrorCode::invalid_argument, "a webhook needs a server");
    if (!webhook.url.starts_with("https://"))
        throw Error(ErrorCode::invalid_argument,
                    "the address of a webhook must begin with https://; Telegram calls no other");
}

Task<std::optional<std::string>> fetch_file(std::shared_ptr<const TelegramApi> api,
                                            std::string file_id, std::size_t limit) {
    Task<std::string> downloading = api->download(std::move(file_id), limit);
    Outcome<std::string> file = co_await outcome_of(std::move(downloading));
    if (file.cancelled()) file.rethrow();
    std::optional<std::string> bytes;
    if (file) bytes = std::move(file).value();
    co_return bytes;
}

MediaType media_type(std::string_view name) {
    for (const MediaType type : {MediaType::image, MediaType::audio, MediaType::video}) {
        if (name == to_string(type)) return type;
    }
    return MediaType::document;
}

const JsonObject* origin_of(const Envelope& message) {
    return object_member(message.rest, telegram_key);
}

}  // namespace

JsonArray wanted_updates() {
    JsonArray kinds;
    for (const char* kind : {"message", "edited_message", "callback_query"})
        kinds.emplace_back(kind);
    return kinds;
}

Task<Json> UpdatePoll::fetch() const {
    JsonObject parameters;
    if (offset_ != 0) parameters["offset"] = offset_;
    parameters["limit"] = batch_;
    parameters["timeout"] = poll_time.count();
    parameters["allowed_updates"] = wanted_updates();
    CallLimits limits;
    limits.answer = poll_time + std::chrono::seconds(15);
    limits.total = poll_time + std::chrono::seconds(60);
    limits.max_response_bytes = max_batch_bytes;
    return api_->call("getUpdates", std::move(parameters), limits);
}

Task<> UpdatePoll::run() {
    offset_ = 0;
    accepted_.clear();
    has_polled_ = true;
    while (may_poll_()) {
        const cubepi::Clock::time_point asked = clock_.now();
        Outcome<Json> updates = co_await outcome_of(fetch());
        if (updates.cancelled()) updates.rethrow();
        if (!may_poll_()) co_return;
        if (!updates) {
            co_await back_off(updates.failure());
            continue;
        }
        const JsonArray* const all = updates.value().if_array();
        // Some servers answer at once instead of waiting for an update.
        const bool is_idle = !all || all->empty();
        if (is_idle && clock_.now() - asked < shortest_poll)
            co_await clock_.sleep_for(shortest_poll);
        begin_batch_();
        Task<bool> accepting = accept_all(std::move(updates).value());
        const bool accepted = co_await std::move(accepting);
        if (accepted) {
            failures_ = 0;
            report({});
        } else if (was_left_) {
            // The others must not wait for long: they are in the next answer, too.
            failures_ = 0;
            co_await clock_.sleep_for(left_pause);
        } else {
            // Not confirmed: the next request returns it again.
            co_await back_off(nullptr);
        }
    }
}

Task<bool> UpdatePoll::accept_all(Json updates) {
    if (!updates.is_array()) co_return true;
    JsonArray& all = updates.get_array();
    // Everything is confirmed. After a week without updates Telegram chooses a new, possibly lower id.
    if (all.empty()) {
        offset_ = 0;
        accepted_.clear();
    }
    was_left_ = false;
    // An answer without a new update cannot be confirmed, and would come at once again.
    bool progressed = all.empty();
    std::sort(all.begin(), all.end(), is_earlier);
    for (Json& update : all) {
        const std::int64_t id = update_id_of(update).value_or(0);
        if (offset_ != 0 && id < offset_) continue;
        if (!may_poll_()) co_return false;
        bool accepted = accepted_.erase(id) > 0;
        if (!accepted) {
            Task<bool> accepting = accept_(std::move(update));
            accepted = co_await std::move(accepting);
        }
        if (!accepted && !may_leave_()) co_return false;
        was_left_ = was_left_ || !accepted;
        if (id == 0 || !accepted) continue;
        if (was_left_) {
            // It cannot be confirmed before the one that was left.
            accepted_.insert(id);
            continue;
        }
        offset_ = id + 1;
        progressed = true;
    }
    co_return progressed && !was_left_;
}

std::chrono::nanoseconds UpdatePoll::delay_after(const std::exception_ptr& failure) {
    const std::chrono::seconds doubled(1 << std::min(failures_++, 5));
    const std::optional<ApiFailure> details = failure ? api_failure(failure) : std::nullopt;
    if (!details) return doubled;
    if (details->retry_after) return *details->retry_after;
    if (details->status == 409) return std::chrono::seconds(30);
    if (!details->is_transient()) return std::chrono::seconds(60);
    return doubled;
}

Task<> UpdatePoll::back_off(std::exception_ptr failure) {
    if (error_code_of(failure) == ErrorCode::too_large && batch_ > 1) {
        batch_ /= 2;
        co_return;
    }
    const std::chrono::nanoseconds delay = delay_after(failure);
    const std::optional<ApiFailure> details = failure ? api_failure(failure) : std::nullopt;
    if (details && details->status == 409) {
        report(
            "another process receives the updates of this bot (409): two gateways must not use "
            "the same token. It is tried again every 30 s. " +
            details->description);
    } else if (failure) {
        report(cubepi::exception_text(failure));
    }
    co_await clock_.sleep_for(delay);
}

void UpdatePoll::report(std::string trouble) {
    if (trouble.empty() == trouble_.empty()) return;
    trouble_ = trouble;
    if (on_trouble_) on_trouble_(std::move(trouble));
}

Task<> UpdatePoll::confirm() {
    if (offset_ != 0) co_await request_once();
}

Task<> UpdatePoll::end() {
    if (std::exchange(has_polled_, false)) co_await request_once();
}

Task<> UpdatePoll::request_once() {
    if (!may_poll_()) co_return;
    JsonObject parameters;
    if (offset_ != 0) parameters["offset"] = std::exchange(offset_, 0);
    parameters["limit"] = 1;
    parameters["timeout"] = 0;
    CallLimits limits;
    limits.answer = limits.total = std::chrono::seconds(3);
    Task<Json> calling = api_->call("getUpdates", std::move(parameters), limits);
    (void)co_await outcome_of(std::move(calling));
}

UpdateReceiver::UpdateReceiver(const TelegramChannelOptions& options, MessageHandler handler,
                               std::shared_ptr<const TelegramApi> api,
                               std::shared_ptr<const SentCards> cards)
    : options_(options),
      handler_(std::move(handler)),
      api_(std::move(api)),
      cards_(std::move(cards)),
      clock_(*options_.runtime->clock),
      access_(access_of(options_)),
      forms_(std::make_shared<shared::OpenForms<std::int64_t>>(
          [api = api_](SentCard place, shared::Buttons buttons) {
              return show_buttons(api, place, std::move(buttons));
          })),
      keeper_(options_.lease && !options_.webhook
                  ? std::make_unique<LeaseKeeper>(
                        options_.lease, clock_,
                        [this](std::string trouble) {
                            report(
                                "cannot receive messages, because the lease of the bot cannot be "
                                "had: ",
                                std::move(trouble), lease_trouble_);
                        })
                  : nullptr),
      poll_(
          api_, clock_, [this](Json update) { return accept(std::move(update)); },
          [this](std::string trouble) {
              report("cannot receive messages: ", std::move(trouble), poll_trouble_);
          },
          [this] { return may_poll(); }, [this] { return stores_partly(); },
          [this] { left_.clear(); }) {
    if (!options_.webhook) return;
    check(*options_.webhook);
    cubepi::HttpRouteOptions limits;
    limits.authentication = [secret = options_.webhook->secret](const HttpServerRequest& request) {
        std::optional<HttpServerResponse> refused;
        if (!cubepi::equal_secrets(request.headers.get("x-telegram-bot-api-secret-token"), secret))
            refused = HttpServerResponse::error(401, "the secret token is missing or wrong");
        return refused;
    };
    limits.max_requests = 16;  // Telegram sends one at a time
    routes_.emplace(*options_.webhook->server, "telegram", std::move(limits));
    routes_->add("POST", options_.webhook->path,
                 [this](HttpServerRequest request) { return receive(std::move(request)); });
}

void UpdateReceiver::warn(const std::string& text) const {
    if (options_.on_warning) options_.on_warning("telegram: " + text);
}

void UpdateReceiver::report(const char* what, std::string trouble, std::string& shown) {
    shown = trouble.empty() ? std::string() : what + trouble;
    options_.runtime->log.write(
        trouble.empty() ? cubepi::LogLevel::info : cubepi::LogLevel::warning,
        trouble.empty() ? "telegram.receive_recovered" : "telegram.receive_failed");
    warn(trouble.empty() ? "messages are received again" : shown);
}

void UpdateReceiver::set_identity(const Json& me) {
    const JsonObject* const user = me.if_object();
    if (!user) return;
    bot_.id = integer_member(*user, "id").value_or(0);
    bot_.username = text_member(*user, "username");
}

Task<std::exception_ptr> UpdateReceiver::check_token() {
    if (bot_.id != 0) co_return nullptr;
    CallLimits limits;
    limits.answer = limits.total = std::chrono::seconds(10);
    Task<Json> asking = api_->call("getMe", JsonObject(), limits);
    Outcome<Json> me = co_await outcome_of(std::move(asking));
    if (me) {
        set_identity(me.value());
        co_return nullptr;
    }
    const std::optional<ApiFailure> failure = api_failure(me.failure());
    if (failure && (failure->status == 401 || failure->status == 404)) {
        throw Error(ErrorCode::auth,
                    "Telegram does not know the bot token; copy it again from @BotFather");
    }
    if (me.cancelled() || !failure || !failure->is_transient()) me.rethrow();
    co_return me.failure();
}

Task<> UpdateReceiver::identify() {
    for (int failures = 0; bot_.id == 0; ++failures) {
        Task<Json> asking = api_->call("getMe", JsonObject());
        Outcome<Json> me = co_await outcome_of(std::move(asking));
        if (me.cancelled()) me.rethrow();
        if (me) set_identity(me.value());
        if (bot_.id == 0)
            co_await clock_.sleep_for(std::chrono::seconds(1 << std::min(failures, 5)));
    }
}

/// Tells Telegram how updates are delivered.
Task<> UpdateReceiver::set_up() {
    JsonObject parameters;
    std::string method = "deleteWebhook";
    if (options_.webhook) {
        method = "setWebhook";
        parameters["url"] = options_.webhook->url;
        parameters["secret_token"] = options_.webhook->secret;
        parameters["allowed_updates"] = wanted_updates();
        // Several at a time could arrive in another order.
        parameters["max_connections"] = 1;
    }
    bool warned = false;
    for (int failures = 0;; ++failures) {
        Task<Json> calling = api_->call(method, parameters);
        const Outcome<Json> done = co_await outcome_of(std::move(calling));
        if (done) co_return;
        if (done.cancelled()) done.rethrow();
        if (!std::exchange(warned, true)) warn(describe(done.failure()));
        co_await clock_.sleep_for(std::chrono::seconds(1 << std::min(failures, 5)));
    }
}

Task<> UpdateReceiver::serve() {
    const std::shared_ptr<UpdateReceiver> self = shared_from_this();
    co_await identify();
    if (!keeper_) {
        co_await poll();
        co_return;
    }
    Task<> polling = keeper_->run([self] { return self->poll(); });
    Task<> until_drained = cubepi::cancel_on(leaving_.get_token(), std::move(polling));
    const Outcome<> polled = co_await outcome_of(std::move(until_drained));
    if (!leaving_.stop_requested()) polled.rethrow();
    co_await leave();
}

Task<> UpdateReceiver::poll() {
    co_await set_up();
    if (!options_.webhook) co_await poll_.run();
}

/// Lets another process ask for updates, which begins with those that are not accepted.
Task<> UpdateReceiver::leave() {
    if (keeper_) {
        co_await poll_.end();
        co_await keeper_->release();
    } else {
        co_await poll_.confirm();
    }
}

void UpdateReceiver::start(cubepi::BackgroundScope& work) {
    work_ = &work;
    if (access_.is_empty()) {
        warn(
            "no user is listed, so the bot answers no user; it tells a user who writes to it the "
            "id "
            "for the list");
    }
    if (routes_) routes_->serve();
    work.spawn(serve());
}

Task<> UpdateReceiver::stop() {
    if (routes_) co_await routes_->stop(std::chrono::seconds(5));
    co_await leave();
}

Task<HttpServerResponse> UpdateReceiver::receive(HttpServerRequest request) {
    boost::system::error_code failed;
    Json update = boost::json::parse(request.body, failed);
    if (failed || !update_id_of(update))
        co_return HttpServerResponse::error(400, "the body must be an update of the Bot API");
    // Mentions are recognized by the bot's name.
    if (bot_.id == 0) co_return HttpServerResponse::error(503, "the channel is starting");
    Task<bool> accepting = accept(std::move(update));
    const bool accepted = co_await std::move(accepting);
    if (!accepted) co_return HttpServerResponse::error(503, "the message cannot be stored now");
    co_return HttpServerResponse(200, "", "text/plain");
}

Task<bool> UpdateReceiver::accept(Json update) {
    const JsonObject* const object = update.if_object();
    const std::optional<std::int64_t> id = update_id_of(update);
    if (!object || !id) co_return true;
    const JsonObject* const press = object_member(*object, "callback_query");
    std::optional<Envelope> message = press ? read_button(*press) : take_message(*object);
    if (!message) co_return true;
    message->inbound_id = std::to_string(*id);
    Task<bool> passing =
        pass(std::move(*message), press ? text_member(*press, "id") : std::string());
    const bool passed = co_await std::move(passing);
    co_return passed;
}

/// Returns nothing if the message is not for the agent.
std::optional<Envelope> UpdateReceiver::take_message(const JsonObject& update) {
    std::optional<Envelope> message;
    Incoming incoming = read_message(update, access_, bot_, *cards_);
    switch (incoming.kind) {
        case Incoming::Kind::ignored: break;
        case Incoming::Kind::unknown_user:
        case Incoming::Kind::unknown_group: refuse(incoming); break;
        case Incoming::Kind::greeting:
            send_text(incoming.place, "Hello! Send a message to begin.");
            break;
        case Incoming::Kind::message:
            attach_files(incoming.envelope);
            message = std::move(incoming.envelope);
    }
    return message;
}

/// Reads the press of a button (`callback_query`). Returns the answer to a question, whose turn answers the press (Outbox); nothing if
/// the press is answered here.
std::optional<Envelope> UpdateReceiver::read_button(const JsonObject& query) {
    const std::string id = text_member(query, "id");
    const auto end = [this, &id](std::string text) {
        work_->spawn(ignore_result(answer_press(api_, id, std::move(text))));
        return std::optional<Envelope>();
    };
    const JsonObject* const from = object_member(query, "from");
    if (id.empty() || !from) return std::nullopt;
    const std::string stale = "This question does not wait for an answer any more.";
    const JsonObject* const card = object_member(query, "message");
    if (!card) return end(stale);
    Incoming incoming;
    incoming.user = id_in(query, "from");
    incoming.place.chat = id_in(*card, "chat");
    if (cubepi::detail::flag_member(*card, "is_topic_message"))
        incoming.place.thread = integer_member(*card, "message_thread_id").value_or(0);
    const std::string user = std::to_string(incoming.user);
    if (!access_.allows(incoming.user, incoming.place.chat, incoming.place.chat < 0)) {
        log_refusal(incoming);
        return end("You are not allowed to use this bot. Your id is " + user + ".");
    }
    const bool is_approver = access_.approvers().contains(incoming.user);
    const std::string data = text_member(query, "data");
    const std::string asked = shared::asked_user(data);
    if (!asked.empty() && asked != user && !is_approver) {
        return end(
            "You may not answer this question: only an operator, or the user who was asked, may.");
    }
    const SentCard place{incoming.place.chat, integer_member(*card, "message_id").value_or(0)};
    const shared::Buttons shown = keyboard_of(*card);
    if (shared::is_form_choice(data) && !shown.empty()) {
        std::optional<Envelope> none = end("");
        if (forms_->press(place, shown, data)) work_->spawn(forms_->show(place));
        return none;
    }
    Envelope& envelope = incoming.envelope;
    envelope.answer = shared::answer_of_button(data, shown);
    if (!envelope.answer) return end(stale);
    const std::optional<shared::QuestionMark> question = shared::question_in(text_of(*card));
    if (question && question->approves && !access_.approvers().empty() && !is_approver)
        return end("You may not answer this question: an operator has to.");
    if (shared::is_form_end(data)) envelope.answer->choices = forms_->finish(place, shown);
    envelope.is_active = true;
    JsonObject of_question;
    move_answer(incoming, *card, of_question);
    JsonObject origin = record_origin(incoming, access_, display_name(*from));
    origin["question"] = place.id;
    origin["callback"] = id;
    origin.insert(of_question.begin(), of_question.end());
    envelope.rest[telegram_key] = std::move(origin);
    return std::move(envelope);
}

Task<bool> UpdateReceiver::pass(Envelope message, std::string callback_id) {
    const std::string session = message.session_id.value_or("");
    // One of its session must be accepted first.
    if (left_.contains(session)) co_return false;
    Task<> handling = handler_(std::move(message));
    const Outcome<> handled = co_await outcome_of(std::move(handling));
    if (handled || is_over(handled.failure())) {
        if (!stores_partly() && std::exchange(cannot_store_, false))
            warn("messages are stored again");
        // A rejected press has no turn that answers it.
        if (!handled && !callback_id.empty())
            work_->spawn(ignore_result(answer_press(api_, std::move(callback_id), {})));
        co_return true;
    }
    if (!options_.webhook) left_.insert(session);
    co_return false;
}

/// Returns true if the message was rejected for good, false if it could not be stored.
bool UpdateReceiver::is_over(const std::exception_ptr& failure) {
    // The manager has ended, or will end: the next process gets the message.
    if (cubepi::is_cancellation(failure)) return false;
    switch (error_code_of(failure)) {
        case ErrorCode::invalid_state:
        case ErrorCode::unavailable:
        case ErrorCode::not_found: return false;
        case ErrorCode::storage_locked:
        case ErrorCode::storage_corrupt: break;
        default:
            // Also a database that cannot be reached.
            if (cause_of(failure) != FailureCause::outage) return true;
    }
    if (!std::exchange(cannot_store_, true)) {
        warn("messages cannot be stored, and stay with Telegram until they can: " +
             describe(failure));
    }
    return false;
}

void UpdateReceiver::attach_files(Envelope& message) const {
    const JsonObject* const origin = origin_of(message);
    const JsonArray* const files =
        origin ? cubepi::detail::array_member(*origin, "files") : nullptr;
    if (!files) return;
    message.media.clear();
    for (const Json& one : *files) {
        const JsonObject* const file = one.if_object();
        if (!file) continue;
        MediaItem item;
        item.type = media_type(text_member(*file, "type"));
        item.mime_type = text_member(*file, "mime_type");
        item.filename = text_member(*file, "filename");
        const std::int64_t size = integer_member(*file, "size").value_or(0);
        const std::size_t limit = options_.max_file_bytes;
        if (size >= 0 && static_cast<std::size_t>(size) <= limit) {
            item.fetch = [api = api_, id = text_member(*file, "file_id"), limit] {
                return fetch_file(api, id, limit);
            };
        }
        message.media.push_back(std::move(item));
    }
}

/// Checks the sender of a message that Telegram has not delivered: of a schedule, or with the results of sub-agents.
bool UpdateReceiver::allows_sender(const Envelope& message) const {
    // Operators in the web console have no id of Telegram.
    if (!message.rest.contains(task_results_key)) return true;
    const std::int64_t chat = id_in(message.chat_id.value_or(""));
    // Messages of several users of a group have no sender.
    return access_.allows(id_in(sender_of(message)), chat, chat < 0);
}

bool UpdateReceiver::allows(const Envelope& message) const {
    const JsonObject* const origin = origin_of(message);
    if (!origin) return allows_sender(message);
    const std::int64_t chat = integer_member(*origin, "chat").value_or(0);
    return access_.allows(integer_member(*origin, "user").value_or(0), chat, chat < 0);
}

void UpdateReceiver::restore(Envelope& message) const {
    const JsonObject* const origin = origin_of(message);
    if (!origin) return;
    attach_files(message);
    message.from_operator = access_.is_operator(integer_member(*origin, "user").value_or(0));
}

void UpdateReceiver::send_text(ChatTarget to, std::string text) {
    JsonObject parameters;
    parameters["chat_id"] = to.chat;
    if (to.thread != 0) parameters["message_thread_id"] = to.thread;
    parameters["text"] = std::move(text);
    work_->spawn(ignore_result(try_call(api_, "sendMessage", std::move(parameters))));
}

void UpdateReceiver::log_refusal(const Incoming& incoming) const {
    options_.runtime->log.write(cubepi::LogLevel::info, "telegram.refused",
                                {{"user", incoming.user}, {"chat", incoming.place.chat}});
}

/// Tells users what an operator needs to list them. Groups of strangers get no answer.
void UpdateReceiver::refuse(const Incoming& incoming) {
    const std::string user = std::to_string(incoming.user);
    log_refusal(incoming);
    if (incoming.kind == Incoming::Kind::unknown_user) {
        if (refused_.add(incoming.user))
            send_text(incoming.place, "You are not allowed to use this bot. Your id is " + user +
                                          ": its operator can add it to the users.");
    } else if (incoming.is_addressed && access_.is_listed(incoming.user)) {
        if (refused_.add(incoming.place.chat))
            send_text(incoming.place, "This group is not allowed to use the bot. Its id is " +
                                          std::to_string(incoming.place.chat) +
                                          ": the bot's operator can add it to the chats.");
    }
}

}  // namespace bub::telegram
