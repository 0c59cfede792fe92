#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/channel_manager.hpp>
#include <bub/channel/delivery_log.hpp>
#include <bub/channel/divided_delivery_log.hpp>
#include <bub/channel/gateway_peers.hpp>
#include <bub/channel/http_channel.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/schema/json_convert.hpp>
#include <cubepi/schema/json_text.hpp>

#include "../failure.hpp"
#include "gateway_api.hpp"
#include "gateway_instance.hpp"

// The operations of a GatewayApi on all gateways that share their messages (D237): each gateway reports its status in a row, and executes
// the requests of others that it finds there.

namespace cubepi::app {

namespace {

using bub::GatewayPeer;
using bub::PeerReply;

/// How long another gateway may take. It looks for requests in each second.
constexpr std::chrono::seconds answer_limit{5};
constexpr std::size_t longest_page = 1'000;
constexpr std::size_t longest_usage = 200;

/// The name of a host without the namespace of its processes.
std::string host_of(const GatewayPeer& peer) { return peer.host.substr(0, peer.host.find(' ')); }

bool is_named(const GatewayPeer& peer, const std::string& name) {
    return name == host_of(peer) || name == std::to_string(peer.number);
}

JsonObject object_of(const std::string& text) {
    boost::system::error_code failed;
    Json value = boost::json::parse(text, failed);
    if (failed || !value.is_object()) return {};
    return std::move(value.get_object());
}

/// The other gateway may have another version: members that it does not have are empty.
template <class T>
T read(JsonObject object) {
    ReadOptions options;
    options.require_fields = false;
    return from_json<T>(Json(std::move(object)), options);
}

GatewayStatus reported_status(const GatewayPeer& peer) {
    try {
        return read<GatewayStatus>(object_of(peer.facts));
    } catch (const Error&) {
        // It has another version, or has reported nothing yet.
        return {};
    }
}

ClusterGateway summary(const GatewayPeer& peer, const GatewayStatus& status) {
    ClusterGateway one;
    one.id = std::to_string(peer.number);
    one.host = host_of(peer);
    one.pid = peer.pid;
    one.here = peer.is_here;
    one.state = status.state.empty() ? "unknown" : status.state;
    one.version = status.version;
    one.started = status.started;
    one.configuration = status.configuration;
    one.channels = status.channels;
    one.running_turns = status.running_turns;
    one.waiting_messages = status.waiting_messages;
    one.held = status.held;
    one.problem = status.problem;
    return one;
}

/// Reads the request to stop a turn that stop_elsewhere() of another gateway has sent.
bub::Envelope stop_request(const JsonObject& arguments) {
    const JsonObject* const message = detail::object_member(arguments, "message");
    bub::Envelope by(message ? *message : JsonObject());
    by.from_operator = detail::flag_member(arguments, "operator");
    by.is_active = true;
    if (std::string id = detail::text_member(arguments, "message_id"); !id.empty())
        by.inbound_id = std::move(id);
    return by;
}

std::shared_ptr<bub::GatewayPeers> peers_of(const GatewayInstance& instance) {
    return instance.deliveries() ? instance.deliveries()->peers() : nullptr;
}

/// Returns null if the sessions are not divided among databases.
const bub::DividedDeliveryLog* divided_log(const GatewayInstance& instance) {
    return dynamic_cast<const bub::DividedDeliveryLog*>(instance.deliveries().get());
}

std::string list_of(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return list;
}

}  // namespace

struct GatewayApi::PeerAnswer {
    std::string id = {};
    std::string host = {};
    PeerReply::State state = PeerReply::State::unknown;
    JsonObject answer = {};  ///< of answer_peer()

