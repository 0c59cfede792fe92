#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <bub/channel/gateway_peers.hpp>
#include <bub/envelope.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/core/task_scope.hpp>

#include "../command_line.hpp"
#include "../config/gateway_settings.hpp"
#include "../config/store_locations.hpp"
#include "../conversation/telemetry.hpp"
#include "console_sessions.hpp"
#include "control_server.hpp"
#include "gateway_api.hpp"
#include "gateway_http.hpp"
#include "gateway_instance.hpp"
#include "session_location.hpp"

namespace cubepi::app {

/// The questions whose time is over (D65): notifies the session of each once. Used on one executor.
class ExpiredQuestions {
public:
    /// Accepts the message that continues a session.
    using Receive = std::function<Task<>(bub::Envelope message)>;
    using Warn = std::function<void(const std::string& text)>;

    struct Due {
        std::string key;  ///< of the session and the question
        bub::Envelope message;
    };

    /// Passes the messages of all questions that are due to `receive`, except those that were passed before. A message that is rejected
    /// for the time being (its channel is not running, or the queue is full) is passed again the next time. Any other failure
    /// is reported, and does not affect the other questions.
    Task<> notify(std::vector<Due> due, Receive receive, Warn warn);

private:
    std::set<std::string> notified_;
};

/// The service `cubepi gateway`: runs the pipeline over the configured channels until it is told to end. SIGTERM and SIGINT
/// drain it (B27), a second one cancels the turns; SIGHUP reloads the configuration (B28, D90). Used on one executor.
class Gateway final : private OperatedGateway {
public:
    /// With a directory, it is `cubepi web`.
    Gateway(Executor executor, CommandLine line, std::optional<ServedDirectory> directory = {});
    ~Gateway();
    Gateway(const Gateway&) = delete;
    Gateway& operator=(const Gateway&) = delete;

    /// Runs until the end of the service, and returns the exit status. Throws Error if it cannot start.
    Task<int> run();

private:
    enum class State : std::uint8_t { starting, running, reloading, draining };

    Task<std::unique_ptr<GatewayInstance>> make_instance();
    Task<> load_logins();
    Task<> write_logins();
    Task<> save_logins();
    Task<> serve();
    Task<> announce_start();
    Task<> greet();
    void greet_owner() const;
    DeliveryLocation location_of_deliveries() const;
    Task<> feed_watchdog(std::chrono::microseconds interval);
    void on_signal(int signal);
    Task<> drain();
    Task<> reload();

    std::shared_ptr<GatewayInstance> instance() const override { return instance_; }
    std::string_view state() const override;
    double started() const override;
    /// Makes the instance of the changed configuration, drains the current one, and waits until the new one serves.
    Task<> replace_instance() override;
    void begin_drain() override;
    std::string peers_problem() const override { return peers_problem_; }

    /// Answers a request of the control socket.
    Task<JsonObject> answer(JsonObject request);
    /// Returns the number of open questions of each channel.
    Task<std::map<std::string, std::size_t>> open_questions();
    /// Reports the status to the gateways that share the messages, and executes their requests, until it is cancelled (D237).
    Task<> serve_peers();
    Task<> answer_peer(std::shared_ptr<bub::GatewayPeers> peers, bub::PeerCall call);
    /// Reports a failure once, and its end, unless the database is away. `failure` is null after a success.
    void note_peers(const std::exception_ptr& failure);
    /// Continues the sessions whose questions have expired (D65), until it is cancelled.
    Task<> watch_deadlines();
    /// Tells the readers of the console which lists have changed, until it is cancelled (D268).
    Task<> watch_lists();
    Task<> expire_due();

    Task<std::string> metrics();
    /// Thread-safe.
    void warn(const std::string& text) const;
    void enter(State state);

    const Executor executor_;
    const CommandLine line_;
    const std::optional<ServedDirectory> directory_;
    const std::chrono::system_clock::time_point began_ = std::chrono::system_clock::now();
    std::shared_ptr<Telemetry> telemetry_;
    std::shared_ptr<Meter> meter_;
    std::shared_ptr<TurnReports> reports_;
    std::shared_ptr<bub::DeliveryLog> deliveries_;
    DeliveryLocation deliveries_at_;
    std::shared_ptr<bub::ScheduleStore> schedules_;  ///< null: switched off
    std::shared_ptr<bub::UsageStore> usage_;         ///< null: there were no limits yet
    const std::shared_ptr<GatewayServers> servers_;
    const std::shared_ptr<ConsoleSessions> console_;
    std::shared_ptr<GatewayInstance> instance_;
    std::shared_ptr<GatewayInstance> next_;      ///< follows when `instance_` is drained
    std::shared_ptr<GatewayInstance> replaced_;  ///< until `instance_` has started in its place
    std::exception_ptr reload_failure_;          ///< of an instance that did not start
    GatewayApi api_{*this};
    ControlServer control_;
    ExpiredQuestions expired_;
    BackgroundScope work_;
    mutable std::mutex output_;
    AsyncEvent state_changed_;
    State state_ = State::starting;
    bool ending_ = false;
    std::string peers_problem_;
};

}  // namespace cubepi::app
