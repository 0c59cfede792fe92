#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/support/json_member.hpp>

#include "echo_model.hpp"
#include "gateway/gateway_api.hpp"
#include "gateway_process.hpp"

namespace cubepi::gateway_tests {

/// A gateway with the channel http, and with operators.
class OperatedGatewayTest : public ::testing::Test {
protected:
    /// `more` begins with a comma: further members of `gateway`.
    void configure(const std::string& more) const {
        home.configure(R"({http: {listen: "127.0.0.1:0", operators: [olga]}, drain_timeout: 60)" +
                       more + "}");
    }
    void start(std::vector<std::string> flags, std::vector<std::string> environment = {}) {
        gateway = std::make_unique<GatewayProcess>(home, std::move(flags), std::move(environment));
        wait_until_running();
    }
    /// Reads the ports of the parts, by their names.
    void wait_until_running() {
        (void)gateway->wait_for("gateway.running");
        ports.clear();
        std::istringstream lines(gateway->output());
        for (std::string line; std::getline(lines, line);) {
            boost::system::error_code failed;
            const Json record = boost::json::parse(line, failed);
            if (failed || !record.is_object()) continue;
            const JsonObject& object = record.get_object();
            if (detail::string_member(object, "event") != "http_server.listening") continue;
            ports[detail::text_member(object, "name")] =
                static_cast<std::uint16_t>(object.at("port").as_int64());
        }
    }
    /// The path of an operation without its first '/', with this value of each placeholder.
    static std::string path_of(const app::GatewayOperation& operation,
                               const std::string& value = "x") {
        std::string path(operation.path.substr(1));
        for (std::size_t at = 0; (at = path.find('{')) != std::string::npos;)
            path.replace(at, path.find('}') - at + 1, value);
        return path;
    }

    const GatewayHome home;
    EchoModel model;
    std::unique_ptr<GatewayProcess> gateway;
    std::map<std::string, std::uint16_t> ports;
};

}  // namespace cubepi::gateway_tests
