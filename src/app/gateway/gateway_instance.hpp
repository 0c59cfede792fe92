#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/channel/channel_manager.hpp>
#include <bub/channel/turn_shards.hpp>
#include <bub/framework.hpp>
#include <bub/hooks.hpp>
#include <bub/limits/usage_limits.hpp>
#include <bub/schedule/schedule.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_store.hpp>

#include "../command_line.hpp"
#include "../config/gateway_settings.hpp"
#include "../config/model_choice.hpp"
#include "../conversation/telemetry.hpp"
#include "../mcp/mcp_settings.hpp"
#include "console_sessions.hpp"
#include "gateway_http.hpp"
#include "gateway_messages.hpp"
#include "gateway_questions.hpp"
#include "live_answers.hpp"
#include "session_location.hpp"
#include "turn_reports.hpp"

namespace cubepi::app {

/// Returns how the turns of the gateway ask their users: the rules for the senders (B26) and the approvers (B25). A rule with the digest
/// of a tool of one of `servers` holds for that definition of it (D148). Throws Error(invalid_argument) that names a rule that is not
/// one.
bub::TurnQuestions sender_policy(const GatewaySettings& settings, const ConfigFile& config = {},
                                 const CommandConfinement& confinement = {},
                                 std::vector<McpServerSettings> servers = {});

/// Throws Error(invalid_argument) if the settings limit money and the price of the gateway's model is unknown.
void check_price(const GatewaySettings& settings, const Model& model);

/// The gateway under one configuration: the manager of its channels, the framework that admits their messages, and the threads
/// that run the turns. A reload creates another one (B28). Used on one executor.
class GatewayInstance {
public:
    struct Parts {
        std::shared_ptr<bub::DeliveryLog> deliveries = {};
        std::shared_ptr<bub::ScheduleStore> schedules = {};  ///< null: there are none
        std::shared_ptr<bub::UsageStore> usage = {};  ///< null: `gateway.limits` is not applied
        std::shared_ptr<Telemetry> telemetry = {};
        std::shared_ptr<Meter> meter = {};  ///< null: that of `telemetry`
        std::shared_ptr<TurnReports> reports = {};
        std::shared_ptr<GatewayServers> servers = {};   ///< required
        GatewayApi* api = nullptr;                      ///< of `gateway.admin`; null: not served
        std::shared_ptr<ConsoleSessions> console = {};  ///< null: `gateway.console` is not served
        StatusSources status = {};
        bub::WarningHandler on_warning = {};  ///< called on any thread
        AddPlugins plugins = {};              ///< called for each framework, on its thread
        std::vector<std::string> channels =
            {};  ///< of --enable-channel; empty: those of the settings
        std::optional<ServedDirectory> directory = {};  ///< of `cubepi web`
    };

    /// Reads the configuration file, chooses the model, listens, and creates the channels. Throws Error for a configuration that
    /// cannot be used. With `replaced`, an instance that serves, the channels are prepared as well (Channel::prepare()).
    static Task<std::unique_ptr<GatewayInstance>> create(ModelFlags flags, Parts parts,
                                                         const GatewayInstance* replaced);
    /// Creates another instance of the same configuration, to serve it again.
    Task<std::unique_ptr<GatewayInstance>> again() const;
    ~GatewayInstance();
    GatewayInstance(const GatewayInstance&) = delete;
    GatewayInstance& operator=(const GatewayInstance&) = delete;

