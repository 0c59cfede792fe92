#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/run.hpp>

#include "../joints/model_server.hpp"
#include "gateway_process.hpp"

namespace cubepi::gateway_tests {

/// A request to a model.
struct Asked {
    explicit Asked(const std::string& request)
        : body(request.substr(request.find("\r\n\r\n") + 4)) {
        const Json parsed = boost::json::parse(body);
        for (const Json& message : parsed.at("messages").as_array()) {
            role = std::string(message.at("role").as_string());
            if (role == "user") prompt = std::string(message.at("content").as_string());
        }
        text = prompt;
        text.erase(0, text.rfind('\n') + 1);
    }
    std::string body;
    std::string role;    ///< of the last message
    std::string prompt;  ///< the last message of the user
    std::string text;    ///< the last line of it
};

/// A model server that answers "re: TEXT"; for "run COMMAND" after the command, for "delegate TEXT" after a sub-agent, for "schedule ARGUMENTS" after the tool schedule. Prompts that are held get their answer at
/// release().
class EchoModel {
public:
    EchoModel()
        : server_([this](wire::Connection& connection) {
              for (;;) {
                  const std::string request = connection.read_request();
                  if (request.empty()) return;
                  // It has no list of models.
                  if (request.starts_with("GET ")) return;
                  const std::string answer = answer_to(Asked(request));
                  if (!connection.send(wire::ok(answer, "Content-Type: text/event-stream\r\n")))
                      return;
              }
          }) {}
    ~EchoModel() { release(); }

    std::vector<std::string> flags() const {
        return {"--provider", "openai", "--base-url", server_.url("/v1"), "-m", "local"};
    }
    void hold(const std::string& text) {
        const std::lock_guard lock(mutex_);
        held_.insert(text);
    }
    void release() {
        const std::lock_guard lock(mutex_);
        held_.clear();
        changed_.notify_all();
    }
    void release(const std::string& text) {
        const std::lock_guard lock(mutex_);
        held_.erase(text);
        changed_.notify_all();
    }
    /// Waits until the model was asked this that many times; returns the body of the last request.
    std::string wait_for(const std::string& text, std::size_t times = 1) {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, std::chrono::seconds(60),
                               [&] { return requests_[text].size() >= times; }))
            throw std::runtime_error("the model was not asked '" + text + "' " +
                                     std::to_string(times) + " times");
        return requests_[text].back();
    }
    std::size_t count(const std::string& text) {
        const std::lock_guard lock(mutex_);
        return requests_[text].size();
    }

private:
    std::string answer_to(const Asked& asked) {
        std::unique_lock lock(mutex_);
        requests_[asked.text].push_back(asked.body);
        changed_.notify_all();
        if (asked.text.starts_with("run ") && asked.role == "user") {
            const JsonObject arguments{{"command", asked.text.substr(4)}};
            return joint_tests::chat_answer("", {{"shell", boost::json::serialize(arguments)}});
        }
        if (asked.text.starts_with("schedule ") && asked.role == "user")
            return joint_tests::chat_answer("", {{"schedule", asked.text.substr(9)}});
        if (asked.text.starts_with("delegate ") && asked.role == "user") {
            const JsonObject arguments{{"prompt", asked.text.substr(9)}, {"session", "inherit"}};
            return joint_tests::chat_answer("", {{"subagent", boost::json::serialize(arguments)}});
        }
        changed_.wait(lock, [&] { return !held_.contains(asked.text); });
        return joint_tests::chat_answer("re: " + asked.text);
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::vector<std::string>> requests_;
    std::set<std::string> held_;
    wire::RawServer server_;  // last: its handlers use the others
};

inline std::future<HttpReply> post_later(std::uint16_t port, const std::string& text,
                                         const std::string& session = "s1") {
    return std::async(std::launch::async, [port, text, session] {
        JsonObject message{{"session", session}, {"text", text}, {"user", "olga"}};
        return run(post_message(port, std::move(message), "key-" + text));
    });
}

inline HttpReply post(std::uint16_t port, const std::string& text) {
    return post_later(port, text).get();
}

/// The URL of a database at the socket in this directory.
inline std::string database_url(const std::string& directory, const std::string& database) {
    std::string url = "postgres://cubepi@";
    for (const char c : directory) url += c == '/' ? std::string("%2F") : std::string(1, c);
    return url + "/" + database;
}

/// The URL of a new database with the tables of tapes.
inline std::string new_database(const GatewayHome& home,
                                PostgresServer& server = PostgresServer::shared()) {
    const auto url_of = [&server](const std::string& database) {
        return database_url(server.socket_directory(), database);
    };
    return url_of(server.create_copy("tapes", [&](const std::string& database) {
        const CommandResult made = run_command(home, {"db", "init", "--tapes", url_of(database)});
        EXPECT_EQ(made.status, 0) << made.output;
    }));
}

/// Kills a gateway. The others of its database replace it now, instead of at the end of its lease.
inline void kill_and_replace(GatewayProcess& gateway, const std::string& database) {
    const std::string pid = std::to_string(gateway.pid());
    gateway.kill();
    (void)RawPostgres(database).query(
        "UPDATE bub_delivery_gateways SET lease_until = now() WHERE pid = " + pid);
}

}  // namespace cubepi::gateway_tests
