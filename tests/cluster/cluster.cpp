#include "cluster.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>

#include "../gateway/echo_model.hpp"
#include "cluster_options.hpp"
#include "gateway/control_server.hpp"

namespace cubepi::cluster_tests {

using gateway_tests::Asked;

namespace {

/// The interval in which the test polls a condition.
constexpr std::chrono::milliseconds interval{20};
/// A client that gets no answer for so long repeats its request elsewhere: the gateway may be frozen.
constexpr std::chrono::seconds patience{5};
/// The interval in which clients ask whether an update is processed.
constexpr std::chrono::milliseconds pause_of_bot{200};
/// A fault that clients notice has been noticed by so many.
constexpr std::size_t many_clients = 16;

void pause() { std::this_thread::sleep_for(interval); }

/// Reads what queries return, on one connection: for each new one the server starts a process, which takes it longer than the query. A
/// server whose disk was full may recover, and end connections, after it has answered again.
class Reader {
public:
    explicit Reader(std::string database) : database_(std::move(database)) {}

    std::vector<std::string> read(const std::string& sql) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
        for (;;) {
            try {
                if (!server_) server_.emplace(database_);
                return server_->query(sql);
            } catch (const std::runtime_error&) {
                server_.reset();
                if (std::chrono::steady_clock::now() > deadline) throw;
            }
            pause();
        }
    }

    /// Returns when the query reads zero.
    void wait_for_none(const std::string& sql) {
        while (read(sql).front() != "0") pause();
    }

private:
    const std::string database_;
    std::optional<RawPostgres> server_;
};

/// Seconds since 1970.
double now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

/// Returns what a process and its children have used.
ProcessorTime time_of(int pid) {
    ProcessorTime time;
    const auto second = static_cast<double>(sysconf(_SC_CLK_TCK));
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        std::ifstream file(entry.path() / "stat");
        std::string text;
        if (!std::getline(file, text)) continue;
        // The name of the program may contain spaces.
        const std::size_t end = text.rfind(')');
        if (end == std::string::npos) continue;
        std::istringstream words(text.substr(end + 1));
        const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
        // State, parent, then fields 5 to 13; times of itself, and of children that have ended.
        if (fields.size() < 15) continue;
        const bool is_it = entry.path().filename() == std::to_string(pid);
        if (!is_it && fields[1] != std::to_string(pid)) continue;
        for (const std::size_t at : {11U, 13U}) {
            const double kernel = std::stod(fields[at + 1]) / second;
            time += {std::stod(fields[at]) / second + kernel, kernel};
        }
    }
    return time;
}

/// Returns what this process, or this thread of it, has used.
ProcessorTime own_time(int which) {
    rusage used{};
    (void)::getrusage(which, &used);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return {seconds(used.ru_utime) + seconds(used.ru_stime), seconds(used.ru_stime)};
}

}  // namespace

CountingModel::CountingModel()
    : server_([this](wire::Connection& connection) {
          for (;;) {
              const std::string request = connection.read_request();
              // It has no list of models.
              if (request.empty() || request.starts_with("GET ")) return;
              const std::optional<std::string> answer = answer_to(request);
              if (!answer) return;
              if (!connection.send(wire::ok(*answer, "Content-Type: text/event-stream\r\n")))
                  return;
          }
      }) {}

std::vector<std::string> CountingModel::flags() const {
    return {"--provider", "openai", "--base-url", server_.url("/v1"), "-m", "local"};
}

void CountingModel::hold_after(std::size_t requests) {
    const std::lock_guard lock(mutex_);
    hold_after_ = requests;
    changed_.notify_all();
}

void CountingModel::release() { hold_after(0); }

void CountingModel::lose(std::size_t messages) {
    const std::lock_guard lock(mutex_);
    to_lose_ += messages;
}

bool CountingModel::wait_for(std::size_t requests) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return requests_ >= requests || is_over_; });
    return requests_ >= requests;
}

void CountingModel::end() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
}

bool CountingModel::is_over() {
    const std::lock_guard lock(mutex_);
    return is_over_;
}

namespace {

/// A model does not repeat what its conversation shows, if it is told that the message is late.
bool is_late_and_called(const Asked& asked, const Json& arguments) {
    if (asked.prompt.find("[This message is late") == std::string::npos) return false;
    const Json request = boost::json::parse(asked.body);
    for (const Json& message : request.at("messages").as_array()) {
        const Json* const calls = message.as_object().if_contains("tool_calls");
        if (!calls || !calls->is_array()) continue;
        for (const Json& call : calls->as_array())
            if (boost::json::parse(call.at("function").at("arguments").as_string()) == arguments)
                return true;
    }
    return false;
}

}  // namespace

