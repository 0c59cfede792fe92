#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include <cubepi/core/json.hpp>

#include "gateway/control_server.hpp"
#include "gateway_process.hpp"

namespace cubepi::gateway_tests {

/// Waits until the condition holds, which mostly asks another process; the test's own limit ends a wait for nothing. Without the pause
/// both processes occupy the processors that other tests need.
inline void wait_until(const std::function<bool()>& condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

/// Waits until no session of the gateway has a running turn or waiting messages; another gateway may process one then.
inline void wait_until_idle(const GatewayHome& home) {
    const JsonObject request{{"command", "sessions"}};
    wait_until([&] {
        return app::call_gateway(home.socket(), request).at("sessions").as_array().empty();
    });
}

}  // namespace cubepi::gateway_tests
