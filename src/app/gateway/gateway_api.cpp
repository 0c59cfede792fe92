#include "gateway_api.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <unistd.h>

#include <bub/channel.hpp>
#include <bub/channel/channel_manager.hpp>
#include <bub/channel/reports_problem.hpp>
#include <bub/channel/sent_file.hpp>
#include <bub/framework.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_convert.hpp>

#include "../failure.hpp"
#include "../process.hpp"
#include "console_sessions.hpp"
#include "gateway_instance.hpp"
#include "gateway_sessions.hpp"

namespace cubepi::app {

namespace {

/// The text of a held message that the operator sees.
constexpr std::size_t shown_text = 200;
constexpr std::size_t longest_name = 1'024;
constexpr std::size_t longest_page = 1'000;
constexpr std::size_t longest_history = 200;

HeldMessage held_message(const std::string& id, const bub::Envelope& message,
                         const std::string& date) {
    HeldMessage held{id, message.channel.value_or(""), message.chat_id.value_or(""), date,
                     message.content_text()};
    // A button has no text.
    if (held.text.empty() && message.answer)
        held.text = "(answer to " + message.answer->question + ")";
    if (held.text.size() <= shown_text) return held;
    held.text.resize(complete_utf8_prefix(std::string_view(held.text).substr(0, shown_text)));
    held.text += "…";
    return held;
}

/// Names come from outside, and occur in errors and in the log.
void check_name(const JsonObject& arguments, std::string_view key) {
    const std::string_view name = detail::string_member(arguments, key);
    const bool is_printable = std::none_of(name.begin(), name.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    });
    if (name.size() <= longest_name && is_printable && is_utf8(name)) return;
    throw Error(ErrorCode::invalid_argument,
                "'" + std::string(key) + "' must be UTF-8 without control characters, of at most " +
                    std::to_string(longest_name) + " bytes");
}

template <auto function>
struct Call;

template <class In>
In read_arguments(JsonObject arguments) {
    ReadOptions options;
    options.require_fields = false;
    return from_json<In>(Json(std::move(arguments)), options);
}

template <class In, class Out, Task<Out> (GatewayApi::*function)(In)>
struct Call<function> {
    static Task<JsonObject> json(GatewayApi* api, GatewayCaller, JsonObject arguments) {
        In in = read_arguments<In>(std::move(arguments));
        Task<Out> calling = (api->*function)(std::move(in));
        const Out out = co_await std::move(calling);
        co_return to_json(out);
    }
};

template <class In, class Out, Task<Out> (GatewayApi::*function)(In, GatewayCaller)>
struct Call<function> {
    static Task<JsonObject> json(GatewayApi* api, GatewayCaller caller, JsonObject arguments) {
        In in = read_arguments<In>(std::move(arguments));
        Task<Out> calling = (api->*function)(std::move(in), std::move(caller));
        const Out out = co_await std::move(calling);
        co_return to_json(out);
    }
};

constexpr GatewayRole viewer = GatewayRole::viewer;
constexpr GatewayRole operator_ = GatewayRole::operator_;

constexpr GatewayOperation read(std::string_view name, std::string_view path,
                                std::string_view required, decltype(GatewayOperation::call) call) {
    return {name, viewer, "GET", path, required, "", "", false, call};
}
constexpr GatewayOperation change(std::string_view name, std::string_view path,
                                  std::string_view required,
                                  decltype(GatewayOperation::call) call) {
    return {name, operator_, "POST", path, required, required, "", false, call};
}

constexpr GatewayOperation operations[] = {
    read("status", "/v1/admin/status", "", Call<&GatewayApi::status>::json),
    read("usage", "/v1/admin/usage", "", Call<&GatewayApi::usage>::json),
    read("sessions", "/v1/admin/sessions", "", Call<&GatewayApi::sessions>::json),
    {"begin", operator_, "POST", "/v1/admin/sessions", "", "session", "", true,
     Call<&GatewayApi::begin>::json},
    read("stored", "/v1/admin/stored-sessions", "", Call<&GatewayApi::stored>::json),
    read("history", "/v1/admin/sessions/{id}", "id", Call<&GatewayApi::history>::json),
    {"send", operator_, "POST", "/v1/admin/sessions/{id}/messages", "id", "id", "", true,
     Call<&GatewayApi::send>::json},
    {"files", operator_, "GET", "/v1/admin/files", "", "", "", false,
     Call<&GatewayApi::files>::json},
    {"commands", operator_, "GET", "/v1/admin/commands", "", "", "", false,
     Call<&GatewayApi::commands>::json},
    change("stop", "/v1/admin/sessions/{id}/stop", "id", Call<&GatewayApi::stop>::json),
    read("spending", "/v1/admin/sessions/{id}/spending", "id", Call<&GatewayApi::spending>::json),
    {"fork", operator_, "POST", "/v1/admin/sessions/{id}/fork", "id", "id", "session", false,
     Call<&GatewayApi::fork>::json},
    read("export", "/v1/admin/sessions/{id}/page", "id", Call<&GatewayApi::export_page>::json),
    read("traces", "/v1/admin/sessions/{id}/traces", "id", Call<&GatewayApi::traces>::json),
    read("trace", "/v1/admin/traces/{id}", "id", Call<&GatewayApi::trace>::json),
    read("schedules", "/v1/admin/schedules", "", Call<&GatewayApi::schedules>::json),
    {"add_schedule", operator_, "POST", "/v1/admin/schedules", "text", "id", "", false,
     Call<&GatewayApi::add_schedule>::json},
    change("cancel_schedule", "/v1/admin/schedules/{id}/cancel", "id",
           Call<&GatewayApi::cancel_schedule>::json),
    read("held", "/v1/admin/held", "", Call<&GatewayApi::held>::json),
    change("release", "/v1/admin/held/{id}/release", "id", Call<&GatewayApi::release>::json),
    change("discard", "/v1/admin/held/{id}/discard", "id", Call<&GatewayApi::discard>::json),
    read("questions", "/v1/admin/questions", "", Call<&GatewayApi::questions>::json),
    read("question", "/v1/admin/questions/{question}", "question",
         Call<&GatewayApi::question>::json),
    {"answer", operator_, "POST", "/v1/admin/questions/{question}/{action}", "question", "question",
     "action", false, Call<&GatewayApi::answer>::json},
    change("reload", "/v1/admin/reload", "", Call<&GatewayApi::reload>::json),
    {"drain", operator_, "POST", "/v1/admin/drain", "", "gateway", "", false,
     Call<&GatewayApi::drain>::json},
    {"console", operator_, "POST", "/v1/admin/console", "", "name", "role", false,
     Call<&GatewayApi::console_link>::json},
    {"logins", operator_, "GET", "/v1/admin/logins", "", "", "", false,
     Call<&GatewayApi::logins>::json},
    change("logout", "/v1/admin/logins/{id}/end", "id", Call<&GatewayApi::end_login>::json),
};

/// Returns the text for the log: of the result, which may be missing, or else of the arguments.
std::string logged_member(Outcome<JsonObject>& result, const JsonObject& arguments,
                          std::string_view key) {
    if (key.empty()) return {};
    std::string text = result ? detail::text_member(result.value(), key) : std::string();
    return text.empty() ? detail::text_member(arguments, key) : text;
}

}  // namespace

