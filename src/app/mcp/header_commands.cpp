#include "header_commands.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/process.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/process/local_process.hpp>

#include "mcp_settings.hpp"

namespace cubepi::app {

namespace {

constexpr std::chrono::seconds command_timeout(30);
/// Of a value, and of what a command writes to its standard error.
constexpr std::uint64_t max_output = std::uint64_t{64} << 10;

/// The headers of one server. Shared by its requests, which may outlive the transport.
class HeaderValues {
public:
    HeaderValues(const McpServerSettings& server, EnvironmentPolicy environment,
                 std::shared_ptr<const Runtime> runtime)
        : server_(server.name),
          max_age_(server.header_max_age),
          commands_(server.header_commands),
          environment_(std::move(environment)),
          runtime_(std::move(runtime)) {}

    static Task<HttpHeaders> current(std::shared_ptr<HeaderValues> self, bool is_refused);

private:
    static Task<HttpHeaders> run_all(std::shared_ptr<HeaderValues> self);
    Task<std::string> run(std::string header, std::string command) const;
    bool is_fresh() const {
        return made_ && runtime_->clock->now() < deadline_after(*made_, max_age_);
    }
    [[noreturn]] void fail(const std::string& header, const std::string& reason) const {
        throw Error(ErrorCode::auth, "The command for the header " + header +
                                         " of the MCP server " + server_ + " " + reason + ".");
    }

    const std::string server_;
    const std::chrono::seconds max_age_;
    const std::map<std::string, std::string> commands_;
    const EnvironmentPolicy environment_;
    const std::shared_ptr<const Runtime> runtime_;
    HttpHeaders values_;
    std::optional<Clock::time_point> made_;  ///< when `values_` were; absent: they must be made
    bool is_running_ = false;
    AsyncEvent ended_;
};

Task<HttpHeaders> HeaderValues::current(std::shared_ptr<HeaderValues> self, bool is_refused) {
    // While the commands run, the values of before may be those that the server has refused.
    if (is_refused && !self->is_running_) self->made_.reset();
    while (!self->is_fresh()) {
        if (self->is_running_) {
            co_await self->ended_.wait();
            continue;
        }
        struct Running {
            HeaderValues& values;
            explicit Running(HeaderValues& its_values) : values(its_values) {
                values.is_running_ = true;
            }
            ~Running() {
                values.is_running_ = false;
                values.ended_.pulse();
            }
        };
        const Running running(*self);
        self->made_.reset();
        const Clock::time_point begin = self->runtime_->clock->now();
        self->values_ = co_await run_all(self);
        self->made_ = begin;
        // Even if the commands have taken longer than the values last.
        co_return self->values_;
    }
    co_return self->values_;
}

Task<HttpHeaders> HeaderValues::run_all(std::shared_ptr<HeaderValues> self) {
    HttpHeaders made;
    for (const auto& one : self->commands_) {
        Task<std::string> running = self->run(one.first, one.second);
        std::string value = co_await std::move(running);
        made.add(one.first, std::move(value));
    }
    co_return made;
}

Task<std::string> HeaderValues::run(std::string header, std::string command) const {
    ProcessOptions options("sh");
    options.arguments = {"-c", std::move(command)};
    options.environment = child_environment(environment_);
    options.input = false;
    options.timeout = command_timeout;
    options.max_output_bytes = max_output;
    std::string output;
    ExitStatus status;
    try {
        Task<std::shared_ptr<Process>> starting = launcher_of(*runtime_)->start(std::move(options));
        const std::shared_ptr<Process> process = co_await std::move(starting);
        for (bool more = true; more;) more = co_await process->read(output);
        status = co_await process->wait();
    } catch (const TimeoutError&) {
        fail(header, "has not ended within 30 s");
    }
    // Its words may have secrets.
    if (!status.ok())
        fail(header, status.code ? "ended with status " + std::to_string(*status.code)
                                 : "was killed by a signal");
    std::string value(detail::trimmed(output));
    if (value.empty()) fail(header, "has printed nothing");
    if (!is_http_field_value(value)) fail(header, "has printed more than one line");
    co_return value;
}

}  // namespace

std::function<Task<HttpHeaders>(bool is_refused)> header_commands(
    const McpServerSettings& server, const EnvironmentPolicy& environment,
    std::shared_ptr<const Runtime> runtime) {
    if (server.header_commands.empty()) return {};
    auto values = std::make_shared<HeaderValues>(server, environment, std::move(runtime));
    return [values](bool is_refused) { return HeaderValues::current(values, is_refused); };
}

}  // namespace cubepi::app