std::optional<std::string> CountingModel::answer_to(const std::string& request) {
    const Asked asked(request);
    std::unique_lock lock(mutex_);
    ++requests_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return hold_after_ == 0 || requests_ < hold_after_; });
    if (to_lose_ > 0 && lost_.insert(asked.text).second) {
        --to_lose_;
        return std::nullopt;
    }
    if (asked.text.starts_with("effect ") && asked.role == "user") {
        const Json arguments = JsonObject{{"key", asked.text.substr(7)}};
        if (!is_late_and_called(asked, arguments))
            return joint_tests::chat_answer("", {{"effect", boost::json::serialize(arguments)}});
    }
    return joint_tests::chat_answer("re: " + asked.text);
}

namespace {

/// Returns the id of the group of a session.
std::int64_t group_of(const std::string& session) { return -1'000 - std::stoll(session.substr(1)); }

/// Returns the name of a database from its URL.
std::string name_of(const std::string& url) { return url.substr(url.rfind('/') + 1); }

/// Reads ID.FENCE, or DATABASE:ID.FENCE.
std::int64_t held_id(const std::string& text) {
    const std::size_t mark = text.find(':');
    if (mark == std::string::npos) return std::stoll(text);
    return std::stoll(text.substr(mark + 1)) + (text[0] - 'a') * distance_of_ids;
}

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++count;
    return count;
}

bool has_ended(int pid) {
    siginfo_t found{};
    const int options = WEXITED | WNOHANG | WNOWAIT;
    return ::waitid(P_PID, static_cast<id_t>(pid), &found, options) == 0 && found.si_pid == pid;
}

}  // namespace

Cluster::Cluster(std::uint32_t seed, Database database, std::size_t chats)
    : network_(database == Database::network ? ServerNetwork::make(size) : nullptr),
      random_(seed),
      clients_(number_or("CUBEPI_CLUSTER_CLIENTS", 32)),
      count_(database == Database::files ? 1 : size),
      chats_(chats),
      bot_(chats == 0
               ? nullptr
               : std::make_unique<gateway_tests::FakeBotServer>(std::make_shared<SystemClock>())),
      effects_(homes_.front().path() / "effects"),
      disk_(database == Database::small_disk ? SmallDisk::mount() : nullptr),
      primary_(disk_                              ? disk_->new_server()
               : network_                         ? network_->new_server()
               : database == Database::replicated ? std::make_unique<PostgresServer>()
                                                  : nullptr),
      database_(database == Database::files
                    ? std::string()
                    : gateway_tests::new_database(homes_.front(), server())) {
    if (database == Database::files) {
        homes_.front().configure("{" + channel() + ", max_waiting: 100}");
        start_all();
        return;
    }
    if (const char* const other = std::getenv("CUBEPI_CLUSTER_OTHER"))
        homes_.at(1).use_program(other);
    if (bot_) lose_answers_of_service();
    if (database == Database::divided) divide();
    const std::string name = name_of(database_);
    std::string socket = server().file(".s.PGSQL.5432");
    if (database == Database::pooled) {
        pooler_ = std::make_unique<PgBouncer>(server());
        socket = server().file(".s.PGSQL." + std::to_string(PgBouncer::port));
    }
    if (database == Database::replicated) {
        replication_ = std::make_unique<ServerProxy>(ServerProxy::Protocol::postgres, socket);
        // The replica may run as another user.
        for (const std::string& path : {replication_->directory(), replication_->socket()})
            std::filesystem::permissions(path, std::filesystem::perms::all);
        replica_ = std::make_unique<PostgresServer>(*primary_, replication_->directory());
    }
    for (std::size_t index = 0; index < size; ++index) {
        std::string url;
        if (replica_) {
            const std::string hosts =
                primary_->socket_directory() + "," + replica_->socket_directory();
            url = gateway_tests::database_url(hosts, name) + "?target_session_attrs=read-write";
        } else if (database == Database::direct) {
            url = database_;
        } else if (network_) {
            url = gateway_tests::database_url(ServerNetwork::server_at(index), name);
        } else {
            links_.at(index) =
                std::make_unique<ServerProxy>(ServerProxy::Protocol::postgres, socket);
            url = gateway_tests::database_url(links_.at(index)->directory(), name);
        }
        const std::string notify = pooler_ ? ", notify_database: \"" + database_ + "\"" : "";
        std::string place = "database: \"" + url + "\"";
        if (!parts_.empty()) place = databases_at(links_.at(index)->directory());
        homes_.at(index).configure("{" + channel() + ", max_waiting: 100" + notify + "}\n" + place);
    }
    if (!parts_.empty()) {
        const auto divided = gateway_tests::run_command(homes_.front(), {"db", "divide"});
        if (divided.status != 0) throw std::runtime_error(divided.output);
    }
    // Its time is not that of the gateways.
    if (database != Database::direct) {
        balancer_ = std::make_unique<Balancer>(server(), size);
        ports_.at(size) = balancer_->port();
    }
    start_all();
    for (const std::string& database : databases()) record_takes(database);
}