    /// Several gateways may run on a host.
    std::string name() const { return id.empty() ? host : host + "/" + id; }
    const JsonObject* result() const { return detail::object_member(answer, "result"); }
    std::string error() const { return detail::text_member(answer, "error"); }
    bool is_elsewhere() const { return answer.contains("not_here"); }
};

namespace {

/// A question does not change while it waits, so that the names are enough.
std::string names_of(const GatewayQuestions& asked) {
    std::string text = asked.next.value_or("") + "\n";
    for (const GatewayQuestion& one : asked.questions)
        text += one.id + " " + std::to_string(one.expires_at.value_or(0)) + "\n";
    for (const std::string& database : asked.unread_databases.value_or(std::vector<std::string>()))
        text += database + "\n";
    return text;
}

/// Reads the results of other gateways. One that cannot be read, which a damaged row has, counts as none.
template <class T, class Answers>
std::vector<std::optional<T>> read_results(Answers& answers) {
    std::vector<std::optional<T>> results;
    for (auto& one : answers) {
        std::optional<T>& result = results.emplace_back();
        if (!one.result()) continue;
        try {
            result = read<T>(*one.result());
        } catch (const Error&) {
            one.answer.clear();
        }
    }
    return results;
}

/// The gateways that have not answered; nothing if all have.
template <class Answers>
std::optional<std::vector<std::string>> silent_gateways(const Answers& answers) {
    std::vector<std::string> names;
    for (const auto& one : answers)
        if (!one.result()) names.push_back(one.name());
    if (names.empty()) return std::nullopt;
    return names;
}

using Names = std::optional<std::vector<std::string>>;

/// Adds those that the list does not have.
void add_names(Names& list, const Names& others) {
    for (const std::string& name : others.value_or(std::vector<std::string>())) {
        if (!list) list.emplace();
        if (std::find(list->begin(), list->end(), name) == list->end()) list->push_back(name);
    }
}

}  // namespace

Task<GatewayUsage> GatewayApi::usage(UsageArguments which) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    if (!instance->usage())
        throw Error(ErrorCode::invalid_state,
                    "nothing is limited by day, so use is not counted; set gateway.limits");
    const std::size_t limit = std::clamp<std::size_t>(which.limit, 1, longest_usage);
    Task<bub::UsageReport> reading = instance->usage()->report(limit + 1, std::move(which.search));
    bub::UsageReport report = co_await std::move(reading);
    GatewayUsage usage;
    usage.day = report.day.date;
    usage.ends = static_cast<double>(report.day.end);
    usage.has_more = report.used.size() > limit;
    if (usage.has_more) report.used.resize(limit);
    for (const bub::CounterReport& one : report.used) {
        GatewayUse& use = usage.used.emplace_back();
        use.counter = one.counter;
        use.messages = one.used.messages;
        use.tokens = one.used.tokens;
        use.cost = bub::usd_of(one.used.micros);
        use.most_messages = one.limit.messages;
        use.most_tokens = one.limit.tokens;
        if (one.limit.micros) use.most_cost = bub::usd_of(*one.limit.micros);
    }
    co_return usage;
}

Task<GatewayStatus> GatewayApi::status(NoArguments) {
    GatewayStatus status = co_await status_here();
    Task<GatewayUsage> reading = usage(UsageArguments());
    Outcome<GatewayUsage> used = co_await outcome_of(std::move(reading));
    if (used.cancelled()) used.rethrow();
    if (used) status.usage = std::move(used).value();
    const std::shared_ptr<bub::GatewayPeers> peers = peers_of(*gateway_.instance());
    if (!peers) co_return status;
    Task<std::vector<GatewayPeer>> listing = list_peers(peers);
    Outcome<std::vector<GatewayPeer>> listed = co_await outcome_of(std::move(listing));
    if (listed.cancelled()) listed.rethrow();
    if (!listed) {
        if (!status.problem) status.problem = "the other gateways cannot be listed";
        co_return status;
    }
    std::vector<ClusterGateway>& all = status.gateways.emplace();
    std::set<std::string> configurations;
    for (const GatewayPeer& peer : listed.value()) {
        all.push_back(summary(peer, peer.is_here ? status : reported_status(peer)));
        if (!all.back().configuration.empty()) configurations.insert(all.back().configuration);
    }
    status.configurations_differ = configurations.size() > 1;
    co_return status;
}

/// Returns true if a name of a gateway, which may be empty, is that of this one.
Task<bool> GatewayApi::is_meant(std::string name) {
    if (name.empty()) co_return true;
    const std::shared_ptr<bub::GatewayPeers> peers = peers_of(*gateway_.instance());
    if (!peers) co_return false;
    const std::vector<GatewayPeer> all = co_await list_peers(peers);
    co_return std::any_of(all.begin(), all.end(), [&name](const GatewayPeer& one) {
        return one.is_here && is_named(one, name);
    });
}

