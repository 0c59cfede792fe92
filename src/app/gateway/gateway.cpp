#include "gateway.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/schema/json_convert.hpp>

#include "../config/config_file.hpp"
#include "../config/paths.hpp"
#include "../failure.hpp"
#include "../process.hpp"
#include "../terminal/terminal_stream.hpp"
#include "gateway_command.hpp"

namespace cubepi::app {

namespace {

/// Returns a metric without labels, or with one value for each channel.
std::string gauge(const char* name, const char* help,
                  const std::map<std::string, std::size_t>& values) {
    const std::string metric = std::string("cubepi_gateway_") + name;
    std::string text = "# HELP " + metric + " " + help + "\n# TYPE " + metric + " gauge\n";
    for (const auto& [channel, value] : values) {
        text += metric;
        if (!channel.empty()) text += "{channel=" + boost::json::serialize(Json(channel)) + "}";
        text += " " + std::to_string(value) + "\n";
    }
    return text;
}

std::string_view variable(const char* name) {
    const char* const value = std::getenv(name);
    return value ? std::string_view(value) : std::string_view();
}

std::optional<std::int64_t> number_in(const char* name) {
    return detail::parsed_number<std::int64_t>(variable(name));
}

// The protocol between a service and systemd (sd_notify(3)): assignments in a datagram to the socket $NOTIFY_SOCKET.
/// Sends assignments, one per line: "READY=1", "STOPPING=1", "STATUS=...". Does nothing if the program was not started by
/// systemd.
void notify_service_manager(const std::string& assignments) {
    const std::string_view path = variable("NOTIFY_SOCKET");
    sockaddr_un address = {};
    if (path.size() < 2 || path.size() >= sizeof address.sun_path) return;
    if (path.front() != '/' && path.front() != '@') return;
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (path.front() == '@') address.sun_path[0] = '\0';  // an abstract socket
    const detail::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0) return;
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    // systemd does not answer. A failure to send cannot be reported to it.
    (void)::sendto(socket.get(), assignments.data(), assignments.size(), MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&address), size);
}

/// explain() would take a wrong token of a channel for one of the model.
void rethrow_for_user(const Outcome<>& ran) {
    try {
        ran.rethrow();
    } catch (const Error& error) {
        if (error.code() != ErrorCode::auth) throw;
        throw Error(ErrorCode::invalid_argument, error.what());
    }
}

/// Returns true for a failure of a database that is away or busy.
bool is_outage(const std::exception_ptr& failure) {
    constexpr ErrorCode outages[] = {ErrorCode::connect,       ErrorCode::dns,
                                     ErrorCode::tls,           ErrorCode::disconnected,
                                     ErrorCode::unavailable,   ErrorCode::timeout,
                                     ErrorCode::storage_locked};
    const std::string_view code = logged_error(failure);
    return std::any_of(std::begin(outages), std::end(outages),
                       [code](ErrorCode one) { return to_string(one) == code; });
}

/// Returns the interval in which WATCHDOG=1 must be sent, half of what systemd waits; empty if it does not expect it.
std::optional<std::chrono::microseconds> watchdog_interval() {
    const std::optional<std::int64_t> limit = number_in("WATCHDOG_USEC");
    const std::optional<std::int64_t> process = number_in("WATCHDOG_PID");
    if (!limit || *limit <= 0 || (process && *process != ::getpid())) return std::nullopt;
    return std::chrono::microseconds(*limit / 2);
}

/// Returns the assignments that announce the end. TimeoutStopSec of the unit may be that of an older configuration.
std::string stopping_notice(std::chrono::seconds drain_timeout) {
    const std::chrono::microseconds limit = drain_timeout + time_after_drain;
    return "STOPPING=1\nSTATUS=waiting for the running turns\nEXTEND_TIMEOUT_USEC=" +
           std::to_string(limit.count());
}

/// Returns the assignments that announce a reload: systemd requires the time of the monotonic clock.
std::string reloading_notice() {
    timespec now = {};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const std::int64_t microseconds = std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
    return "RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds);
}

