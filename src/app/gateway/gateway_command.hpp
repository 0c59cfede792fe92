#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "../config/endpoint.hpp"
#include "../config/gateway_settings.hpp"

namespace cubepi::app {

/// The time after `gateway.drain_timeout` for the gateway to cancel its turns, before the service manager kills it.
inline constexpr std::chrono::seconds time_after_drain{30};

/// The parts of the unit that depend on the installation.
struct UnitOptions {
    std::filesystem::path program = {};
    std::vector<std::string> channels = {};  ///< of --enable-channel
    /// A file with variables (`KEY=value` lines), such as keys and tokens; it may be missing.
    std::filesystem::path environment = {};
    std::chrono::seconds drain_timeout{30};
};

/// Returns the path of the file with the variables of the service.
std::filesystem::path gateway_environment_path();

/// Returns the text of the user unit that runs the gateway.
std::string gateway_unit(const UnitOptions& options);

/// Writes the unit and its environment file, and prints how to start it. Returns the exit status. Throws Error(io), and
/// Error(parse) for an invalid configuration file.
int install_unit(std::vector<std::string> channels);
/// Removes the unit. Returns the exit status. Throws Error(io).
int uninstall_unit();

/// A line of `cubepi doctor` about the gateway.
struct GatewayFinding {
    enum class Kind : std::uint8_t { good, plain, problem };
    Kind kind = Kind::plain;
    std::string text = {};
    std::string advice = {};  ///< of a problem: the remedy
};

/// Describes who may do what through the gateway (B15, B25, B26), and warns of what is open. `environment`: the variables that may
/// have tokens.
std::vector<GatewayFinding> gateway_findings(const GatewaySettings& settings,
                                             const Environment& environment);

/// Returns the names of the variables that have tokens and other secrets of channels and operators.
std::vector<std::string> secret_variables(const GatewaySettings& settings);

/// Returns those variables with tokens of the channels that are set in this process or in the environment file of the service.
Environment gateway_environment(const GatewaySettings& settings);

}  // namespace cubepi::app