Task<std::vector<GatewayPeer>> GatewayApi::list_peers(std::shared_ptr<bub::GatewayPeers> peers) {
    Task<std::vector<GatewayPeer>> listing =
        with_timeout(*Runtime::standard()->clock, answer_limit, peers->list(), "list of gateways");
    Outcome<std::vector<GatewayPeer>> listed = co_await outcome_of(std::move(listing));
    if (listed.cancelled()) listed.rethrow();
    if (!listed) {
        const bub::DividedDeliveryLog* const divided = divided_log(*gateway_.instance());
        throw Error(ErrorCode::unavailable,
                    "the other gateways cannot be asked, because " +
                        (divided ? "the database '" + divided->map().name(0) + "', which has them,"
                                 : std::string("their database")) +
                        " cannot be read: " + explain(listed.failure()).text);
    }
    co_return std::move(listed).value();
}

Task<std::vector<GatewayApi::PeerAnswer>> GatewayApi::ask_for_list(JsonObject request) {
    Task<std::vector<PeerAnswer>> asking = ask_others(std::move(request));
    Outcome<std::vector<PeerAnswer>> asked = co_await outcome_of(std::move(asking));
    if (asked.cancelled()) asked.rethrow();
    if (asked) co_return std::move(asked).value();
    std::vector<PeerAnswer> none(1);
    none.front().host = "all others";
    co_return none;
}

Task<std::vector<GatewayApi::PeerAnswer>> GatewayApi::ask_others(JsonObject request,
                                                                 std::string gateway, Asked asked) {
    std::vector<PeerAnswer> answers;
    const std::shared_ptr<bub::GatewayPeers> peers = peers_of(*gateway_.instance());
    if (!peers) co_return answers;
    const std::vector<GatewayPeer> all = co_await list_peers(peers);
    const std::string text = json_text(request);
    std::vector<std::int64_t> numbers;
    for (const GatewayPeer& peer : all) {
        if (peer.is_here || (!gateway.empty() && !is_named(peer, gateway))) continue;
        answers.emplace_back().host = host_of(peer);
        answers.back().id = std::to_string(peer.number);
        numbers.push_back(peer.number);
    }
    std::function<bool(const PeerReply&)> is_enough;
    // One that is frozen delays only an answer that none of the others has.
    if (asked == Asked::one_that_has_it)
        is_enough = [](const PeerReply& reply) {
            return object_of(reply.result).contains("result");
        };
    Task<std::vector<PeerReply>> calling =
        bub::call_gateways(peers, std::move(numbers), text, answer_limit, std::move(is_enough));
    const std::vector<PeerReply> replies = co_await std::move(calling);
    for (std::size_t at = 0; at < replies.size(); ++at) {
        answers[at].state = replies[at].state;
        answers[at].answer = object_of(replies[at].result);
    }
    co_return answers;
}

Task<bool> GatewayApi::act_elsewhere(JsonObject request) {
    const std::vector<PeerAnswer> answers =
        co_await ask_others(std::move(request), std::string(), Asked::one_that_has_it);
    std::string error;
    std::vector<std::string> silent;
    for (const PeerAnswer& one : answers) {
        if (one.result()) co_return true;
        if (!one.error().empty()) {
            if (error.empty()) error = one.host + ": " + one.error();
        } else if (!one.is_elsewhere()) {
            const bool has_begun = one.state == PeerReply::State::unknown;
            silent.push_back(one.name() + (has_begun ? " (has begun, and may still do it)" : ""));
        }
    }
    if (!error.empty()) throw Error(ErrorCode::invalid_state, error);
    if (!silent.empty())
        throw Error(ErrorCode::unavailable,
                    "no gateway that has answered has it, and these have not answered within " +
                        std::to_string(answer_limit.count()) + " s: " + list_of(silent) +
                        ". See the gateways: cubepi gateway status");
    co_return false;
}