/// The logins of the console are next to the control socket: "gateway.logins".
std::filesystem::path login_file(const std::optional<ServedDirectory>& directory) {
    std::filesystem::path path = directory ? directory->socket() : gateway_socket();
    return path.replace_extension(".logins");
}

}  // namespace

Gateway::Gateway(Executor executor, CommandLine line, std::optional<ServedDirectory> directory)
    : executor_(executor),
      line_(std::move(line)),
      directory_(std::move(directory)),
      servers_(std::make_shared<GatewayServers>(executor)),
      console_(std::make_shared<ConsoleSessions>(Runtime::standard(), login_file(directory_))),
      control_(executor, directory_ ? directory_->socket() : gateway_socket(),
               [this](JsonObject request) { return answer(std::move(request)); }),
      work_(executor, [this](const std::exception_ptr& failure) {
          Runtime::standard()->log.write(LogLevel::warning, "gateway.task_failed",
                                         {{"error", logged_error(failure)}});
          warn(explain(failure).text);
      }) {}

Gateway::~Gateway() = default;

void Gateway::warn(const std::string& text) const {
    const std::lock_guard lock(output_);
    warn_operator(text);
}

void Gateway::enter(State state) {
    state_ = state;
    state_changed_.pulse();
    const Logger& log = Runtime::standard()->log;
    switch (state) {
        case State::starting: log.write(LogLevel::info, "gateway.starting"); break;
        case State::running:
            log.write(LogLevel::info, "gateway.running");
            notify_service_manager("READY=1\nSTATUS=running");
            break;
        case State::reloading:
            log.write(LogLevel::info, "gateway.reloading");
            notify_service_manager(reloading_notice());
            break;
        case State::draining:
            log.write(LogLevel::info, "gateway.draining");
            notify_service_manager(stopping_notice(instance_->settings().drain_timeout));
            break;
    }
}

DeliveryLocation Gateway::location_of_deliveries() const {
    if (!directory_) return delivery_location();
    DeliveryLocation place;
    place.directory = directory_->deliveries();
    return place;
}

Task<std::unique_ptr<GatewayInstance>> Gateway::make_instance() {
    const DeliveryLocation place = location_of_deliveries();
    // Messages that are processed now are in the other place.
    if (deliveries_ && place != deliveries_at_) {
        DeliveryLocation otherwise_same = place;
        otherwise_same.notifications = deliveries_at_.notifications;
        throw Error(ErrorCode::invalid_argument,
                    otherwise_same == deliveries_at_
                        ? "a change of 'gateway.notify_database' needs a restart"
                        : "a change of 'database' or of 'gateway.tape_namespace' needs a restart");
    }
    if (!deliveries_) {
        Task<std::shared_ptr<bub::DeliveryLog>> opening =
            open_deliveries(place, [this](const std::string& text) { warn(text); });
        deliveries_ = co_await std::move(opening);
        deliveries_at_ = place;
    }
    const GatewaySettings settings = gateway_settings(config_values(config_path()));
    if (!usage_ && !directory_ && settings.limits.any()) {
        Task<std::shared_ptr<bub::UsageStore>> opening = open_usage(place);
        usage_ = co_await std::move(opening);
    }
    if (!schedules_ && !directory_) {
        Task<std::shared_ptr<bub::ScheduleStore>> opening = open_schedules(
            place, !settings.schedules.empty(), [this](const std::string& text) { warn(text); });
        schedules_ = co_await std::move(opening);
    }
    GatewayInstance::Parts parts;
    parts.deliveries = deliveries_;
    parts.schedules = schedules_;
    parts.usage = usage_;
    parts.telemetry = telemetry_;
    parts.meter = meter_;
    parts.reports = reports_;
    parts.servers = servers_;
    parts.api = &api_;
    parts.console = console_;
    parts.status.problem = [this] {
        return state_ == State::running
                   ? instance_->manager().problem()
                   : std::string("the gateway is starting, reloading or ending");
    };
    parts.status.metrics = [this] { return metrics(); };
    parts.on_warning = [this](const std::string& text) { warn(text); };
    parts.plugins = line_.plugins;
    parts.channels = line_.gateway.channels;
    parts.directory = directory_;
    Task<std::unique_ptr<GatewayInstance>> making =
        GatewayInstance::create(line_.conversation.model, std::move(parts), instance_.get());
    co_return co_await std::move(making);
}