std::string Cluster::channel() const {
    const std::string listen = "listen: \"127.0.0.1:0\"}";
    if (!bot_) return "http: {" + listen;
    std::string groups;
    for (std::size_t chat = 0; chat < chats_; ++chat)
        groups += (chat == 0 ? "" : ", ") + std::to_string(group_of("s" + std::to_string(chat)));
    return "telegram: {token: \"" + bot_->token() + "\", api_url: \"" + bot_->url() +
           "\", chats: [" + groups + "], webhook: {url: \"https://example.org/telegram\", " +
           listen + "}";
}

void Cluster::lose_answers_of_service() {
    using bub::telegram::Fault;
    bot_->with_api([](bub::telegram::FakeBotApi& api) {
        api.on_call = [](const std::string& method, std::size_t call) {
            return method == "sendMessage" && call % 8 == 3 ? Fault::cut_after : Fault::none;
        };
    });
}

void Cluster::divide() {
    for (const char* sessions : {"0000-5554", "5555-aaa9", "aaaa-ffff"}) {
        app::DatabasePart& part = parts_.emplace_back();
        part.name = std::string(1, static_cast<char>('a' + parts_.size() - 1));
        part.url =
            parts_.size() == 1 ? database_ : gateway_tests::new_database(homes_.front(), server());
        part.sessions = sessions;
    }
}

std::string Cluster::databases_at(const std::string& directory) const {
    std::string text = "databases:\n";
    for (const app::DatabasePart& part : parts_)
        text += "  - {name: " + part.name + ", url: \"" +
                gateway_tests::database_url(directory, name_of(part.url)) + "\", sessions: \"" +
                part.sessions + "\"}\n";
    return text;
}

std::vector<std::string> Cluster::databases() const {
    if (parts_.empty()) return {database_};
    std::vector<std::string> all;
    for (const app::DatabasePart& part : parts_) all.push_back(part.url);
    return all;
}

Cluster::~Cluster() {
    model_.release();
    for (std::size_t index = 0; index < count_; ++index) print_held(index);
}

void Cluster::print_held(std::size_t index) const {
    if (!gateways_.at(index)) return;
    std::istringstream output(gateways_.at(index)->output());
    for (std::string line; std::getline(output, line);)
        if (line.find("turn.held") != std::string::npos ||
            line.find("recovery.messages_held") != std::string::npos ||
            line.find("\"level\":\"error\"") != std::string::npos)
            std::cout << line << "\n";
}

void Cluster::start(std::size_t index) {
    print_held(index);
    gateways_.at(index) = std::make_unique<GatewayProcess>(
        homes_.at(index), model_.flags(),
        std::vector<std::string>{
            "CUBEPI_TEST_EFFECTS=" + effects_.string(),
            "CUBEPI_TEST_CLOCK_AHEAD=" + std::to_string(index * 3600),
            std::string("TELEGRAM_WEBHOOK_SECRET=") + gateway_tests::webhook_secret});
    const std::uint16_t port = gateways_.at(index)->wait_until_running();
    ports_.at(index) = port;
    if (balancer_) balancer_->serve(index, port);
}

void Cluster::start_all() {
    for (std::size_t index = 0; index < count_; ++index)
        if (ports_.at(index) == 0) start(index);
}

std::vector<Posted> Cluster::messages(std::size_t count, std::size_t sessions) const {
    std::vector<Posted> all;
    for (std::size_t at = 0; at < count; ++at) {
        Posted& message = all.emplace_back();
        // An update has a number.
        message.key = std::to_string(at + 1);
        message.session = "s" + std::to_string(at % sessions);
        message.is_update = bot_ != nullptr;
        if (!bot_ && !std::getenv("CUBEPI_CLUSTER_OTHER")) message.user = "olga";
        message.has_effect = at % 3 == 0;
        message.text = message.key;
        if (message.has_effect) message.text = "effect " + message.key;
    }
    return all;
}

std::size_t Cluster::any_gateway(std::mt19937& random) const {
    for (;;) {
        const std::size_t index = random() % (size + 1);
        // Clients do not use one that is known to be down.
        if (ports_.at(index) != 0) return index;
    }
}

Task<> post_until_final(SendCopies send, Posted message, std::chrono::milliseconds interval,
                        std::vector<std::string>& wrong, std::atomic<std::size_t>& refused) {
    for (bool is_done = false; !is_done;) {
        Task<std::vector<HttpReply>> sending = send();
        const std::vector<HttpReply> replies = co_await std::move(sending);
        for (const HttpReply& reply : replies) {
            if (reply.status == 503) ++refused;
            // 0: it was lost, 502: behind the balancer. 202, 429 and 503 ask for a repetition.
            constexpr std::array repeated{0, 202, 429, 502, 503};
            if (std::find(repeated.begin(), repeated.end(), reply.status) != repeated.end())
                continue;
            is_done = true;
            // An operator has to decide about the message.
            const bool is_held =
                reply.status == 409 ||
                reply.body.find("stored until an operator decides") != std::string::npos;
            // A bot sends the answer.
            const std::string expected = message.is_update ? "" : "re: " + message.text;
            if (is_held || (reply.status == 200 && reply.text() == expected)) continue;
            wrong.push_back("the client of " + message.key + " received " +
                            std::to_string(reply.status) + ": " + reply.body);
        }
        if (!is_done) co_await Runtime::standard()->clock->sleep_for(interval);
    }
}