Task<GatewayStatus> GatewayApi::status_here() {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    const bub::ChannelManager& manager = instance->manager();
    GatewayStatus status;
    status.state = gateway_.state();
    status.pid = ::getpid();
    status.version = version_text();
    status.started = gateway_.started();
    status.model = instance->model().where;
    status.workspaces = instance->framework().workspace().string();
    status.limits = instance->limits();
    status.configuration = instance->configuration_digest();
    const auto enabled = co_await instance->manager().enabled_channels();
    for (const auto& channel : enabled) {
        if (channel->role() == bub::ChannelRole::lifecycle) continue;
        status.channels.push_back(channel->name());
        const auto* const reporter = dynamic_cast<const bub::ReportsProblem*>(channel.get());
        std::string problem = reporter ? reporter->problem() : std::string();
        if (!problem.empty()) status.problem = channel->name() + ": " + std::move(problem);
    }
    if (!status.problem && !gateway_.peers_problem().empty())
        status.problem = gateway_.peers_problem();
    for (const bub::TurnSnapshot& one : manager.sessions()) {
        status.running_turns += one.is_running ? 1 : 0;
        status.waiting_messages += one.pending_count;
    }
    if (std::string problem = manager.problem(); !problem.empty())
        status.problem = std::move(problem);
    const auto& deliveries = instance->deliveries();
    if (std::string outage = deliveries ? deliveries->partial_outage() : ""; !outage.empty())
        status.problem = std::move(outage);
    Task<bub::HeldMessages> reading = instance->manager().held();
    Outcome<bub::HeldMessages> read = co_await outcome_of(std::move(reading));
    if (read.cancelled()) read.rethrow();
    if (read) {
        status.held = read.value().inbounds.size() + read.value().answers.size();
    } else if (!status.problem) {
        status.problem = "the held messages cannot be read";
    }
    const std::string unheard = deliveries ? deliveries->notification_problem() : "";
    if (!unheard.empty() && !status.problem)
        status.problem =
            "gateways are not notified of messages for them, which wait for the next poll (see "
            "notify_database): " +
            unheard;
    co_return status;
}

