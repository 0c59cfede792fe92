#include "gateway_instance.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/channel.hpp>
#include <bub/framework.hpp>
#include <bub/hooks.hpp>
#include <bub/questions.hpp>
#include <bub/schedule/schedule_channel.hpp>
#include <bub/schedule/schedule_tool.hpp>
#include <bub/session_tape.hpp>
#include <bub/tape/divided_tape_store.hpp>
#include <bub/tape/postgres_tape_store.hpp>
#include <bub/turn_state.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/mcp/deferred_mcp_tools.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/provider/cost.hpp>

#include "../channels/channel_kinds.hpp"
#include "../config/command_sandbox.hpp"
#include "../config/config_file.hpp"
#include "../config/gateway_settings.hpp"
#include "../config/model_sources.hpp"
#include "../config/paths.hpp"
#include "../config/store_locations.hpp"
#include "../config/tool_names.hpp"
#include "../conversation/session.hpp"
#include "../conversation/tool_approval.hpp"
#include "../mcp/mcp_hub.hpp"
#include "../mcp/mcp_settings.hpp"
#include "../program.hpp"
#include "../project/project.hpp"
#include "../saved_sessions.hpp"
#include "console_routes.hpp"
#include "gateway_findings.hpp"
#include "gateway_messages.hpp"
#include "gateway_sessions.hpp"