/// A client, which posts messages one after the other.
class Cluster::Client {
public:
    Client(Cluster& cluster, std::uint32_t seed) : cluster_(cluster), random_(seed) {}

    Task<> work(const std::vector<Posted>& messages, std::size_t& next,
                std::vector<std::string>& wrong) {
        while (next < messages.size() && !is_time_over()) {
            const Posted& message = messages[next++];
            Task<> posting = post(message, wrong);
            co_await std::move(posting);
        }
    }

private:
    Task<> post(const Posted& message, std::vector<std::string>& wrong) {
        const std::string update = message.is_update ? cluster_.update_of(message) : std::string();
        const SendCopies send = [this, &message, &update] {
            const std::size_t copies = random_() % 4 == 0 ? 2 : 1;
            std::vector<Task<HttpReply>> requests;
            for (std::size_t copy = 0; copy < copies; ++copy)
                requests.push_back(attempt(cluster_.any_gateway(random_), message, update));
            return when_all(std::move(requests));
        };
        Task<> posting = post_until_final(send, message, interval, wrong, cluster_.refused_);
        co_await std::move(posting);
        for (bool waits = message.is_update; waits;
             waits = cluster_.waiting_updates().contains(message.key))
            co_await Runtime::standard()->clock->sleep_for(pause_of_bot);
    }

    Task<HttpReply> request(std::uint16_t port, const Posted& message,
                            const std::string& update) const {
        if (message.is_update) return gateway_tests::post_update(port, update);
        JsonObject body{
            {"session", message.session}, {"text", message.text}, {"user", message.user}};
        return gateway_tests::post_message(port, std::move(body), message.key);
    }

    Task<HttpReply> attempt(std::size_t gateway, const Posted& message, const std::string& update) {
        HttpReply none;
        if (cluster_.unreachable_.at(gateway)) {
            ++cluster_.lost_;
            co_await Runtime::standard()->clock->sleep_for(patience);
            co_return none;
        }
        Task<HttpReply> posting = request(cluster_.ports_.at(gateway), message, update);
        Task<HttpReply> limited =
            with_timeout(*Runtime::standard()->clock, patience, std::move(posting));
        Outcome<HttpReply> reply = co_await outcome_of(std::move(limited));
        if (reply.cancelled()) reply.rethrow();
        const bool is_lost = cluster_.unreachable_.at(gateway);
        if (is_lost) ++cluster_.lost_;
        if (!reply || is_lost) co_return none;
        co_return std::move(reply).value();
    }

    Cluster& cluster_;
    std::mt19937 random_;
};

std::vector<std::string> Cluster::run(const std::vector<Posted>& messages,
                                      const std::vector<PlannedFault>& faults) {
    std::vector<std::string> wrong;
    std::size_t next = 0;
    std::vector<Client> all;
    for (std::size_t at = 0; at < clients_; ++at) all.emplace_back(*this, random_());
    std::thread posting([&] {
        std::vector<Task<>> tasks;
        for (Client& client : all) tasks.push_back(client.work(messages, next, wrong));
        cubepi::run(when_all(std::move(tasks)));
        clients_time_ += own_time(RUSAGE_THREAD);
        model_.end();
    });
    // On this thread: the server of the database ends with the thread that has started it.
    std::string failure;
    try {
        for (const PlannedFault& fault : faults) apply(fault);
    } catch (const std::exception& error) {
        failure = error.what();
    }
    start_all();
    posting.join();
    if (!failure.empty()) wrong.push_back("a fault could not be applied: " + failure);
    posted_ += next;
    measure_outages();
    return wrong;
}

std::string Cluster::update_of(const Posted& message) {
    const std::int64_t number = std::stoll(message.key);
    const std::string mention = "@cubepi_bot";
    JsonObject sent = bot_->with_api([&](bub::telegram::FakeBotApi& api) {
        // Each one is of another user: messages of one user that follow each other are one prompt.
        return api.message_of(number, group_of(message.session), mention + "\n" + message.text);
    });
    JsonObject entity{{"type", "mention"}, {"offset", 0}, {"length", mention.size()}};
    sent["entities"] = JsonArray{std::move(entity)};
    return boost::json::serialize(JsonObject{{"update_id", number}, {"message", std::move(sent)}});
}

const std::set<std::string>& Cluster::waiting_updates() {
    const auto begin = std::chrono::steady_clock::now();
    if (begin - waiting_updates_read_ < pause_of_bot) return waiting_updates_;
    const std::vector<std::string> keys = Reader(database_).read(
        std::string("SELECT address::json ->> 'inbound_id' FROM bub_delivery_inbound AS i WHERE"
                    " finished_at IS NULL AND NOT ") +
        is_held_sql);
    waiting_updates_ = {keys.begin(), keys.end()};
    waiting_updates_read_ = begin;
    return waiting_updates_;
}