    const GatewaySettings& settings() const noexcept { return settings_; }
    const ModelChoice& model() const noexcept { return model_; }
    bub::Framework& framework() const noexcept { return *framework_; }
    bub::ChannelManager& manager() const noexcept { return *manager_; }
    const std::shared_ptr<bub::TapeStore>& tapes() const noexcept { return tapes_; }
    /// Returns a digest of the configuration file, by which the gateways of several hosts are compared.
    const std::string& configuration_digest() const noexcept { return configuration_digest_; }
    /// Null: messages are not recorded.
    const std::shared_ptr<bub::DeliveryLog>& deliveries() const noexcept {
        return parts_.deliveries;
    }
    /// Returns the open questions of sub-agents in the background, which no tape has (D128).
    std::vector<HitlRequest> task_questions() const;
    /// LiveAnswers::find(); nothing without `gateway.admin` and `gateway.console`, whose users would watch.
    std::optional<LiveAnswer> live_answer(const std::string& session_id) const;
    /// Null under the same condition.
    const std::shared_ptr<LiveAnswers>& live_answers() const noexcept { return live_; }
    /// Returns the tape of a session.
    Task<bub::Tape> tape_of(std::string session_id) const;
    /// Returns whether a tape belongs to the namespace of the gateway. `session_id`: the session of the tape, or that of the caller of
    /// its sub-agent.
    Task<bool> owns_tape(std::string tape, std::string session_id) const;
    /// Returns the id of a session that the console begins; `digest` are hexadecimal digits.
    std::string new_session_id(std::string_view digest) const;
    /// Returns the directory in which a session works; empty: it has none yet.
    std::filesystem::path workspace_of(const std::string& session_id) const;
    /// Returns the prompt templates of a trusted project.
    const std::vector<ProjectPrompt>& project_prompts() const noexcept { return project_.prompts; }
    /// Returns the limits of the configuration, for operators.
    std::vector<GatewayLimit> limits() const;
    /// Null: nothing is limited by day.
    const std::shared_ptr<bub::UsageLimits>& usage() const noexcept { return usage_; }
    /// Returns the server on the address that a key of the settings has: "gateway.http.listen". Null: not configured.
    std::shared_ptr<HttpServer> server(const std::string& key) const;
    /// The servers of the gateway, which outlive the instance.
    GatewayServers& servers() const noexcept { return *parts_.servers; }
    /// Returns a link that logs in to the web console, once. Throws Error(invalid_state) if the console is not configured.
    std::string console_link(GatewayRole role, std::string name) const;
    /// Throws Error(invalid_state) if the console is not configured.
    ConsoleSessions& console_sessions() const;
    /// Null: the console is not configured.
    const std::shared_ptr<ConsoleChannel>& console_channel() const noexcept {
        return console_channel_;
    }
    /// Null: there are no operations on the gateway.
    GatewayApi* api() const noexcept { return parts_.api; }
    const Executor& executor() const noexcept { return executor_; }
    /// Returns the rules that operators have added.
    GrantedRules& granted_rules() const noexcept { return *granted_; }
    /// Null: schedules are switched off.
    const std::shared_ptr<bub::ScheduleStore>& schedules() const noexcept {
        return parts_.schedules;
    }
    /// Returns the directory of the files with traces; empty: none are written.
    std::filesystem::path trace_directory() const;
    /// Applies the certificates and the settings for proxies to the servers, and serves the status and operators. The channels serve
    /// their routes when they start.
    void open_routes() const;
    /// Returns the texts for the senders of messages whose turns fail; null: the default.
    bub::FailureText failure_text() const;
    /// Ends the streams of events. Their clients connect again, to the instance that serves then.
    void end_streams() const;
    /// Ends what open_routes() has begun. Calls that are in progress may need the instance for longer.
    void close_routes();
    /// Returns the number of threads that run turns.
    std::size_t threads() const noexcept { return shards_ ? shards_->size() : 1; }

private:
    struct Listening {
        std::shared_ptr<HttpServer> server;
        std::shared_ptr<HttpCertificate> certificate;  ///< null: no TLS
    };

    GatewayInstance(ConfigFile config, GatewaySettings settings, ModelSources sources,
                    ModelChoice model, Parts parts, Executor executor);
    void listen(const std::string& key, const ListenAddress& address);
    bool has(const ChannelKind& kind) const;
    std::vector<std::shared_ptr<bub::Channel>> channels(bub::ProvideChannelsCall& call) const;
    /// Thread-safe. `with_channels`: the framework of the manager.
    std::unique_ptr<bub::Framework> make_framework(bool with_channels) const;
    bub::BuiltinOptions builtin_options() const;

    const ConfigFile config_;
    std::string configuration_digest_;
    const GatewaySettings settings_;
    const ModelSources sources_;
    const ModelChoice model_;
    const Parts parts_;
    const ProjectSettings project_;  ///< of `cubepi web`
    const std::vector<McpServerSettings> mcp_servers_;
    mutable std::mutex agents_mutex_;
    mutable std::vector<std::shared_ptr<bub::SessionAgents>> agents_;  // of each framework
    std::map<std::string, Listening> listening_;                       // by key of the settings
    std::unique_ptr<HttpRoutes> status_;                               ///< null: not configured
    std::unique_ptr<HttpRoutes> admin_;                                ///< null: not configured
    std::vector<std::unique_ptr<HttpRoutes>> console_;                 ///< empty: not configured
    std::shared_ptr<bub::TapeStore> tapes_;
    const std::unique_ptr<TaskResults> results_;
    const std::shared_ptr<LiveAnswers> live_;  ///< null: nothing is followed
    const std::shared_ptr<ConsoleChannel> console_channel_;
    const std::shared_ptr<GrantedRules> granted_ = std::make_shared<GrantedRules>();
    const Executor executor_;
    const std::shared_ptr<bub::UsageLimits> usage_;
    std::unique_ptr<bub::Framework> framework_;
    std::shared_ptr<bub::TurnShards> shards_;  ///< null: turns run on the executor of the manager
    std::unique_ptr<bub::ChannelManager> manager_;
};

}  // namespace cubepi::app