Task<int> Gateway::run() {
    const ConfigFile config = read_config(config_path());
    telemetry_ = std::make_shared<Telemetry>(trace_settings(config.trace));
    telemetry_->show_notices(executor_, [this](const std::string& text) { warn(text); });
    enter(State::starting);
    meter_ = telemetry_->meter();
    // A reload may add `gateway.status`.
    if (!meter_) meter_ = std::make_shared<Meter>();
    reports_ = std::make_shared<TurnReports>(meter_->registry(),
                                             [this](const std::string& text) { warn(text); });
    // The parts of an instance would report only that a port or a file is in use.
    control_.require_free();
    co_await load_logins();
    instance_ = co_await make_instance();
    control_.listen();
    const SignalWatch signals(executor_, [this](int signal) { on_signal(signal); },
                              {SIGINT, SIGTERM, SIGHUP});
    if (const auto interval = watchdog_interval()) work_.spawn(feed_watchdog(*interval));
    work_.spawn(watch_deadlines());
    work_.spawn(watch_lists());
    work_.spawn(serve_peers());
    work_.spawn(save_logins());
    Task<> serving = serve();
    const Outcome<> served = co_await outcome_of(std::move(serving));
    co_await shield();
    co_await control_.stop();
    instance_->end_streams();
    if (replaced_) replaced_->end_streams();
    co_await servers_->stop();
    co_await work_.close();
    co_await write_logins();
    instance_.reset();
    next_.reset();
    replaced_.reset();
    telemetry_->end();
    co_await unshield();
    served.rethrow();
    Runtime::standard()->log.write(LogLevel::info, "gateway.ended");
    co_return exit_ok;
}

/// Without the file, all browsers are logged out.
Task<> Gateway::load_logins() {
    Task<> loading = console_->load();
    const Outcome<> loaded = co_await outcome_of(std::move(loading));
    if (loaded.cancelled()) loaded.rethrow();
    if (!loaded) warn("the logins of the web console are lost: " + explain(loaded.failure()).text);
}

Task<> Gateway::write_logins() {
    Task<> saving = console_->save();
    const Outcome<> saved = co_await outcome_of(std::move(saving));
    if (saved.cancelled()) saved.rethrow();
    if (!saved)
        Runtime::standard()->log.write(LogLevel::warning, "console.logins_save_failed",
                                       {{"error", logged_error(saved.failure())}});
}

/// Records from time to time which logins were used. Those that begin or end are recorded at once.
Task<> Gateway::save_logins() {
    const std::shared_ptr<Clock> clock = Runtime::standard()->clock;
    for (;;) {
        co_await clock->sleep_for(std::chrono::minutes(1));
        co_await write_logins();
    }
}

Task<std::string> Gateway::metrics() {
    const std::shared_ptr<GatewayInstance> instance = instance_;
    std::size_t running = 0;
    std::size_t waiting = 0;
    for (const bub::TurnSnapshot& one : instance->manager().sessions()) {
        running += one.is_running ? 1 : 0;
        waiting += one.pending_count;
    }
    std::string text =
        gauge("running_turns", "Turns that are running.", {{"", running}}) +
        gauge("waiting_messages", "Messages that wait for their turns.", {{"", waiting}});
    std::map<std::string, std::size_t> none;
    for (const std::string& channel : reports_->channels()) none[channel] = 0;
    std::map<std::string, std::size_t> held = none;
    // A store that fails at the moment does not hide the other metrics.
    Task<bub::HeldMessages> reading = instance->manager().held();
    Outcome<bub::HeldMessages> messages = co_await outcome_of(std::move(reading));
    if (messages.cancelled()) messages.rethrow();
    const auto& deliveries = instance->deliveries();
    if (messages && (!deliveries || deliveries->unusable_databases().empty())) {
        for (const bub::StoredInbound& one : messages.value().inbounds)
            ++held[reports_->label_of(one.message.channel.value_or(""))];
        for (const bub::Delivery& one : messages.value().answers)
            ++held[reports_->label_of(one.message.channel.value_or(""))];
        text += gauge("held_messages", "Messages and answers that wait for the operator.", held);
    }
    Task<std::map<std::string, std::size_t>> finding = open_questions();
    Outcome<std::map<std::string, std::size_t>> found = co_await outcome_of(std::move(finding));
    if (found.cancelled()) found.rethrow();
    if (found) text += gauge("open_questions", "Questions that wait for an answer.", found.value());
    co_return text + meter_->prometheus_text();
}