ClusterRecords Cluster::records() const {
    ClusterRecords records = read_records(databases(), effects_);
    records.released = released_;
    if (!bot_) return records;
    records.chats.emplace();
    for (std::size_t chat = 0; chat < chats_; ++chat) {
        const std::string session = "s" + std::to_string(chat);
        (*records.chats)[session] = bot_->with_api(
            [&](bub::telegram::FakeBotApi& api) { return api.texts(group_of(session)); });
    }
    return records;
}

std::string Cluster::messages_of(std::size_t index) const {
    std::string ids = "0";
    const std::vector<std::string> rows = Reader(database_).read(
        "SELECT i.id FROM bub_delivery_inbound AS i JOIN bub_delivery_gateways AS g ON i.owner ="
        " g.number WHERE i.finished_at IS NULL AND g.pid = " +
        std::to_string(gateways_.at(index)->pid()));
    for (const std::string& id : rows) ids += "," + id;
    return "id IN (" + ids + ")";
}

void Cluster::measure_outages() {
    Reader reader(database_);
    for (const Outage& outage : outages_) {
        const std::string begin = std::to_string(outage.begin);
        const std::vector<std::string> delays =
            reader.read("SELECT extract(epoch FROM min(finished_at)) - " + begin +
                        " FROM bub_delivery_inbound WHERE finished_at > to_timestamp(" + begin +
                        ") AND " + outage.condition);
        for (const std::string& delay : delays)
            if (delay != "NULL") delays_[outage.description].push_back(std::stod(delay));
    }
    outages_.clear();
}

void Cluster::apply(const PlannedFault& fault) {
    if (fault.is_in_turns) model_.hold_after(fault.after);
    if (!model_.wait_for(fault.after)) return;
    ++happened_;
    const std::size_t index = random_() % size;
    const bool starts_now = random_() % 2 == 0;
    switch (fault.fault) {
        case Fault::kill:
            start_all();
            outages_.push_back(
                {"from the kill of a gateway to the end of a turn of each of its"
                 " sessions, its host " +
                     std::string(starts_now ? "starts" : "does not start") + " another one",
                 0, messages_of(index) + " GROUP BY session"});
            ports_.at(index) = 0;
            outages_.back().begin = now();
            gateways_.at(index)->kill();
            if (starts_now) start(index);
            break;
        case Fault::freeze:
            start_all();
            freeze(index, [this] { model_.release(); });
            break;
        case Fault::freeze_and_kill: {
            std::size_t first = in_turns(1);
            // A turn that ends in this moment is not begun again.
            for (;; first = in_turns(1)) {
                gateways_.at(first)->send(SIGSTOP);
                if (is_in_turns(first, 1)) break;
                gateways_.at(first)->send(SIGCONT);
            }
            freeze(first, [this, first] { kill_successor(first); });
            break;
        }
        case Fault::freeze_in_call:
            while (!std::filesystem::exists(effects_)) pause();
            freeze(busy(), [this] { std::ofstream(effects_.string() + ".go"); });
            break;
        case Fault::crash:
            server().stop(SIGKILL);
            server().start();
            break;
        case Fault::power_loss: lose_power(); break;
        case Fault::partition:
            start_all();
            separate_from_database(index);
            break;
        case Fault::half_open:
            start_all();
            links_.at(index)->freeze();
            break;
        case Fault::unreachable:
            model_.release();
            separate_from_clients(index);
            break;
        case Fault::restart:
            model_.release();
            restart_all();
            break;
        case Fault::full_disk:
            model_.release();
            fill_disk();
            break;
        case Fault::pooler:
            pooler_->stop(SIGKILL);
            pooler_->start();
            break;
        case Fault::long_call: outlast_lease(); break;
        case Fault::replica_away: separate_replica(); break;
        case Fault::failover: fail_over(); break;
        case Fault::no_answer: model_.lose(many_clients); break;
        case Fault::away:
            model_.release();
            take_database_away();
            break;
    }
    model_.release();
}

std::size_t Cluster::busy() const {
    RawPostgres server(database_);
    const std::vector<std::string> pids = server.query(
        "SELECT g.pid FROM bub_delivery_gateways AS g JOIN bub_delivery_sessions AS s"
        " ON s.owner = g.number");
    for (std::size_t index = 0; index < size; ++index)
        if (std::to_string(gateways_.at(index)->pid()) == pids.at(0)) return index;
    throw std::logic_error("no gateway has a session");
}

void Cluster::freeze(std::size_t index, const std::function<void()>& meanwhile) {
    GatewayProcess& frozen = *gateways_.at(index);
    frozen.send(SIGSTOP);
    meanwhile();
    wait_until_taken(index);
    frozen.send(SIGCONT);
}