BusySessions GatewayApi::sessions_here(const PageArguments& page) const {
    const std::size_t limit = std::clamp<std::size_t>(page.limit, 1, longest_page);
    BusySessions result;
    for (const bub::TurnSnapshot& one : gateway_.instance()->manager().sessions()) {
        if (one.session_id <= page.after) continue;
        if (result.sessions.size() == limit) {
            result.next = result.sessions.back().session;
            break;
        }
        BusySession session;
        session.session = one.session_id;
        session.running = one.is_running;
        session.waiting = one.pending_count;
        session.steering = one.steering_count;
        result.sessions.push_back(std::move(session));
    }
    return result;
}

Task<SessionHistory> GatewayApi::history(HistoryArguments which) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    GatewaySessions sessions(*instance);
    const std::size_t limit = std::clamp<std::size_t>(which.limit, 1, longest_history);
    const std::int64_t before = std::max<std::int64_t>(which.before, 0);
    Task<std::optional<SessionHistory>> reading =
        sessions.history(which.id, limit, before, HistoryDetail::all);
    std::optional<SessionHistory> found = co_await std::move(reading);
    if (!found)
        throw Error(ErrorCode::not_found, "no session '" + which.id + "' is known to this gateway");
    co_return std::move(*found);
}

std::shared_ptr<LiveAnswers> GatewayApi::live_answers() const {
    return gateway_.instance()->live_answers();
}

Task<SentFile> GatewayApi::sent_file(std::string session, std::string id) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    const std::shared_ptr<ConsoleChannel> channel = instance->console_channel();
    if (!channel) throw Error(ErrorCode::not_found, "this gateway has no web console");
    Task<bub::SentFile> reading = channel->file(std::move(session), std::move(id));
    bub::SentFile read = co_await std::move(reading);
    SentFile file;
    file.name = std::move(read.name);
    file.bytes = std::move(read.bytes);
    co_return file;
}

Task<SentFile> GatewayApi::image(std::string session, std::int64_t entry, std::int64_t number) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    GatewaySessions sessions(*instance);
    Task<std::optional<bub::MediaItem>> finding = sessions.image(std::move(session), entry, number);
    const std::optional<bub::MediaItem> found = co_await std::move(finding);
    std::optional<std::string> bytes;
    if (found) bytes = co_await found->get_bytes();
    if (!bytes) throw Error(ErrorCode::not_found, "the session has no such picture");
    SentFile file;
    file.name = "picture";
    file.bytes = std::move(*bytes);
    co_return file;
}

Task<HeldList> GatewayApi::held_here() {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    const bub::HeldMessages messages = co_await instance->manager().held();
    HeldList list;
    for (const bub::StoredInbound& one : messages.inbounds)
        list.messages.push_back(held_message(one.id, one.message, one.date));
    for (const bub::Delivery& one : messages.answers)
        list.answers.push_back(held_message(one.id, one.message, one.date));
    const auto& deliveries = instance->deliveries();
    std::vector<std::string> unread;
    if (deliveries) unread = deliveries->unusable_databases();
    if (!unread.empty()) list.unread_databases = std::move(unread);
    co_return list;
}

void GatewayApi::require_database(const std::string& id) const {
    const auto& deliveries = gateway_.instance()->deliveries();
    if (!deliveries) return;
    for (const std::string& name : deliveries->unusable_databases())
        if (id.starts_with(name + ":"))
            throw Error(ErrorCode::unavailable, "the database '" + name + "', which may have " +
                                                    id + ", cannot be used at the moment");
}

/// An answer is held until it was sent: without the set, two calls would send it twice.
Task<Done> GatewayApi::decide_here(std::string id, bool release) {
    if (!decided_.insert(id).second)
        throw Error(ErrorCode::busy, "another request decides about " + id + " at the moment");
    const std::shared_ptr<const void> over(nullptr,
                                           [this, id](const void*) { decided_.erase(id); });
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    Task<> deciding =
        release ? instance->manager().release_held(id) : instance->manager().discard_held(id);
    co_await std::move(deciding);
    co_return Done();
}