Task<bub::StopOutcome> GatewayApi::stop_elsewhere(bub::Envelope by) {
    JsonObject request{{"command", "stop_turn"}, {"id", bub::default_session(by)}};
    request["message"] = bub::to_json(by);
    request["operator"] = by.is_operator();
    request["message_id"] = by.inbound_id.value_or("");
    const std::vector<PeerAnswer> answers =
        co_await ask_others(std::move(request), std::string(), Asked::one_that_has_it);
    bub::StopOutcome outcome = bub::StopOutcome::idle;
    for (const PeerAnswer& one : answers) {
        if (!one.result()) continue;
        const bool is_refused = detail::text_member(*one.result(), "outcome") == "refused";
        outcome = is_refused ? bub::StopOutcome::refused : bub::StopOutcome::stopped;
    }
    co_return outcome;
}

/// The first turn of a session is on its tape when it has ended; until then the gateway that runs it knows the session.
Task<bool> GatewayApi::knows_session(std::string session) {
    const bool is_here = co_await knows_session_here(session);
    if (is_here) co_return true;
    JsonObject request{{"command", "knows"}, {"id", session}};
    const std::vector<PeerAnswer> answers =
        co_await ask_others(std::move(request), std::string(), Asked::one_that_has_it);
    co_return std::any_of(answers.begin(), answers.end(),
                          [](const PeerAnswer& one) { return one.result() != nullptr; });
}

Task<std::optional<JsonObject>> GatewayApi::ask_channel(JsonObject request, std::string gateway) {
    JsonObject call{{"command", "channel"}};
    call["request"] = std::move(request);
    const std::vector<PeerAnswer> answers =
        co_await ask_others(std::move(call), std::move(gateway), Asked::one_that_has_it);
    std::optional<JsonObject> found;
    bool is_known = true;
    for (const PeerAnswer& one : answers) {
        if (!one.result()) {
            is_known = is_known && (one.is_elsewhere() || !one.error().empty());
        } else if (!found) {
            found = *one.result();
            (*found)["gateway"] = one.id;
        }
    }
    if (!found && !is_known)
        throw Error(ErrorCode::unavailable, "other gateways have not answered");
    co_return found;
}

Task<std::optional<JsonObject>> GatewayApi::ask_channel_here(JsonObject request) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    const auto channels = co_await instance->manager().enabled_channels();
    std::optional<JsonObject> found;
    for (const std::shared_ptr<bub::Channel>& channel : channels) {
        auto* const http = dynamic_cast<bub::HttpChannel*>(channel.get());
        if (!http || found) continue;
        Task<std::optional<JsonObject>> answering = http->answer_elsewhere(request);
        found = co_await std::move(answering);
    }
    co_return found;
}

Task<BusySessions> GatewayApi::sessions(PageArguments page) {
    const std::size_t limit = std::clamp<std::size_t>(page.limit, 1, longest_page);
    BusySessions result = sessions_here(page);
    JsonObject request{{"command", "sessions"}, {"limit", limit}, {"after", page.after}};
    std::vector<PeerAnswer> answers = co_await ask_for_list(std::move(request));
    std::vector<std::optional<BusySessions>> results = read_results<BusySessions>(answers);
    for (std::size_t at = 0; at < answers.size(); ++at) {
        if (!results[at]) continue;
        for (BusySession& session : results[at]->sessions) {
            session.gateway = answers[at].host;
            result.sessions.push_back(std::move(session));
        }
        if (results[at]->next) result.next = std::move(results[at]->next);
    }
    std::sort(result.sessions.begin(), result.sessions.end(),
              [](const BusySession& a, const BusySession& b) {
                  return a.session == b.session ? a.running && !b.running : a.session < b.session;
              });
    // A session that moves may be at two of them at the moment.
    result.sessions.erase(std::unique(result.sessions.begin(), result.sessions.end(),
                                      [](const BusySession& a, const BusySession& b) {
                                          return a.session == b.session;
                                      }),
                          result.sessions.end());
    const bool has_more = result.next || result.sessions.size() > limit;
    if (result.sessions.size() > limit) result.sessions.resize(limit);
    result.next.reset();
    if (has_more && !result.sessions.empty()) result.next = result.sessions.back().session;
    result.unanswered = silent_gateways(answers);
    co_return result;
}