bool Cluster::is_in_turns(std::size_t index, std::size_t begun) const {
    const std::vector<std::string> found = Reader(database_).read(
        "SELECT EXISTS (SELECT 1 FROM bub_delivery_inbound AS i JOIN bub_delivery_gateways AS g ON"
        " g.number = i.owner WHERE g.pid = " +
        std::to_string(gateways_.at(index)->pid()) +
        " AND i.finished_at IS NULL AND (SELECT count(*) FROM unnest(i.begun_by) AS b WHERE b > 0)"
        " = " +
        std::to_string(begun) +
        " AND NOT EXISTS (SELECT 1 FROM bub_delivery_outbound AS o WHERE i.id ="
        " ANY(o.answers)))");
    return found.at(0) == "t";
}

std::size_t Cluster::in_turns(std::size_t begun) const {
    for (;; pause()) {
        for (std::size_t index = 0; index < size; ++index)
            if (is_in_turns(index, begun)) return index;
    }
}

void Cluster::kill_successor(std::size_t index) {
    wait_until_taken(index);
    const std::size_t other = in_turns(2);
    ports_.at(other) = 0;
    gateways_.at(other)->kill();
    model_.release();
    wait_until_taken(other);
    // Those whose two gateways have ended, as it seems, are held until the frozen one continues.
    Reader(database_).wait_for_none(
        "SELECT count(*) FROM bub_delivery_inbound WHERE finished_at IS NULL AND"
        " (SELECT count(*) FROM unnest(begun_by) AS b WHERE b > 0) < 2");
}

void Cluster::wait_until_taken(std::size_t index) {
    const std::string pid = std::to_string(gateways_.at(index)->pid());
    const std::string count =
        "SELECT (SELECT count(*) FROM bub_delivery_gateways WHERE pid = " + pid +
        " AND lease_until > clock_timestamp()) + (SELECT count(*) FROM bub_delivery_sessions AS s"
        " JOIN bub_delivery_gateways AS g ON s.owner = g.number WHERE g.pid = " +
        pid + ")";
    const auto begin = std::chrono::steady_clock::now();
    for (const std::string& database : databases()) Reader(database).wait_for_none(count);
    delays_["from a frozen or separated gateway to the claim of its sessions"].push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

void Cluster::add_idle_sessions(std::size_t count) const {
    const std::string all = " FROM generate_series(1, " + std::to_string(count) + ") AS i";
    const std::string record = " 'test', 'http', 'idle-' || i, 0, 1,";
    for (const std::string& database : databases()) {
        RawPostgres server(database);
        server.query("INSERT INTO bub_delivery_sessions (key) SELECT 'idle-' || i" + all);
        server.query("INSERT INTO bub_tapes (tape, last_id, messages) SELECT 'idle__' || i, 0, 2" +
                     all);
        for (const char* id : {"1", "2"})
            server.query(
                std::string("INSERT INTO bub_entries (tape, id, kind, line) SELECT 'idle__' ||"
                            " i, ") +
                id + ", 'message', repeat('x', 300)" + all);
        server.query(
            "INSERT INTO bub_delivery_inbound (id, account, channel, session, owner, fence, state,"
            " message_key, address, finished_at) SELECT -i," +
            record + " 'done', 'idle-' || i, '{}', now()" + all);
        server.query(
            "INSERT INTO bub_delivery_outbound (id, account, channel, session, owner, fence, state,"
            " answers, settled_at) SELECT -i," +
            record + " 'sent', ARRAY[-i], now()" + all);
        // For most_read_table(): the check of the key of each tape has read its row.
        server.query("SELECT pg_stat_force_next_flush()");
        server.query("SELECT pg_stat_reset()");
    }
}

std::vector<std::string> Cluster::most_read_table() const {
    for (std::size_t index = 0; index < count_; ++index) gateways_.at(index)->send(SIGTERM);
    for (std::size_t index = 0; index < count_; ++index) gateways_.at(index)->wait();
    std::vector<std::string> most;
    for (const std::string& database : databases()) {
        RawPostgres server(database);
        // The server adds up what a connection has read when it ends; a pooler retains its own.
        while (server
                   .query("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE"
                          " datname = current_database() AND backend_type = 'client backend' AND"
                          " pid <> pg_backend_pid()")
                   .front() != "0")
            pause();
        std::vector<std::string> table = server.query(
            "SELECT t.relname, t.seq_tup_read + (SELECT sum(idx_tup_read) FROM"
            " pg_stat_user_indexes AS i WHERE i.relid = t.relid) AS rows FROM pg_stat_user_tables"
            " AS t WHERE t.relname LIKE 'bub%' ORDER BY rows DESC NULLS LAST LIMIT 1");
        if (most.empty() || std::stoul(table.at(1)) > std::stoul(most.at(1)))
            most = std::move(table);
    }
    return most;
}

ClusterTime Cluster::time() const {
    ClusterTime time;
    for (std::size_t index = 0; index < count_; ++index)
        time.gateways += time_of(gateways_.at(index)->pid());
    if (!database_.empty()) time.server = time_of(server().pid());
    time.clients = clients_time_;
    time.model = own_time(RUSAGE_SELF) - clients_time_;
    return time;
}

std::string Cluster::sizes() const {
    std::string text;
    for (std::size_t index = 0; index < count_; ++index) {
        std::ifstream status("/proc/" + std::to_string(gateways_.at(index)->pid()) + "/status");
        for (std::string line; std::getline(status, line);)
            if (line.starts_with("VmRSS")) text += "gateway: " + line + "\n";
    }
    if (database_.empty()) return text;
    const std::vector<std::string> tables = RawPostgres(database_).query(
        "SELECT relname || ': ' || n_live_tup || ' rows, table ' ||"
        " pg_size_pretty(pg_table_size(relid)) || ', indexes ' ||"
        " pg_size_pretty(pg_indexes_size(relid)) FROM pg_stat_user_tables WHERE relname"
        " LIKE 'bub%' ORDER BY pg_total_relation_size(relid) DESC LIMIT 6");
    for (const std::string& table : tables) text += table + "\n";
    return text;
}

void Cluster::restart_all() {
    start_all();
    extend_tables();
    for (std::size_t index = 0; index < size; ++index) {
        gateways_.at(index)->send(SIGTERM);
        ports_.at(index) = 0;
        EXPECT_EQ(gateways_.at(index)->wait(), 0) << gateways_.at(index)->output();
        start(index);
    }
}

void Cluster::extend_tables() const {
    for (const std::string& database : databases()) {
        RawPostgres server(database);
        server.query("SET client_min_messages = warning");
        for (const auto& [versions, table] :
             {std::pair("bub_schema", "bub_entries"),
              std::pair("bub_delivery_schema", "bub_delivery_inbound")}) {
            server.query(std::string("ALTER TABLE ") + table +
                         " ADD COLUMN IF NOT EXISTS of_next_version TEXT");
            server.query(std::string("INSERT INTO ") + versions + " SELECT max(version) + 1 FROM " +
                         versions);
        }
    }
}

void Cluster::separate_from_database(std::size_t index) {
    const bool is_connected_again = random_() % 2 == 0;
    if (network_) {
        network_->separate(index);
    } else {
        links_.at(index)->hold();
    }
    model_.release();
    wait_until_taken(index);
    if (!network_) return links_.at(index)->release(!is_connected_again);
    if (!is_connected_again) {
        // The gateway is not notified of the ends of its connections.
        RawPostgres(database_).query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_addr = '" +
            ServerNetwork::gateway_at(index) + "'");
    }
    network_->join(index);
}