Task<std::map<std::string, std::size_t>> Gateway::open_questions() {
    std::map<std::string, std::size_t> open;
    for (const std::string& channel : reports_->channels()) open[channel] = 0;
    PageArguments which;
    do {
        GatewayQuestions page = co_await api_.questions(which);
        // A part of them would look as if the others were answered.
        if (page.unread_databases) throw Error(ErrorCode::unavailable, "a database cannot be read");
        for (const GatewayQuestion& one : page.questions)
            ++open[reports_->label_of(detail::text_member(one.asker, "channel"))];
        which.after = std::move(page.next).value_or("");
    } while (!which.after.empty());
    co_return open;
}

Task<> Gateway::serve() {
    for (;;) {
        instance_->open_routes();
        work_.spawn(announce_start());
        Task<> running = instance_->manager().run();
        const Outcome<> ran = co_await outcome_of(std::move(running));
        if (next_ && !ending_) {
            replaced_ = std::exchange(instance_, std::move(next_));
        } else if (replaced_ && !ending_ && !ran && !ran.cancelled()) {
            // The new configuration did not start: the one that it replaced serves again (D90).
            reload_failure_ = ran.failure();
            instance_->close_routes();
            Task<std::unique_ptr<GatewayInstance>> making = replaced_->again();
            instance_ = co_await std::move(making);
            replaced_.reset();
        } else {
            rethrow_for_user(ran);
            co_return;
        }
    }
}

Task<> Gateway::announce_start() {
    GatewayInstance* const started = instance_.get();
    const Outcome<> serves = co_await outcome_of(started->manager().started());
    if (serves.cancelled()) serves.rethrow();
    if (!serves || started != instance_.get() || ending_) co_return;
    if (replaced_) replaced_->close_routes();
    replaced_.reset();
    if (!started->settings().console) console_->end_all();
    // A request that has reloaded the configuration is answered before its server stops.
    enter(State::running);
    co_await write_logins();
    co_await servers_->stop_unused();
    co_await greet();
}

/// Tells the user that messages are served; a service of systemd has its log.
Task<> Gateway::greet() {
    if (!variable("NOTIFY_SOCKET").empty()) co_return;
    if (directory_) {
        greet_owner();
        co_return;
    }
    std::string names;
    const auto channels = co_await instance_->manager().enabled_channels();
    for (const auto& channel : channels) {
        if (channel->role() == bub::ChannelRole::lifecycle) continue;
        names += (names.empty() ? "" : ", ") + channel->name();
    }
    const bool is_terminal = isatty(STDOUT_FILENO) != 0;
    // A log file must not have a link that logs in.
    std::string console;
    if (instance_->settings().console) {
        console = "for a link that logs in, run: cubepi gateway console";
        if (is_terminal) console = instance_->console_link(GatewayRole::operator_, local_user());
    }
    const std::lock_guard lock(output_);
    const TerminalView advice = !is_terminal
                                    ? TerminalView("")
                                    : TerminalView(
                                          " Ctrl-C waits for the running turns, and ends the "
                                          "gateway; a second one ends it at once.");
    out() << "Serving " << for_terminal(names) << "." << advice << "\n";
    if (!console.empty()) out() << "Console: " << for_terminal(console) << "\n";
    out() << flush_now;
}

/// The link of `cubepi web` is for the terminal only, too: the command prints one for a program.
void Gateway::greet_owner() const {
    const bool is_terminal = isatty(STDOUT_FILENO) != 0;
    std::string link = "for a link that logs in, run here: cubepi web";
    if (is_terminal)
        link = instance_->console_link(
            directory_->viewer ? GatewayRole::viewer : GatewayRole::operator_, directory_->user);
    const std::lock_guard lock(output_);
    out() << "Serving " << for_terminal(directory_->path.string()) << "."
          << (is_terminal ? TerminalView(" Ctrl-C waits for the running turns, and ends; a second "
                                         "one ends at once.")
                          : TerminalView(""))
          << "\nConsole: " << for_terminal(link) << "\n"
          << flush_now;
}

