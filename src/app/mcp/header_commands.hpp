#pragma once

#include <functional>
#include <memory>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/process/environment.hpp>

namespace cubepi::app {

struct McpServerSettings;

/// Returns the source of the headers that commands of the user print (McpHttpOptions::fresh_headers); empty if the server has none. A
/// value is used until it is older than McpServerSettings::header_max_age, or the server refuses it; requests that need a value at the
/// same time wait for one command. A command gets the variables of `environment`, no input, and half a minute.
std::function<Task<HttpHeaders>(bool is_refused)> header_commands(
    const McpServerSettings& server, const EnvironmentPolicy& environment,
    std::shared_ptr<const Runtime> runtime);

}  // namespace cubepi::app