/// Other gateways report in their facts how much they do, and are not asked each time.
Task<ListDigests> GatewayApi::list_digests() {
    Task<GatewayQuestions> asking = questions(PageArguments());
    Outcome<GatewayQuestions> asked = co_await outcome_of(std::move(asking));
    ListDigests digests;
    if (asked.cancelled()) asked.rethrow();
    digests.questions =
        asked ? names_of(asked.value()) : std::string(logged_error(asked.failure()));
    digests.questions = detail::sha256_hex(digests.questions);
    Task<std::string> reading = newest_sessions();
    Outcome<std::string> read = co_await outcome_of(std::move(reading));
    if (read.cancelled()) read.rethrow();
    digests.sessions = read ? std::move(read).value() : std::string(logged_error(read.failure()));
    const BusySessions busy = sessions_here(PageArguments());
    digests.sessions += boost::json::serialize(to_json(busy));
    const std::shared_ptr<bub::GatewayPeers> peers = peers_of(*gateway_.instance());
    if (peers) {
        Task<std::vector<GatewayPeer>> listing = list_peers(peers);
        Outcome<std::vector<GatewayPeer>> listed = co_await outcome_of(std::move(listing));
        if (listed.cancelled()) listed.rethrow();
        if (listed)
            for (const GatewayPeer& peer : listed.value())
                if (!peer.is_here) digests.sessions += peer.facts;
    }
    digests.sessions = detail::sha256_hex(digests.sessions);
    co_return digests;
}

Task<HeldList> GatewayApi::held(NoArguments) {
    HeldList list = co_await held_here();
    JsonObject request{{"command", "held"}};
    std::vector<PeerAnswer> answers = co_await ask_for_list(std::move(request));
    std::vector<std::optional<HeldList>> results = read_results<HeldList>(answers);
    for (std::size_t at = 0; at < answers.size(); ++at) {
        if (!results[at]) continue;
        add_names(list.unread_databases, results[at]->unread_databases);
        for (auto member : {&HeldList::messages, &HeldList::answers}) {
            for (HeldMessage& message : (*results[at]).*member) {
                message.gateway = answers[at].host;
                (list.*member).push_back(std::move(message));
            }
        }
    }
    list.unanswered = silent_gateways(answers);
    co_return list;
}

Task<bool> GatewayApi::holds(std::string id) {
    const HeldList list = co_await held_here();
    const auto has_id = [&id](const HeldMessage& one) { return one.id == id; };
    co_return std::any_of(list.messages.begin(), list.messages.end(), has_id) ||
        std::any_of(list.answers.begin(), list.answers.end(), has_id);
}

Task<Done> GatewayApi::decide(std::string id, bool release) {
    const bool is_here = co_await holds(id);
    if (!is_here) {
        JsonObject request{{"command", release ? "release" : "discard"}, {"id", id}};
        const bool done = co_await act_elsewhere(std::move(request));
        if (done) co_return Done();
        require_database(id);
    }
    // Reports that it is held nowhere, or by a call in progress.
    co_return co_await decide_here(std::move(id), release);
}

Task<Done> GatewayApi::stop(NamedArguments which) {
    bool stopped = co_await stop_here(which.id);
    if (!stopped) {
        JsonObject request{{"command", "stop"}, {"id", which.id}};
        stopped = co_await act_elsewhere(std::move(request));
    }
    if (stopped) co_return Done();
    if (const bub::DividedDeliveryLog* const divided = divided_log(*gateway_.instance())) {
        const std::string& database = divided->map().name(divided->map().of_session(which.id));
        const std::vector<std::string> unusable = divided->unusable_databases();
        if (std::find(unusable.begin(), unusable.end(), database) != unusable.end())
            throw Error(ErrorCode::unavailable,
                        "no turn is running in the session '" + which.id + "' of the database '" +
                            database +
                            "', which cannot be used at the moment; its messages may still wait "
                            "there");
    }
    throw Error(ErrorCode::invalid_state,
                "no turn is running in the session '" + which.id +
                    "'. Sessions with turns: cubepi gateway sessions. To withdraw a question: "
                    "cubepi inbox --gateway cancel ID");
}

