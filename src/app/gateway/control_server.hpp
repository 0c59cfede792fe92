#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>

#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/schema/json_convert.hpp>

namespace cubepi::app {

/// A Unix socket on which other processes of this user send requests to the gateway: one JSON object per line, and one per
/// line as its answer, `{"error": TEXT}` if the request failed. The socket has the mode 0600. Used on one executor.
class ControlServer {
public:
    /// Returns the answer to a request; what it throws becomes the error.
    using Answer = std::function<Task<JsonObject>(JsonObject request)>;

    /// A client has `idle_timeout` for each request and to read its answer; then its connection is closed.
    ControlServer(Executor executor, std::filesystem::path path, Answer answer,
                  std::chrono::nanoseconds idle_timeout = std::chrono::seconds(10));
    ~ControlServer();
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;

    /// Throws Error(busy) if another process listens on the path, as listen() does.
    void require_free() const;
    /// Begins to accept connections. Replaces the socket of a process that has ended. Throws Error(busy) if another
    /// process listens on the path, Error(io) if the socket cannot be created.
    void listen();
    /// Closes the connections, cancels requests in progress, and removes the socket.
    Task<> stop();

private:
    struct State;
    std::shared_ptr<State> state_;
};

/// Returns true if a process listens on the path.
bool has_listener(const std::filesystem::path& socket);

/// When a client of the gateway stops to wait: an operation may take long, and its answer is waited for while the gateway replies to
/// other requests.
struct GatewayPatience {
    std::chrono::milliseconds quiet =
        std::chrono::seconds(5);  ///< without an answer, before the gateway is probed
    std::chrono::milliseconds probe = std::chrono::seconds(5);  ///< for any reply to a probe
};

/// Sends a request to the gateway and returns its answer; blocks until it arrives. Throws Error(invalid_state) if no gateway
/// listens on `socket`, if it ends before it answers, if it does not respond any more, because its process is stopped or blocked, and
/// with the text of an answer that is an error.
JsonObject call_gateway(const std::filesystem::path& socket, const JsonObject& request,
                        GatewayPatience patience = {});

/// Reads an answer of call_gateway(). The gateway may have another version: members that it does not have are empty.
template <class T>
T read_answer(const JsonObject& answer) {
    ReadOptions options;
    options.require_fields = false;
    return from_json<T>(answer, options);
}

}  // namespace cubepi::app
