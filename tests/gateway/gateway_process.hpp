#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::gateway_tests {

/// The home directory of a gateway, removed at the end.
class GatewayHome {
public:
    GatewayHome();
    ~GatewayHome();
    GatewayHome(const GatewayHome&) = delete;
    GatewayHome& operator=(const GatewayHome&) = delete;

    const std::filesystem::path& path() const noexcept { return path_; }
    std::filesystem::path tapes() const { return path_ / ".bub" / "tapes"; }
    std::filesystem::path workspaces() const { return path_ / ".local/share/cubepi/gateway"; }
    std::filesystem::path socket() const { return path_ / ".bub" / "gateway.sock"; }
    /// Replaces the value of `gateway` in the configuration file: YAML, in one line.
    void configure(const std::string& gateway) const;
    /// Writes a script for the offline model; returns its path.
    std::string script(const std::string& json) const;
    /// Another build of the tests, whose `cubepi` the processes with this home execute: of another version.
    void use_program(std::string path) { program_ = std::move(path); }
    const std::string& program() const noexcept { return program_; }

private:
    std::filesystem::path path_;
    std::string program_ = "/proc/self/exe";
};

/// A process of `cubepi gateway`, or of another command, such as "mcp serve". Its model echoes ("re: TEXT"), unless the arguments have --script or --base-url. Killed with its
/// object.
class GatewayProcess {
public:
    explicit GatewayProcess(const GatewayHome& home, std::vector<std::string> arguments = {},
                            std::vector<std::string> environment = {},
                            const std::string& command = "gateway");
    ~GatewayProcess();
    GatewayProcess(const GatewayProcess&) = delete;
    GatewayProcess& operator=(const GatewayProcess&) = delete;

    /// Waits for the next record of this event in the log, after those that were waited for before. Returns an empty object, and
    /// fails the test, if the process ends before.
    JsonObject wait_for(const std::string& event);
    /// Waits until the gateway runs. Returns the port of the channel http.
    std::uint16_t wait_until_running();
    void send(int signal) const;
    /// Returns the exit status, or 128 and the number of the signal.
    int wait();
    void kill();
    pid_t pid() const noexcept { return pid_; }
    /// Returns all output so far.
    std::string output();

private:
    void read_output(int descriptor);

    pid_t pid_ = -1;
    int status_ = -1;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::string> lines_;
    std::size_t seen_ = 0;
    bool ended_ = false;
    std::thread reader_;
};

/// Another command of the program, with this home: "gateway status".
struct CommandResult {
    int status = -1;
    std::string output = {};
};
CommandResult run_command(const GatewayHome& home, std::vector<std::string> arguments);

/// An answer of the channel http. Status 0: the connection was lost.
struct HttpReply {
    int status = 0;
    std::string body = {};

    JsonObject json() const;
    /// Returns the text of an output.
    std::string text(std::size_t output = 0) const;
};

/// Sends a message through the channel http. An empty key or `traceparent`: none.
Task<HttpReply> post_message(std::uint16_t port, JsonObject message, std::string key = {},
                             std::string traceparent = {});
/// The value of TELEGRAM_WEBHOOK_SECRET for post_update().
inline constexpr const char* webhook_secret = "the-secret";
/// Posts an update to the webhook of a bot, with the path /telegram, as Telegram does.
Task<HttpReply> post_update(std::uint16_t port, std::string update);
/// Sends another request to the channel http, with its token.
Task<HttpReply> call_channel(std::uint16_t port, std::string method, std::string path,
                             std::string body = {});
/// Sends a request with another token; empty: none.
Task<HttpReply> call_with_token(std::uint16_t port, std::string method, std::string path,
                                std::string bearer, std::string body = {});
Task<HttpReply> http_get(std::uint16_t port, std::string path);

/// The system clock, a number of times as fast: limits of a rate and delays take less time in a test of a process. The date is that of
/// the system, `ahead` later.
class ScaledClock final : public Clock {
public:
    explicit ScaledClock(int factor, std::chrono::seconds ahead = {});

    time_point now() const noexcept override;
    std::chrono::system_clock::time_point wall() const noexcept override;
    Task<> sleep_until(time_point deadline) override;
    std::unique_ptr<ClockTimer> timer(Executor executor) override;

private:
    class Timer;
    std::chrono::nanoseconds real(std::chrono::nanoseconds delay) const { return delay / factor_; }

    const int factor_;
    const std::chrono::seconds ahead_;
    const time_point begin_;
    const std::shared_ptr<SystemClock> system_;
};

}  // namespace cubepi::gateway_tests