Task<Done> GatewayApi::drain(DrainArguments which) {
    const bool is_here = which.all || co_await is_meant(which.gateway);
    std::vector<PeerAnswer> answers;
    if (which.all || !which.gateway.empty()) {
        JsonObject request{{"command", "drain"}};
        Task<std::vector<PeerAnswer>> asking =
            ask_others(std::move(request), which.all ? std::string() : which.gateway);
        Outcome<std::vector<PeerAnswer>> asked = co_await outcome_of(std::move(asking));
        if (!asked && !asked.cancelled() && is_here) gateway_.begin_drain();
        answers = std::move(asked).value();
    }
    if (!is_here && answers.empty())
        throw Error(ErrorCode::not_found, "no gateway is named '" + which.gateway +
                                              "'; names and ids: cubepi gateway status");
    if (is_here) gateway_.begin_drain();
    if (const auto silent = silent_gateways(answers))
        throw Error(ErrorCode::unavailable,
                    "these gateways have not answered: " + list_of(*silent) +
                        ". See the gateways: cubepi gateway status");
    co_return Done();
}

Task<JsonObject> GatewayApi::perform_here(std::string command, JsonObject arguments) {
    const std::string id = detail::text_member(arguments, "id");
    JsonObject answer;
    bool is_here = true;
    if (command == "sessions") {
        answer["result"] = to_json(sessions_here(read<PageArguments>(std::move(arguments))));
    } else if (command == "held") {
        const HeldList list = co_await held_here();
        answer["result"] = to_json(list);
    } else if (command == "release" || command == "discard") {
        is_here = co_await holds(id);
        if (!is_here) require_database(id);
        if (is_here) (void)co_await decide_here(id, command == "release");
    } else if (command == "stop") {
        is_here = co_await stop_here(id);
    } else if (command == "stop_turn") {
        Task<bub::StopOutcome> stopping = stop_turn_here(stop_request(arguments));
        const bub::StopOutcome outcome = co_await std::move(stopping);
        is_here = outcome != bub::StopOutcome::idle;
        if (outcome == bub::StopOutcome::refused)
            answer["result"] = JsonObject{{"outcome", "refused"}};
    } else if (command == "knows") {
        is_here = co_await knows_session_here(id);
    } else if (command == "channel") {
        const JsonObject* const request = detail::object_member(arguments, "request");
        Task<std::optional<JsonObject>> asking =
            ask_channel_here(request ? *request : JsonObject());
        std::optional<JsonObject> found = co_await std::move(asking);
        is_here = found.has_value();
        if (found) answer["result"] = std::move(*found);
    } else if (command == "drain") {
        gateway_.begin_drain();
    } else {
        throw Error(ErrorCode::unsupported, "this gateway does not know the request '" + command +
                                                "' of another one: update it");
    }
    if (!is_here) {
        answer["not_here"] = true;
    } else if (answer.empty()) {
        answer["result"] = JsonObject{{"ok", true}};
    }
    co_return answer;
}

Task<JsonObject> GatewayApi::answer_peer(JsonObject request) {
    const std::string command = detail::text_member(request, "command");
    const std::string id = detail::text_member(request, "id");
    Task<JsonObject> performing = perform_here(command, std::move(request));
    Outcome<JsonObject> performed = co_await outcome_of(std::move(performing));
    if (performed.cancelled()) performed.rethrow();
    const std::string outcome(performed ? "ok" : logged_error(performed.failure()));
    JsonObject answer;
    if (performed) {
        answer = std::move(performed).value();
    } else {
        answer["error"] = explain(performed.failure()).text;
    }
    static constexpr std::string_view reads[] = {"sessions", "held", "knows", "channel"};
    const bool only_reads =
        std::find(std::begin(reads), std::end(reads), command) != std::end(reads);
    if (!only_reads && !answer.contains("not_here"))
        Runtime::standard()->log.write(LogLevel::info, "gateway.operated",
                                       {{"by", "another gateway"},
                                        {"operation", command},
                                        {"target", id},
                                        {"outcome", outcome}});
    co_return answer;
}

}  // namespace cubepi::app