namespace cubepi::app {

namespace {

[[noreturn]] void throw_invalid_rule(const std::string& text, const Error& error) {
    throw Error(ErrorCode::invalid_argument,
                config_path().string() + ": gateway.rules: '" + text + "': " + error.what());
}

ApprovalRule parse_rule(const std::string& text) {
    try {
        return ApprovalRule::parse(text);
    } catch (const Error& error) {
        throw_invalid_rule(text, error);
    }
}

void check_refused(const std::string& tool) {
    try {
        require_our_name(tool);
    } catch (const Error& error) {
        throw_invalid_rule(tool, error);
    }
}

/// A rule with its parsed permissions.
struct ParsedRule {
    SenderRule rule;
    std::vector<ApprovalRule> allow;
};

/// Returns the rules for the sender of a message, under the restrictions of the user's configuration.
bub::SenderRules rules_for(const std::vector<ParsedRule>& all, const ToolRules& restrictions,
                           const bub::Envelope& message) {
    bub::SenderRules rules;
    rules.allow = restrictions;
    const std::string user = bub::sender_of(message);
    for (const ParsedRule& one : all) {
        if (!one.rule.matches(message.channel.value_or(""), message.chat_id.value_or(""), user))
            continue;
        for (const ApprovalRule& allowed : one.allow) rules.allow.allow(allowed);
        rules.refuse.insert(rules.refuse.end(), one.rule.refuse.begin(), one.rule.refuse.end());
    }
    return rules;
}

/// Returns true if a rule names the tool.
bool allows_tool(const bub::SenderRules& rules, std::string_view tool) {
    const std::vector<ApprovalRule>& all = rules.allow.rules();
    return std::any_of(all.begin(), all.end(),
                       [tool](const ApprovalRule& one) { return one.tool == tool; });
}

bool is_approver(const std::vector<Approver>& approvers, const bub::Envelope& message) {
    const std::string user = bub::sender_of(message);
    if (user.empty()) return false;
    return std::any_of(approvers.begin(), approvers.end(), [&](const Approver& one) {
        return one.user == user && one.channel == message.channel.value_or("");
    });
}

/// The user whose message started the turn answers its questions of the kind `ask`.
bool was_asked(const bub::Envelope& message, const HitlRequest& request) {
    if (!std::holds_alternative<AskRequest>(request.payload)) return false;
    const JsonObject* const asker = detail::object_member(request.extra, bub::asker_key);
    const std::string user = bub::sender_of(message);
    return asker && !user.empty() && detail::string_member(*asker, "user") == user &&
           detail::string_member(*asker, "channel") == message.channel.value_or("");
}

std::filesystem::path make_root(const GatewaySettings& settings) {
    std::filesystem::path root = workspaces_root(settings);
    std::error_code failed;
    std::filesystem::create_directories(root, failed);
    if (failed) {
        throw Error(ErrorCode::storage, "cannot create " + root.string() + ": " + failed.message() +
                                            "; check gateway.root in the configuration file");
    }
    return root;
}

bub::FrameworkOptions framework_options(const GatewaySettings& settings,
                                        const GatewayInstance::Parts& parts) {
    bub::FrameworkOptions options;
    options.workspace = make_root(settings);
    options.runtime = Runtime::standard();
    options.on_warning = parts.on_warning;
    if (parts.telemetry) {
        options.tracer = parts.telemetry->tracer();
        options.meter = parts.telemetry->meter();
    }
    if (parts.meter) options.meter = parts.meter;
    return options;
}

const std::vector<std::string>& selected_channels(const GatewaySettings& settings,
                                                  const GatewayInstance::Parts& parts) {
    return parts.channels.empty() ? settings.channels : parts.channels;
}

bub::ChannelManagerOptions manager_options(const GatewaySettings& settings,
                                           const ModelSources& sources,
                                           const GatewayInstance::Parts& parts) {
    bub::ChannelManagerOptions options;
    options.channels = selected_channels(settings, parts);
    // Channels that are named are those of other users.
    if (settings.console) options.channels.emplace_back(ConsoleChannel::channel_name);
    options.stream_output = settings.stream;
    options.debounce = sources.bub.debounce_options();
    options.max_waiting = settings.max_waiting;
    options.retry_limit = settings.retry_limit;
    options.deliveries = parts.deliveries;
    options.on_warning = parts.on_warning;
    options.observer = parts.reports;
    return options;
}

std::shared_ptr<bub::UsageLimits> usage_limits(const GatewaySettings& settings,
                                               const GatewayInstance::Parts& parts,
                                               const Executor& executor) {
    if (!parts.usage || !settings.limits.any()) return nullptr;
    bub::UsageLimitOptions limits = settings.limits;
    // Gateways on other hosts may have other zones, and must count the same day.
    if (limits.zone.empty() && !tape_location().is_files()) limits.zone = "UTC";
    // The counters are in the first database, which must not stop the sessions of others (D258).
    auto admits_outage = [log = parts.deliveries] { return log && !log->partial_outage().empty(); };
    return std::make_shared<bub::UsageLimits>(std::move(limits), parts.usage, Runtime::standard(),
                                              executor, parts.on_warning, std::move(admits_outage));
}

std::size_t thread_count(const GatewaySettings& settings) {
    if (settings.threads > 0) return settings.threads;
    return std::max(1U, std::thread::hardware_concurrency());
}

/// Throws the failure of a database whose tables are missing, older or newer, which names the command that creates them. One that
/// cannot be reached yet is only reported: turns are tried again until it can (D90).
Task<> check_tables(std::shared_ptr<bub::TapeStore> tapes, bub::WarningHandler warn) {
    if (const auto divided = std::dynamic_pointer_cast<bub::DividedTapeStore>(tapes)) {
        for (std::size_t at = 0; at < divided->map().size(); ++at) {
            Task<> checking = check_tables(divided->at(at), warn);
            co_await std::move(checking);
        }
        co_return;
    }
    const auto database = std::dynamic_pointer_cast<bub::PostgresTapeStore>(tapes);
    if (!database) co_return;
    Task<> opening = database->open();
    const Outcome<> opened = co_await outcome_of(std::move(opening));
    if (opened) co_return;
    if (opened.cancelled()) opened.rethrow();
    if (logged_error(opened.failure()) == to_string(ErrorCode::schema_mismatch)) opened.rethrow();
    if (warn)
        warn("the database of the sessions cannot be used yet: " +
             exception_text(opened.failure()));
}

constexpr const char* sandbox_key = "sandbox";
constexpr const char* admin_key = "gateway.admin.listen";
constexpr const char* console_key = "gateway.console.listen";
constexpr const char* status_key = "gateway.status";

}  // namespace

/// Makes the channels that are configured and selected. Throws Error for a channel whose token is missing.
std::vector<std::shared_ptr<bub::Channel>> GatewayInstance::channels(
    bub::ProvideChannelsCall& call) const {
    std::vector<std::shared_ptr<bub::Channel>> made;
    for (const ChannelSettings& one : settings_.configured) {
        if (has(one.kind())) made.push_back(one.kind().make(one, *this, call));
    }
    if (console_channel_) made.push_back(console_channel_);
    if (parts_.schedules) {
        bub::ScheduleChannelOptions options;
        options.store = parts_.schedules;
        options.configured = settings_.schedules;
        options.on_warning = parts_.on_warning;
        auto schedules = std::make_shared<bub::ScheduleChannel>(std::move(options), call.handler);
        schedules->connect(*manager_);
        made.push_back(std::move(schedules));
    }
    return made;
}

std::vector<HitlRequest> GatewayInstance::task_questions() const {
    const std::lock_guard lock(agents_mutex_);
    std::vector<HitlRequest> all;
    for (const auto& agents : agents_) {
        const std::vector<HitlRequest> open = agents->open_questions();
        all.insert(all.end(), open.begin(), open.end());
    }
    return all;
}

std::optional<LiveAnswer> GatewayInstance::live_answer(const std::string& session_id) const {
    std::optional<LiveAnswer> none;
    return live_ ? live_->find(session_id) : none;
}

Task<bub::Tape> GatewayInstance::tape_of(std::string session_id) const {
    std::shared_ptr<bub::TapeStore> tapes = tapes_;
    if (!settings_.has_terminal_sessions) tapes = tapes_of_session(std::move(tapes), session_id);
    Task<std::string> finding =
        session_tape(tapes, settings_, framework_->workspace(), std::move(session_id));
    std::string name = co_await std::move(finding);
    co_return bub::Tape(std::move(tapes), std::move(name));
}

Task<bool> GatewayInstance::owns_tape(std::string tape, std::string session_id) const {
    if (settings_.has_terminal_sessions) co_return is_tape_in(framework_->workspace(), tape);
    // The first digest of a tape's name is that of the namespace.
    const std::string ours = bub::shared_tape_name(settings_.tape_namespace, "");
    if (tape.starts_with(ours.substr(0, ours.find("__") + 2))) co_return true;
    const bub::Tape earlier = co_await tape_of(std::move(session_id));
    co_return earlier.name() == tape;
}

std::filesystem::path GatewayInstance::workspace_of(const std::string& session_id) const {
    const std::filesystem::path& root = framework_->workspace();
    if (settings_.shared_workspace) return root;
    std::filesystem::path directory = session_workspace(root, session_id).directory;
    std::error_code failed;
    const bool is_made = !session_id.empty() && std::filesystem::is_directory(directory, failed);
    return is_made ? directory : std::filesystem::path();
}

std::string GatewayInstance::new_session_id(std::string_view digest) const {
    if (settings_.has_terminal_sessions)
        return session_id_of("web-" + std::string(digest.substr(0, 12)));
    return std::string(ConsoleChannel::channel_name) + ":" + std::string(digest.substr(0, 16));
}

bool GatewayInstance::has(const ChannelKind& kind) const {
    return bub::selects_service(selected_channels(settings_, parts_), std::string(kind.name));
}

void GatewayInstance::listen(const std::string& key, const ListenAddress& address) {
    listening_[key].server = parts_.servers->at(key, address);
}

std::vector<GatewayLimit> GatewayInstance::limits() const {
    const bub::BuiltinOptions defaults;
    std::vector<GatewayLimit> all;
    const auto add = [&all](const char* key, std::size_t value, const char* unit) {
        all.push_back({key, std::to_string(value) + unit});
    };
    const auto seconds = [&add](const char* key, std::chrono::seconds value) {
        add(key, static_cast<std::size_t>(value.count()), " s");
    };
    add("max_turns", turn_settings(sources_).max_turns.value.value_or(defaults.max_steps),
        " model calls of a message");
    add("max_repeated_calls", config_.max_repeated_calls.value_or(defaults.max_repeated_calls),
        " identical calls");
    add("subagents.max_background", config_.subagents.max_background, " at a time in a session");
    if (config_.subagents.max_spend)
        all.push_back({"subagents.max_spend", "$" + std::to_string(*config_.subagents.max_spend)});
    add("gateway.max_waiting", settings_.max_waiting, " messages of a session");
    if (settings_.question_timeout.count() > 0)
        seconds("gateway.question_timeout", settings_.question_timeout);
    seconds("gateway.retry_limit", settings_.retry_limit);
    const auto add_daily = [&](const std::string& key, const bub::UsageLimit& limit) {
        if (!usage_) return;  // of `cubepi web`, which serves its owner
        if (limit.messages)
            all.push_back({key + ".messages", std::to_string(*limit.messages) + " a day"});
        if (limit.tokens)
            all.push_back({key + ".tokens", std::to_string(*limit.tokens) + " a day"});
        if (limit.micros)
            all.push_back({key + ".money", money_text(bub::usd_of(*limit.micros)) + " a day"});
    };
    add_daily("gateway.limits.per_user", settings_.limits.per_user);
    add_daily("gateway.limits.per_chat", settings_.limits.per_chat);
    add_daily("gateway.limits.total", settings_.limits.total);
    seconds("gateway.drain_timeout", settings_.drain_timeout);
    add("gateway.files.max_file_mb", settings_.files.max_file_bytes / 1'000'000, " MB");
    add("gateway.files.max_files", settings_.files.max_files, " files of a session");
    add("gateway.files.max_total_mb", settings_.files.max_total_bytes / 1'000'000, " MB");
    return all;
}

std::shared_ptr<HttpServer> GatewayInstance::server(const std::string& key) const {
    const auto found = listening_.find(key);
    return found == listening_.end() ? nullptr : found->second.server;
}

ConsoleSessions& GatewayInstance::console_sessions() const {
    if (console_.empty())
        throw Error(ErrorCode::invalid_state,
                    "this gateway has no web console; set gateway.console to true in " +
                        config_path().string() + ", and run: cubepi gateway reload");
    return *parts_.console;
}

std::filesystem::path GatewayInstance::trace_directory() const {
    return trace_settings(config_.trace).directory;
}

std::string GatewayInstance::console_link(GatewayRole role, std::string name) const {
    ConsoleSessions& sessions = console_sessions();
    const std::shared_ptr<HttpServer> at = server(console_key);
    ListenAddress address = *settings_.console;
    address.port = at->port();
    if (address.host == "0.0.0.0") address.host = "127.0.0.1";
    if (address.host == "::") address.host = "::1";
    const bool is_secure = std::any_of(
        listening_.begin(), listening_.end(),
        [&at](const auto& one) { return one.second.server == at && one.second.certificate; });
    return (is_secure ? "https://" : "http://") + address.text() + settings_.base_path +
           console_link_path(sessions.make_link(role, std::move(name)));
}

void GatewayInstance::open_routes() const {
    for (const auto& [key, one] : listening_) {
        HttpAccess access;
        access.base_path = settings_.base_path;
        access.allowed_hosts = settings_.allowed_hosts;
        access.trusted_proxies = settings_.trusted_proxies;
        // A certificate holds for all parts at its address.
        for (const auto& [other, secure] : listening_)
            if (secure.server == one.server && secure.certificate)
                access.certificate = secure.certificate;
        one.server->set_access(std::move(access));
    }
    if (status_) status_->serve();
    if (admin_) admin_->serve();
    for (const auto& routes : console_) routes->serve();
}

void GatewayInstance::end_streams() const {
    if (live_) live_->close();
}

void GatewayInstance::close_routes() {
    end_streams();
    status_.reset();
    admin_.reset();
    console_.clear();
    listening_.clear();
}

bub::TurnQuestions sender_policy(const GatewaySettings& settings, const ConfigFile& config,
                                 const CommandConfinement& confinement,
                                 std::vector<McpServerSettings> servers) {
    auto parsed = std::make_shared<std::vector<ParsedRule>>();
    for (const SenderRule& rule : settings.rules) {
        ParsedRule one;
        one.rule = rule;
        for (const std::string& text : rule.allow) one.allow.push_back(parse_rule(text));
        for (const std::string& tool : rule.refuse) check_refused(tool);
        parsed->push_back(std::move(one));
    }
    bub::TurnQuestions questions;
    questions.timeout = settings.question_timeout;
    // Rules that name a directory do not match in workspaces of sessions.
    const std::string workspace =
        settings.shared_workspace ? settings.root.string() : std::string();
    ToolRules restrictions(workspace);
    restrictions.confine_commands(confinement);
    add_restrictions(restrictions, config);
    restrict_hidden(restrictions, config.sandbox, {workspaces_root(settings)});
    // The directory of a project can restrict, and nothing else of it acts here (D155).
    if (settings.shared_workspace) {
        const ProjectSettings project =
            settings_of(find_project(workspaces_root(settings), TrustSettings()));
        // A rule that cannot be read may be one that denies.
        if (!project.problems.empty())
            throw Error(ErrorCode::invalid_argument, project.problems.front());
        add_restrictions(restrictions, project);
    }
    const auto known = std::make_shared<const std::vector<McpServerSettings>>(std::move(servers));
    questions.rules = [parsed, restrictions, known](const bub::Envelope& message) {
        bub::SenderRules rules = rules_for(*parsed, restrictions, message);
        rules.definition = [known](const AgentTool& tool) {
            const std::optional<std::string> server = server_identity(*known, tool.name.str());
            return server ? mcp_tool_rule(tool, *server) : std::nullopt;
        };
        return rules;
    };
    questions.may_answer = [approvers = settings.approvers](const bub::Envelope& message,
                                                            const HitlRequest& request) {
        return is_approver(approvers, message) || was_asked(message, request);
    };
    return questions;
}

void check_price(const GatewaySettings& settings, const Model& model) {
    if (!settings.limits.has_money() || price_of(model)) return;
    throw Error(ErrorCode::invalid_argument,
                "gateway.limits has amounts of money, but the price of the model '" + model.id +
                    "' is unknown: choose a model with a known price, or limit tokens instead of "
                    "money in " +
                    config_path().string());
}

Task<std::unique_ptr<GatewayInstance>> GatewayInstance::create(ModelFlags flags, Parts parts,
                                                               const GatewayInstance* replaced) {
    ConfigFile config = read_config(config_path());
    GatewaySettings settings = gateway_settings(config_values(config_path()));
    if (parts.directory) settings = settings_for(*parts.directory, std::move(settings));
    ModelSources sources = model_sources(flags, config, false);
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    ModelChoice model = co_await choose_model(sources, transport_of(*runtime), ChooseModel());
    if (!model.offline) check_price(settings, model.model.spec());
    const Executor executor = co_await this_executor;
    std::unique_ptr<GatewayInstance> made(
        new GatewayInstance(std::move(config), std::move(settings), std::move(sources),
                            std::move(model), std::move(parts), executor));
    made->configuration_digest_ = app::configuration_digest(config_values(config_path()));
    if (made->parts_.on_warning) {
        for (const std::string& warning : hook_warnings(hooks_of(made->config_, made->project_)))
            made->parts_.on_warning(warning);
    }
    co_await check_tables(made->tapes_, made->parts_.on_warning);
    // A channel without its token is reported now, not when the instance is to run.
    const auto channels = co_await made->manager_->enabled_channels();
    if (channels.empty()) {
        throw Error(ErrorCode::not_found,
                    "no channel is enabled; configure one: " + onboarding_commands() +
                        ", or write its settings to the key gateway of " + config_path().string());
    }
    std::vector<std::string> names;
    for (const auto& channel : channels) names.push_back(channel->name());
    if (made->parts_.reports) made->parts_.reports->add_channels(names);
    if (!replaced) co_return std::move(made);
    Task<> preparing = made->manager_->prepare();
    const Outcome<> prepared = co_await outcome_of(std::move(preparing));
    if (prepared.cancelled()) prepared.rethrow();
    // Not the code of the channel's error: explain() would take it for one of the model.
    if (!prepared)
        throw Error(ErrorCode::invalid_argument,
                    "the channels cannot start: " + exception_text(prepared.failure()));
    co_return std::move(made);
}

Task<std::unique_ptr<GatewayInstance>> GatewayInstance::again() const {
    std::unique_ptr<GatewayInstance> made(
        new GatewayInstance(config_, settings_, sources_, model_, parts_, executor_));
    made->configuration_digest_ = configuration_digest_;
    // Requests wait for the routes of its channels.
    (void)co_await made->manager_->enabled_channels();
    co_return std::move(made);
}

GatewayInstance::GatewayInstance(ConfigFile config, GatewaySettings settings, ModelSources sources,
                                 ModelChoice model, Parts parts, Executor executor)
    : config_(std::move(config)),
      settings_(std::move(settings)),
      sources_(std::move(sources)),
      model_(std::move(model)),
      parts_(std::move(parts)),
      project_(parts_.directory ? settings_of(parts_.directory->project(config_))
                                : ProjectSettings()),
      mcp_servers_(with_project_servers(configured_mcp_servers(config_path()), project_.servers)),
      tapes_(configured_tapes()),
      results_(std::make_unique<TaskResults>(executor, parts_.on_warning)),
      live_(settings_.console || settings_.admin ? std::make_shared<LiveAnswers>() : nullptr),
      console_channel_(settings_.console && parts_.api && parts_.console
                           ? std::make_shared<ConsoleChannel>(settings_.files.max_file_bytes, live_)
                           : nullptr),
      executor_(std::move(executor)),
      usage_(usage_limits(settings_, parts_, executor_)),
      framework_(make_framework(true)) {
    for (const ChannelSettings& one : settings_.configured) {
        for (const ChannelKey& key : one.kind().keys) {
            if (key.type != KeyType::address || !one.has(key.path)) continue;
            // The certificate of a channel that is not served holds for the other parts at its address.
            const bool is_shared = settings_.listen && one.address(key.path).is_common;
            if (!has(one.kind()) && !is_shared) continue;
            listen(one.path_of(key.path), one.address(key.path));
            const std::string mapping(key.path.substr(0, key.path.size() - key.name().size()));
            const std::string file =
                one.has(mapping + "certificate") ? one.text(mapping + "certificate") : "";
            if (!file.empty())
                listening_[one.path_of(key.path)].certificate =
                    read_certificate(file, one.text(mapping + "key"));
        }
    }
    if (settings_.status) {
        listen(status_key, *settings_.status);
        status_ = status_routes(*server(status_key), parts_.status);
    }
    const AdminTokens tokens = parts_.directory ? AdminTokens() : admin_tokens(settings_);
    if (parts_.api && tokens.any()) {
        listen(admin_key, settings_.admin->listen);
        admin_ = admin_routes(*server(admin_key), *parts_.api, tokens);
    }
    if (settings_.console && parts_.api && parts_.console) {
        listen(console_key, *settings_.console);
        console_ = console_routes(*server(console_key), *parts_.api, parts_.console);
    }
    bub::ChannelManagerOptions options = manager_options(settings_, sources_, parts_);
    if (live_) options.observer = std::make_shared<LiveObserver>(parts_.reports, live_);
    options.gate = usage_;
    const std::size_t threads = thread_count(settings_);
    if (threads > 1) {
        shards_ =
            std::make_shared<bub::TurnShards>(threads, [this] { return make_framework(false); });
        options.shards = shards_;
    }
    manager_ = std::make_unique<bub::ChannelManager>(*framework_, std::move(options));
    results_->connect(*manager_);
}

GatewayInstance::~GatewayInstance() = default;

std::unique_ptr<bub::Framework> GatewayInstance::make_framework(bool with_channels) const {
    auto framework = std::make_unique<bub::Framework>(framework_options(settings_, parts_));
    bub::BuiltinOptions options = builtin_options();
    options.shell.background_note =
        "it ends with this session, or when the gateway ends or reloads its configuration";
    options.agents = std::make_shared<bub::SessionAgents>();
    {
        const std::lock_guard lock(agents_mutex_);
        agents_.push_back(options.agents);
    }
    // A store on a server belongs to the event loop that uses it.
    options.tape_store = with_channels ? tapes_ : configured_tapes();
    if (with_channels) {
        options.channels = [this](bub::ProvideChannelsCall& call) { return channels(call); };
    }
    // Connections belong to the event loop that uses them, so each framework has its own.
    std::shared_ptr<McpHub> servers;
    if (!mcp_servers_.empty()) {
        McpHost host;
        host.suspended_call_time = mcp_suspended_call_time;
        // The servers are those of all sessions: directories of single sessions are not told.
        if (settings_.shared_workspace) host.roots.push_back(workspaces_root(settings_));
        servers =
            std::make_shared<McpHub>(mcp_servers_, options.environment, Runtime::standard(), host);
        options.defer_tools =
            [most = config_.max_listed_mcp_tools.value_or(default_max_listed_mcp_tools)](
                std::vector<AgentTool>& tools) { return defer_mcp_tools(tools, most); };
    }
    std::function<bub::SenderRules(const bub::Envelope&)> rules;
    if (options.questions) rules = options.questions->rules;
    options.configure = [servers, schedules = parts_.schedules, zone = settings_.time_zone,
                         rules = std::move(rules)](AgentOptions& agent,
                                                   const bub::TurnContext& turn) {
        if (servers) add_mcp_tools(agent, *servers);
        // Sub-agents do not schedule.
        if (!schedules || !turn.message) return;
        bub::ScheduleToolOptions tool;
        tool.store = schedules;
        tool.zone = zone;
        tool.may_reschedule = rules && allows_tool(rules(*turn.message), bub::schedule_tool_name);
        agent.tools.push_back(bub::schedule_tool(std::move(tool), turn.session_id, *turn.message));
    };
    framework->add(bub::builtin_plugin(*framework, std::move(options)));
    if (parts_.schedules) framework->add(bub::schedule_plugin(parts_.schedules));
    if (servers) {
        framework->add(mcp_servers_plugin(*framework, std::move(servers),
                                          config_.mcp_start_wait.value_or(default_mcp_start_wait),
                                          parts_.on_warning));
    }
    framework->add(gateway_sessions(*framework, settings_, parts_.deliveries));
    add_plugins(*framework, parts_.plugins);
    return framework;
}

bub::FailureText GatewayInstance::failure_text() const {
    if (!parts_.reports) return {};
    return TurnReports::failure_text(parts_.reports, settings_.show_error_details);
}

bub::BuiltinOptions GatewayInstance::builtin_options() const {
    bub::BuiltinOptions options;
    options.model = model_.model;
    options.other_models = model_.fallbacks;
    options.find_model = [sources = sources_, primary = model_.endpoint](const std::string& id) {
        return choice_of(sources, endpoint_for_model(sources, primary, id)).model;
    };
    // A sender of messages chooses no costs (D245); the owner of a directory is the operator.
    if (!parts_.directory) {
        options.may_name_model = [sources = sources_,
                                  primary = model_.endpoint](const std::string& id) {
            return is_configured_model(sources, primary, id);
        };
    }
    options.describe_endpoint = [sources = sources_, model = model_, sandbox = config_.sandbox,
                                 &project = project_](const AssistantMessage& answer) {
        JsonObject endpoint = endpoint_of_answer(sources, model, answer).to_json();
        if (endpoint.empty()) return endpoint;
        endpoint[sandbox_key] = stored_sandbox(sandbox);
        // Where a chat or another `cubepi web` of the directory finds it.
        JsonObject flags;
        store_trust(flags, project);
        if (!flags.empty()) endpoint[run_flags_key] = std::move(flags);
        return endpoint;
    };
    options.model_at_endpoint = [sources = sources_, model = model_, sandbox = config_.sandbox,
                                 &project = project_](const JsonObject& stored,
                                                      const std::string& id) {
        const JsonObject* const flags = detail::object_member(stored, run_flags_key);
        if (const auto of_run = flags ? stored_trust(*flags) : std::nullopt)
            require_files_of_run(*of_run, project);
        const JsonObject* const earlier = detail::object_member(stored, sandbox_key);
        SandboxSettings stricter = sandbox;
        if (earlier && restrict_sandbox(stricter, *earlier)) {
            throw Error(ErrorCode::unsupported,
                        "the sandbox of this gateway is weaker than the one in which the question "
                        "was asked; ask again, or restore the key 'sandbox'");
        }
        const ModelChoice choice = choice_to_continue(sources, model, StoredModel::of(stored));
        if (id.empty() || choice.offline) return choice.model;
        return model_at_endpoint(sources, choice, id);
    };
    options.environment = command_environment(config_, sources_.flags);
    for (std::string& name : secret_variables(settings_))
        options.environment.hidden.push_back(std::move(name));
    options.command_hooks = hooks_of(config_, project_);
    TrustSettings trust{config_.trust, parts_.directory && parts_.directory->trusts_files};
    options.trusts = [trust = std::move(trust)](const std::filesystem::path& workspace) {
        return is_trusted(workspace, trust);
    };
    const auto sandboxes = std::make_shared<const CommandSandboxes>(config_.sandbox, std::string());
    if (sandboxes->is_on()) {
        options.sandbox = [sandboxes](const std::filesystem::path& workspace) {
            return sandboxes->profile(workspace);
        };
    }
    options.shell.offers_unsandboxed = true;
    CommandConfinement confinement = sandboxes->confinement();
    if (parts_.directory) {
        options.instructions = bub::InstructionScope::user;
        options.questions =
            owner_policy(*parts_.directory, config_, project_, confinement, mcp_servers_);
    } else {
        // A sender of messages is not the operator: a command that reads is asked about like any other.
        confinement.reads_unasked = false;
        options.questions = sender_policy(settings_, config_, confinement, mcp_servers_);
    }
    options.questions->rules =
        [granted = granted_, configured = options.questions->rules](const bub::Envelope& message) {
            bub::SenderRules rules = configured(message);
            granted->add_to(rules.allow, message);
            return rules;
        };
    if (usage_) {
        options.metered_model = [usage = std::weak_ptr<const bub::UsageLimits>(usage_)](
                                    const BoundModel& model, const JsonObject& origin) {
            const std::shared_ptr<const bub::UsageLimits> limits = usage.lock();
            return limits ? limits->metered(model, origin) : model;
        };
    }
    options.failure_text = failure_text();
    options.files = settings_.files;
    set_compaction(options, sources_, model_, transport_of(*Runtime::standard()));
    options.with_todos = config_.todos;
    set_subagents(options, config_.subagents);
    options.deliver_results = [results = results_.get()](bub::Envelope message) {
        results->deliver(std::move(message));
    };
    options.expect_results = options.deliver_results;
    if (live_) {
        options.on_agent = [live = live_](const std::shared_ptr<Agent>& agent,
                                          const bub::TurnContext& turn) {
            LiveAnswers::follow(live, agent, turn.session_id);
        };
    }
    options.on_result = [reports = parts_.reports, live = live_](const RunResult& result,
                                                                 const bub::TurnContext& turn) {
        if (live) live->end(turn.session_id);
        if (reports) reports->note_result(turn.session_id, result);
    };
    const TurnSettings turns = turn_settings(sources_);
    if (turns.max_turns.value) options.max_steps = *turns.max_turns.value;
    if (config_.memory)
        options.memory = parts_.directory ? bub::MemoryScope::workspace : bub::MemoryScope::session;
    options.max_repeated_calls = config_.max_repeated_calls.value_or(options.max_repeated_calls);
    return options;
}

}  // namespace cubepi::app