void Cluster::separate_from_clients(std::size_t index) {
    start_all();
    const std::size_t enough = lost_ + many_clients;
    unreachable_.at(index) = true;
    while (lost_ < enough && !model_.is_over()) pause();
    unreachable_.at(index) = false;
}

void Cluster::wait_for_refusals(const std::function<std::size_t()>& refused) {
    constexpr std::size_t enough = 100;
    std::size_t count = 0;
    const auto now = [] { return std::chrono::steady_clock::now(); };
    auto end = now() + std::chrono::minutes(1);
    // Fewer if little remains to be written, or if clients wait.
    while (!model_.is_over() && now() < end && count < enough) {
        count += refused();
        if (count > 0) end = std::min(end, now() + std::chrono::seconds(10));
    }
    EXPECT_TRUE(count > 0 || model_.is_over()) << "the disk was not full";
}

void Cluster::fill_disk() {
    if (!disk_) return refuse_rows();
    constexpr std::size_t many = 1'000;
    bool needs_log = random_() % 2 == 0;
    disk_->fill();
    wait_for_refusals([this, &needs_log] {
        // It ends if it cannot extend its write-ahead log, or cannot write it when it recovers.
        if (has_ended(server().pid())) return many;
        try {
            // The next record of the write-ahead log is in another file.
            if (std::exchange(needs_log, false))
                RawPostgres(database_).query("SELECT pg_switch_wal()");
            const std::string log = server().log_of(
                [] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
            return count_of(log, "No space left on device");
        } catch (const std::runtime_error&) {
            pause();
            return std::size_t{1};
        }
    });
    disk_->free();
    start_server_again();
}

void Cluster::start_server_again() {
    for (;;) {
        if (has_ended(server().pid())) {
            std::cout << "the server has ended for lack of space, and is started again\n";
            server().stop(SIGKILL);
            server().start();
        }
        try {
            RawPostgres(database_).query("SELECT 1");
            return;
        } catch (const std::runtime_error&) {
            pause();  // It recovers.
        }
    }
}

void Cluster::refuse_rows() {
    RawPostgres server(database_);
    server.query("SET client_min_messages = warning");
    server.query("CREATE SEQUENCE IF NOT EXISTS refused");
    server.query(
        "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM nextval('refused'); RAISE EXCEPTION 'could not extend file: No space left on"
        " device' USING ERRCODE = 'disk_full'; END $$");
    // Where a turn and its message are stored; short rows may fit into pages that exist.
    const std::vector<std::string> tables{"bub_entries", "bub_turn_lines", "bub_delivery_inbound",
                                          "bub_delivery_outbound"};
    for (const std::string& table : tables)
        server.query("CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON " + table +
                     " FOR EACH ROW EXECUTE FUNCTION refuse()");
    std::size_t before = std::stoul(server.query("SELECT nextval('refused')").front());
    wait_for_refusals([&] {
        pause();
        const std::size_t now = std::stoul(server.query("SELECT last_value FROM refused").front());
        return now - std::exchange(before, now);
    });
    for (const std::string& table : tables) server.query("DROP TRIGGER refuse ON " + table);
}

void Cluster::take_database_away() {
    // Not the first one, which has the gateways.
    const std::string name = name_of(parts_.back().url);
    const std::string others = " FROM pg_stat_activity WHERE datname = '" + name + "'";
    RawPostgres server(database_);
    server.query("ALTER DATABASE " + name + " ALLOW_CONNECTIONS false");
    while (server.query("SELECT count(*)" + others).front() != "0") {
        server.query("SELECT pg_terminate_backend(pid)" + others);
        pause();
    }
    const std::size_t enough = refused_ + 2 * many_clients;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    // Fewer if few of its messages are left.
    while (refused_ < enough && !model_.is_over() && std::chrono::steady_clock::now() < deadline)
        pause();
    server.query("ALTER DATABASE " + name + " ALLOW_CONNECTIONS true");
}

void Cluster::outlast_lease() const {
    Reader reader(database_);
    const auto begun = [this] {
        std::ifstream file(effects_);
        for (std::string line; std::getline(file, line);)
            if (line == "held") return true;
        return false;
    };
    while (!begun()) pause();
    const std::string claim = "SELECT owner, fence FROM bub_delivery_sessions WHERE owner > 0";
    const std::vector<std::string> before = reader.read(claim);
    // The default lease is 10 s.
    const std::string end = reader.read("SELECT clock_timestamp() + interval '12 seconds'").front();
    reader.wait_for_none("SELECT (clock_timestamp() < '" + end + "')::integer");
    EXPECT_EQ(reader.read(claim), before) << "the claim of a live gateway was lost";
    std::ofstream(effects_.string() + ".go");
}

void Cluster::separate_replica() {
    replication_->hold();
    model_.release();
    Reader reader(database_);
    reader.wait_for_none(
        "SELECT count(*) FROM bub_delivery_gateways WHERE lease_until > clock_timestamp()");
    replication_->release(random_() % 2 == 0);
    reader.wait_for_none("SELECT 1 - count(*) FROM pg_stat_replication WHERE sync_state = 'sync'");
}

void Cluster::lose_power() {
    // A process that may not make a network.
    if (!network_) {
        server().stop(SIGKILL);
        return server().start();
    }
    network_->lose_power(server());
    outages_.push_back(
        {"from the start of a host that had lost its power to the first finished turn", now(),
         "true"});
}

void Cluster::fail_over() {
    const double begin = now();
    primary_->stop(SIGQUIT);
    // Turns that ended before are older.
    outages_.push_back({"from the end of the primary to the first finished turn", begin,
                        "finished_at > to_timestamp(" + std::to_string(now()) + ")"});
    replica_->promote();
    const std::string name = name_of(database_);
    database_ = gateway_tests::database_url(replica_->socket_directory(), name);
}

std::size_t Cluster::waiting() const {
    std::size_t sum = 0;
    for (const std::string& database : databases()) {
        sum += std::stoul(Reader(database)
                              .read("SELECT (SELECT count(*) FROM bub_delivery_inbound WHERE"
                                    " finished_at IS NULL) + (SELECT count(*) FROM"
                                    " bub_delivery_outbound WHERE settled_at IS NULL)")
                              .front());
    }
    return sum;
}

void Cluster::decide_held(const GatewayHome& home) {
    const JsonObject held = app::call_gateway(home.socket(), JsonObject{{"command", "held"}});
    for (const char* kind : {"messages", "answers"}) {
        const bool is_answer = std::string_view(kind) == "answers";
        for (const Json& one : held.at(kind).as_array()) {
            if (!is_answer) released_.insert(held_id(std::string(one.at("id").as_string())));
            (void)app::call_gateway(
                home.socket(),
                JsonObject{{"command", is_answer ? "discard" : "release"}, {"id", one.at("id")}});
        }
    }
}

void Cluster::wait_until_answered() {
    std::string problem;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (waiting() > 0) {
        // Everything that still waits then is a finding.
        if (std::chrono::steady_clock::now() > deadline) return;
        for (const GatewayHome& home : homes_) {
            try {
                decide_held(home);
            } catch (const Error& error) {
                // It is asked again: it cannot read its database at the moment, or another one has decided meanwhile.
                if (problem != error.what()) std::cout << error.what() << "\n";
                problem = error.what();
            }
        }
        pause();
    }
}

}  // namespace cubepi::cluster_tests