Task<> Gateway::feed_watchdog(std::chrono::microseconds interval) {
    const std::shared_ptr<Clock> clock = Runtime::standard()->clock;
    for (;;) {
        notify_service_manager("WATCHDOG=1");
        co_await clock->sleep_for(interval);
    }
}

void Gateway::on_signal(int signal) {
    if (signal == SIGHUP) {
        if (state_ == State::running) work_.spawn(reload());
        return;
    }
    if (ending_) {
        instance_->manager().request_stop();
    } else {
        begin_drain();
    }
}

Task<> Gateway::drain() {
    ending_ = true;
    enter(State::draining);
    const std::size_t cancelled =
        co_await instance_->manager().drain(instance_->settings().drain_timeout);
    if (cancelled > 0) {
        Runtime::standard()->log.write(LogLevel::warning, "gateway.turns_cancelled",
                                       {{"turns", cancelled}});
        warn(std::to_string(cancelled) +
             " turns did not end in time; their messages are delivered again at the next start");
    }
}

Task<> Gateway::reload() {
    Task<> replacing = replace_instance();
    const Outcome<> replaced = co_await outcome_of(std::move(replacing));
    if (replaced || replaced.cancelled()) co_return;
    warn("the configuration was not reloaded: " + explain(replaced.failure()).text);
}

Task<> Gateway::replace_instance() {
    if (state_ != State::running)
        throw Error(ErrorCode::invalid_state, "the gateway is starting, reloading or ending");
    reload_failure_ = nullptr;
    enter(State::reloading);
    Task<std::unique_ptr<GatewayInstance>> making = make_instance();
    Outcome<std::unique_ptr<GatewayInstance>> made = co_await outcome_of(std::move(making));
    std::exception_ptr failure = made.failure();
    if (failure) co_await servers_->stop_unused();
    if (failure && !ending_) enter(State::running);
    if (!failure && !ending_) {
        next_ = std::move(made).value();
        // Messages that arrive while the turns of the old configuration end are stored, and delivered under the new one.
        (void)co_await instance_->manager().drain(instance_->settings().drain_timeout);
        while (state_ == State::reloading) co_await state_changed_.wait();
        failure = std::exchange(reload_failure_, nullptr);
    }
    if (failure) {
        Runtime::standard()->log.write(LogLevel::warning, "gateway.reload_failed",
                                       {{"error", logged_error(failure)}});
        std::rethrow_exception(failure);
    }
    if (ending_) throw Error(ErrorCode::invalid_state, "the gateway is ending");
}

/// The lists are read here once for all readers: when a session of this gateway changes, and from time to time because of others.
Task<> Gateway::watch_lists() {
    constexpr std::chrono::seconds shortest_pause{1};
    constexpr std::chrono::seconds longest_pause{2};
    constexpr std::chrono::seconds between_sessions{5};
    // Reading takes a tenth of the time, also with files, of which all are looked at. After an outage, readers do not wait for long.
    constexpr int pause_for_read = 10;
    constexpr std::chrono::seconds longest_for_read{60};
    const std::shared_ptr<Clock> clock = Runtime::standard()->clock;
    std::shared_ptr<LiveAnswers> live;
    std::shared_ptr<LiveAnswers::Watch> watch;
    ListDigests known;
    std::optional<Clock::time_point> announced;
    for (;;) {
        // A reload replaces it.
        if (live != instance_->live_answers()) {
            live = instance_->live_answers();
            watch = live ? live->watch_sessions(executor_) : nullptr;
            known = ListDigests();
        }
        if (!live || !live->has_readers()) {
            known = ListDigests();
            co_await clock->sleep_for(shortest_pause);
            continue;
        }
        watch->changed.reset();
        const auto begin = clock->now();
        Task<ListDigests> reading = api_.list_digests();
        Outcome<ListDigests> read = co_await outcome_of(std::move(reading));
        if (read.cancelled()) read.rethrow();
        const auto end = clock->now();
        if (read) {
            ListDigests& now = read.value();
            // In a busy cluster they change all the time, and each page reads them. What is not announced is compared once more.
            const bool is_soon = announced && end - *announced < between_sessions;
            const bool sessions = now.sessions != known.sessions && !is_soon;
            live->list_changed(now.questions != known.questions, sessions);
            if (sessions) {
                announced = end;
                known.sessions = std::move(now.sessions);
            }
            known.questions = std::move(now.questions);
        }
        co_await clock->sleep_for(std::clamp<std::chrono::nanoseconds>(
            pause_for_read * (end - begin), shortest_pause, longest_for_read));
        const auto next = deadline_after(clock->now(), longest_pause);
        (void)co_await detail::run_until(*clock, next, watch->changed.wait());
    }
}

