#include "cluster.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>

#include "../gateway/echo_model.hpp"
#include "gateway/control_server.hpp"

namespace cubepi::cluster_tests {

using gateway_tests::Asked;

namespace {

/// The interval in which the test polls a condition.
constexpr std::chrono::milliseconds interval{20};
/// The number of messages that are on their way at once.
constexpr std::size_t clients = 32;
/// A client that gets no answer for so long repeats its request elsewhere: the gateway may be frozen.
constexpr std::chrono::seconds patience{5};

void pause() { std::this_thread::sleep_for(interval); }

}  // namespace

CountingModel::CountingModel()
    : server_([this](wire::Connection& connection) {
          for (;;) {
              const std::string request = connection.read_request();
              // It has no list of models.
              if (request.empty() || request.starts_with("GET ")) return;
              const std::string answer = answer_to(request);
              if (!connection.send(wire::ok(answer, "Content-Type: text/event-stream\r\n"))) return;
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

std::string CountingModel::answer_to(const std::string& request) {
    const Asked asked(request);
    std::unique_lock lock(mutex_);
    ++requests_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return hold_after_ == 0 || requests_ < hold_after_; });
    if (asked.text.starts_with("effect ") && asked.role == "user") {
        const JsonObject arguments{{"key", asked.text.substr(7)}};
        return joint_tests::chat_answer("", {{"effect", boost::json::serialize(arguments)}});
    }
    return joint_tests::chat_answer("re: " + asked.text);
}

Cluster::Cluster(std::uint32_t seed)
    : random_(seed),
      effects_(homes_.front().path() / "effects"),
      database_(gateway_tests::new_database(homes_.front())) {
    for (const GatewayHome& home : homes_)
        home.configure("{http: {listen: \"127.0.0.1:0\"}, max_waiting: 100}\ndatabase: \"" +
                       database_ + "\"");
    start_all();
}

Cluster::~Cluster() { model_.release(); }

void Cluster::start(std::size_t index) {
    gateways_.at(index) = std::make_unique<GatewayProcess>(
        homes_.at(index), model_.flags(),
        std::vector<std::string>{"CUBEPI_TEST_EFFECTS=" + effects_.string()});
    ports_.at(index) = gateways_.at(index)->wait_until_running();
}

void Cluster::start_all() {
    for (std::size_t index = 0; index < size; ++index)
        if (ports_.at(index) == 0) start(index);
}

std::vector<Posted> Cluster::messages(std::size_t count, std::size_t sessions) const {
    std::vector<Posted> all;
    for (std::size_t at = 0; at < count; ++at) {
        Posted& message = all.emplace_back();
        message.key = "m" + std::to_string(at);
        message.session = "s" + std::to_string(at % sessions);
        message.has_effect = at % 3 == 0;
        message.text = message.key;
        if (message.has_effect) message.text = "effect " + message.key;
    }
    return all;
}

std::uint16_t Cluster::any_port(std::mt19937& random) const {
    for (;;) {
        const std::uint16_t port = ports_.at(random() % size);
        // While one is down, the balancer knows it.
        if (port != 0) return port;
    }
}

/// A client, which posts messages one after the other.
class Cluster::Client {
public:
    Client(Cluster& cluster, std::uint32_t seed) : cluster_(cluster), random_(seed) {}

    Task<> work(const std::vector<Posted>& messages, std::size_t& next,
                std::vector<std::string>& wrong) {
        while (next < messages.size()) {
            const Posted& message = messages[next++];
            Task<> posting = post(message, wrong);
            co_await std::move(posting);
        }
    }

private:
    Task<> post(const Posted& message, std::vector<std::string>& wrong) {
        bool is_done = false;
        while (!is_done) {
            const std::size_t copies = random_() % 4 == 0 ? 2 : 1;
            std::vector<Task<HttpReply>> requests;
            for (std::size_t copy = 0; copy < copies; ++copy)
                requests.push_back(attempt(cluster_.any_port(random_), message));
            const std::vector<HttpReply> replies = co_await when_all(std::move(requests));
            for (const HttpReply& reply : replies) {
                // 409: it is finished, or an operator has to decide about it; its answer is in the history.
                is_done = is_done || reply.status == 200 || reply.status == 409;
                if (reply.status == 200 && reply.text() != "re: " + message.text)
                    wrong.push_back("the client of " + message.key + " received " + reply.body);
            }
            if (!is_done) co_await Runtime::standard()->clock->sleep_for(interval);
        }
    }

    static Task<HttpReply> attempt(std::uint16_t port, const Posted& message) {
        JsonObject body{{"session", message.session}, {"text", message.text}, {"user", "olga"}};
        Task<HttpReply> posting = gateway_tests::post_message(port, std::move(body), message.key);
        Task<HttpReply> limited =
            with_timeout(*Runtime::standard()->clock, patience, std::move(posting));
        Outcome<HttpReply> reply = co_await outcome_of(std::move(limited));
        if (reply.cancelled()) reply.rethrow();
        HttpReply none;
        if (reply) none = std::move(reply).value();
        co_return none;
    }

    Cluster& cluster_;
    std::mt19937 random_;
};

std::vector<std::string> Cluster::run(const std::vector<Posted>& messages,
                                      const std::vector<PlannedFault>& faults) {
    std::vector<std::string> wrong;
    std::size_t next = 0;
    std::vector<Client> all;
    for (std::size_t at = 0; at < clients; ++at) all.emplace_back(*this, random_());
    std::thread posting([&] {
        std::vector<Task<>> tasks;
        for (Client& client : all) tasks.push_back(client.work(messages, next, wrong));
        cubepi::run(when_all(std::move(tasks)));
        model_.end();
    });
    // On this thread: the server of the database ends with the thread that has started it.
    for (const PlannedFault& fault : faults) apply(fault);
    start_all();
    posting.join();
    return wrong;
}

void Cluster::apply(const PlannedFault& fault) {
    if (fault.is_in_turns) model_.hold_after(fault.after);
    if (!model_.wait_for(fault.after)) return;
    const std::size_t index = random_() % size;
    const bool starts_now = random_() % 2 == 0;
    switch (fault.fault) {
        case Fault::kill:
            start_all();
            ports_.at(index) = 0;
            gateways_.at(index)->kill();
            if (starts_now) start(index);
            break;
        case Fault::freeze:
            start_all();
            freeze(index, [this] { model_.release(); });
            break;
        case Fault::freeze_in_call:
            while (!std::filesystem::exists(effects_)) pause();
            freeze(busy(), [this] { std::ofstream(effects_.string() + ".go"); });
            break;
        case Fault::crash:
            PostgresServer::shared().stop(SIGKILL);
            PostgresServer::shared().start();
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
    RawPostgres server(database_);
    const std::string pid = std::to_string(frozen.pid());
    const std::string count =
        "SELECT (SELECT count(*) FROM bub_delivery_gateways WHERE pid = " + pid +
        " AND lease_until > clock_timestamp()) + (SELECT count(*) FROM bub_delivery_sessions AS s"
        " JOIN bub_delivery_gateways AS g ON s.owner = g.number WHERE g.pid = " +
        pid + ")";
    while (server.query(count).front() != "0") pause();
    frozen.send(SIGCONT);
}

std::size_t Cluster::waiting() const {
    RawPostgres server(database_);
    return std::stoul(server
                          .query("SELECT (SELECT count(*) FROM bub_delivery_inbound WHERE"
                                 " finished_at IS NULL) + (SELECT count(*) FROM"
                                 " bub_delivery_outbound WHERE settled_at IS NULL)")
                          .front());
}

void Cluster::settle() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (waiting() > 0) {
        // Everything that still waits then is a finding.
        if (std::chrono::steady_clock::now() > deadline) return;
        for (const GatewayHome& home : homes_) {
            const JsonObject held =
                app::call_gateway(home.socket(), JsonObject{{"command", "held"}});
            for (const char* kind : {"messages", "answers"}) {
                const char* const command =
                    std::string_view(kind) == "answers" ? "discard" : "release";
                for (const Json& one : held.at(kind).as_array())
                    (void)app::call_gateway(home.socket(),
                                            JsonObject{{"command", command}, {"id", one.at("id")}});
            }
        }
        pause();
    }
}

}  // namespace cubepi::cluster_tests
