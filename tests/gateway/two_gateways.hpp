#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/postgres_server_test.hpp>

#include "echo_model.hpp"
#include "gateway/control_server.hpp"
#include "gateway_process.hpp"

namespace cubepi::gateway_tests {

/// Two gateways that share their messages.
class TwoGateways : public ::testing::Test {
protected:
    TwoGateways() : database(new_database(one)) {
        configure(one, "");
        configure(two, "");
    }
    void configure(const GatewayHome& home, const std::string& more) const {
        home.configure("{http: {listen: \"127.0.0.1:0\", operators: [olga]}" + more +
                       "}\ndatabase: \"" + database + "\"");
    }
    void start_first(std::vector<std::string> environment = {}) {
        first = std::make_unique<GatewayProcess>(one, model.flags(), std::move(environment));
        port = first->wait_until_running();
    }
    void start_second(std::vector<std::string> environment = {}) {
        second = std::make_unique<GatewayProcess>(two, model.flags(), std::move(environment));
        second_port = second->wait_until_running();
    }
    static JsonObject call(const GatewayHome& home, const std::string& command) {
        return app::call_gateway(home.socket(), JsonObject{{"command", command}});
    }
    /// Waits until the second gateway shows two of them, with their reports; returns its status.
    JsonObject wait_for_status() const {
        for (;;) {
            JsonObject status = call(two, "status");
            const JsonArray& all = status.at("gateways").as_array();
            std::size_t reported = 0;
            for (const Json& one : all) reported += one.at("state") == "running" ? 1 : 0;
            if (reported == 2) return status;
        }
    }
    /// The id of the first gateway.
    std::string id_of_first() const {
        const JsonObject status = wait_for_status();
        for (const Json& one : status.at("gateways").as_array())
            if (!one.at("here").as_bool()) return std::string(one.at("id").as_string());
        return {};
    }
    /// Executes a command at the second gateway.
    CommandResult operate(std::vector<std::string> arguments) const {
        arguments.insert(arguments.begin(), "gateway");
        return run_command(two, std::move(arguments));
    }

    const GatewayHome one;
    const GatewayHome two;
    const std::string database;
    EchoModel model;
    std::unique_ptr<GatewayProcess> first;
    std::unique_ptr<GatewayProcess> second;
    std::uint16_t port = 0;  ///< of the first one
    std::uint16_t second_port = 0;
};

}  // namespace cubepi::gateway_tests