Task<Done> GatewayApi::release(NamedArguments which) { return decide(std::move(which.id), true); }

Task<Done> GatewayApi::discard(NamedArguments which) { return decide(std::move(which.id), false); }

Task<bool> GatewayApi::stop_here(std::string session) {
    bub::Envelope by;
    by.session_id = std::move(session);
    by.from_operator = true;
    Task<bub::StopOutcome> stopping = stop_turn_here(std::move(by));
    const bub::StopOutcome outcome = co_await std::move(stopping);
    co_return outcome == bub::StopOutcome::stopped;
}

Task<bub::StopOutcome> GatewayApi::stop_turn_here(bub::Envelope by) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    Task<bub::StopOutcome> stopping = instance->manager().stop_turn(std::move(by));
    const bub::StopOutcome outcome = co_await std::move(stopping);
    co_return outcome;
}

/// An error in the configuration is not one of the request.
Task<Done> GatewayApi::reload(NoArguments) {
    const Outcome<> done = co_await outcome_of(gateway_.replace_instance());
    if (done) co_return Done();
    if (done.cancelled()) done.rethrow();
    throw Error(ErrorCode::invalid_state, explain(done.failure()).text);
}

Task<ConsoleLink> GatewayApi::console_link(LinkArguments whose) {
    const GatewayRole role = whose.viewer ? GatewayRole::viewer : GatewayRole::operator_;
    ConsoleLink link;
    link.name = whose.name.empty() ? "console" : std::move(whose.name);
    link.role = whose.viewer ? "viewer" : "operator";
    link.url = gateway_.instance()->console_link(role, link.name);
    link.seconds = std::chrono::seconds(ConsoleSessions::link_lifetime).count();
    co_return link;
}

Task<ConsoleLogins> GatewayApi::logins(NoArguments, GatewayCaller caller) {
    ConsoleLogins all;
    all.logins = gateway_.instance()->console_sessions().logins();
    for (ConsoleLogin& one : all.logins)
        one.current = !caller.login.empty() && one.id == caller.login;
    co_return all;
}

Task<Done> GatewayApi::end_login(NamedArguments which) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    ConsoleSessions& sessions = instance->console_sessions();
    if (!sessions.end(which.id))
        throw Error(ErrorCode::not_found,
                    "no login '" + which.id +
                        "' of the web console; list them with: cubepi gateway logins");
    // It must not be valid again after a restart.
    co_await sessions.save();
    co_return Done();
}

std::span<const GatewayOperation> gateway_operations() { return operations; }

const GatewayOperation& gateway_operation(std::string_view name) {
    return *std::find_if(std::begin(operations), std::end(operations),
                         [name](const GatewayOperation& one) { return one.name == name; });
}

Task<JsonObject> perform(GatewayApi* api, const GatewayOperation* operation, GatewayCaller caller,
                         JsonObject arguments) {
    if (operation->role == GatewayRole::operator_ && caller.role != GatewayRole::operator_)
        throw Error(ErrorCode::permission_denied,
                    std::string(operation->name) + " is an operation of operators");
    for (const char* const key :
         {"id", "question", "after", "name", "action", "search", "key", "gateway"})
        check_name(arguments, key);
    const std::string_view required = operation->required;
    if (!required.empty() && detail::text_member(arguments, required).empty())
        throw Error(ErrorCode::invalid_argument,
                    "the request has no '" + std::string(required) + "'");
    // For the log; the others may be large.
    JsonObject named;
    for (const std::string_view key : {operation->target, operation->action})
        if (!key.empty()) named[key] = detail::text_member(arguments, key);
    Task<JsonObject> calling = operation->call(api, caller, std::move(arguments));
    Outcome<JsonObject> result = co_await outcome_of(std::move(calling));
    if (operation->changes()) {
        Runtime::standard()->log.write(
            LogLevel::info, "gateway.operated",
            {{"by", caller.name},
             {"address", caller.address},
             {"operation", operation->name},
             {"action", logged_member(result, named, operation->action)},
             {"target", logged_member(result, named, operation->target)},
             {"outcome", result ? "ok" : logged_error(result.failure())}});
    }
    co_return std::move(result).value();
}

}  // namespace cubepi::app