Task<> Gateway::serve_peers() {
    const std::shared_ptr<bub::GatewayPeers> peers = deliveries_->peers();
    if (!peers) co_return;
    const std::shared_ptr<Clock> clock = Runtime::standard()->clock;
    for (;;) {
        Outcome<GatewayStatus> status = co_await outcome_of(api_.status_here());
        if (status.cancelled()) status.rethrow();
        JsonObject facts;
        if (status) facts = to_json(status.value());
        Task<std::vector<bub::PeerCall>> receiving = peers->receive(boost::json::serialize(facts));
        Outcome<std::vector<bub::PeerCall>> calls = co_await outcome_of(std::move(receiving));
        if (calls.cancelled()) calls.rethrow();
        note_peers(calls.failure());
        if (calls)
            for (bub::PeerCall& call : calls.value())
                work_.spawn(answer_peer(peers, std::move(call)));
        const auto next = deadline_after(clock->now(), std::chrono::seconds(1));
        (void)co_await detail::run_until(*clock, next, peers->wait());
    }
}

void Gateway::note_peers(const std::exception_ptr& failure) {
    // A database that is away is reported by what needs it.
    if (failure && is_outage(failure)) return;
    const bool is_known = !peers_problem_.empty();
    peers_problem_.clear();
    if (failure)
        peers_problem_ =
            "other gateways cannot see or operate this one: " + exception_text(failure);
    if (is_known == !peers_problem_.empty()) return;
    if (failure)
        Runtime::standard()->log.write(LogLevel::warning, "gateway.peers_failed",
                                       {{"error", logged_error(failure)}});
    warn(failure ? peers_problem_ : "other gateways can see and operate this one again");
}

Task<> Gateway::answer_peer(std::shared_ptr<bub::GatewayPeers> peers, bub::PeerCall call) {
    boost::system::error_code failed;
    Json request = boost::json::parse(call.request, failed);
    JsonObject answer{{"error", "the request is not a JSON object"}};
    if (!failed && request.is_object()) {
        Task<JsonObject> answering = api_.answer_peer(std::move(request.get_object()));
        answer = co_await std::move(answering);
    }
    // Also of the request that ends this gateway.
    co_await shield();
    co_await peers->answer(call.id, boost::json::serialize(answer));
}

Task<JsonObject> Gateway::answer(JsonObject request) {
    const std::string command = detail::text_member(request, "command");
    request.erase("command");
    for (const GatewayOperation& operation : gateway_operations()) {
        if (operation.name != command) continue;
        GatewayCaller caller{GatewayRole::operator_, local_user(), "control socket"};
        Task<JsonObject> performing =
            perform(&api_, &operation, std::move(caller), std::move(request));
        JsonObject answered = co_await std::move(performing);
        co_return answered;
    }
    throw Error(ErrorCode::invalid_argument, "the gateway (version " + std::string(version_text()) +
                                                 ") does not know the command '" + command + "'");
}

std::string_view Gateway::state() const {
    constexpr const char* names[] = {"starting", "running", "reloading", "draining"};
    return names[static_cast<std::size_t>(state_)];
}

double Gateway::started() const {
    return std::chrono::duration<double>(began_.time_since_epoch()).count();
}

void Gateway::begin_drain() {
    if (!std::exchange(ending_, true)) work_.spawn(drain());
}

}  // namespace cubepi::app
