#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../config/gateway_settings.hpp"
#include "../config/provider_kinds.hpp"

namespace cubepi::app {

/// A line of `cubepi doctor` about the gateway.
struct GatewayFinding {
    enum class Kind : std::uint8_t { good, plain, problem };
    Kind kind = Kind::plain;
    std::string text = {};
    std::string advice = {};  ///< of a problem: the remedy
};

/// Collects lines.
class Findings {
public:
    void good(std::string text) { add(GatewayFinding::Kind::good, std::move(text), {}); }
    void plain(std::string text) { add(GatewayFinding::Kind::plain, std::move(text), {}); }
    void problem(std::string text, std::string advice) {
        add(GatewayFinding::Kind::problem, std::move(text), std::move(advice));
    }
    std::vector<GatewayFinding> take() { return std::move(all_); }

private:
    void add(GatewayFinding::Kind kind, std::string text, std::string advice) {
        all_.push_back(GatewayFinding{kind, std::move(text), std::move(advice)});
    }
    std::vector<GatewayFinding> all_;
};

/// Returns the problem of a token of the variable, which clients of a network could guess; empty if there is none.
std::string token_problem(const std::string& variable, const std::string& token);

/// Describes who may do what through the gateway (B15, B25, B26), and warns of what is open. `environment`: the variables that may
/// have tokens.
std::vector<GatewayFinding> gateway_findings(const GatewaySettings& settings,
                                             const Environment& environment);

/// Returns the names of the variables that have tokens and other secrets of a channel.
std::vector<std::string> secret_variables(const ChannelSettings& channel);
/// Those of all channels, and of operators.
std::vector<std::string> secret_variables(const GatewaySettings& settings);

/// Returns those variables with tokens of the channels that are set in this process or in the environment file of the service.
Environment gateway_environment(const GatewaySettings& settings);

}  // namespace cubepi::app
