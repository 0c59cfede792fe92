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

#include <sys/stat.h>

#include <bub/builtin/builtin.hpp>
#include <bub/channel.hpp>
#include <bub/channel/http_channel.hpp>
#include <bub/channel/telegram_channel.hpp>
#include <bub/framework.hpp>
#include <bub/hooks.hpp>
#include <bub/questions.hpp>
#include <bub/tape/entry/encoding.hpp>
#include <bub/turn_state.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/http_client.hpp>

#include "../config/config_file.hpp"
#include "../config/gateway_settings.hpp"
#include "../config/model_sources.hpp"
#include "../config/paths.hpp"
#include "../config/tape_place.hpp"
#include "../program.hpp"

namespace cubepi::app {

namespace {

ApprovalRule parse_rule(const std::string& text) {
    try {
        return ApprovalRule::parse(text);
    } catch (const Error& error) {
        throw Error(ErrorCode::invalid_argument,
                    config_path().string() + ": gateway.rules: '" + text + "': " + error.what());
    }
}

/// A rule with its parsed permissions.
struct ParsedRule {
    SenderRule rule;
    std::vector<ApprovalRule> allow;
};

bub::SenderRules rules_for(const std::vector<ParsedRule>& all, const std::string& workspace,
                           const bub::Envelope& message) {
    bub::SenderRules rules;
    rules.allow = ToolRules(workspace);
    const std::string user = bub::sender_of(message);
    for (const ParsedRule& one : all) {
        if (!one.rule.matches(message.channel.value_or(""), message.chat_id.value_or(""), user))
            continue;
        for (const ApprovalRule& allowed : one.allow) rules.allow.allow(allowed);
        rules.refuse.insert(rules.refuse.end(), one.rule.refuse.begin(), one.rule.refuse.end());
    }
    return rules;
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

constexpr std::size_t longest_name = 60;

bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

void make_directory(const std::filesystem::path& directory) {
    std::error_code failed;
    if (std::filesystem::is_directory(directory, failed)) return;
    std::filesystem::create_directories(directory.parent_path(), failed);
    if (!failed && ::mkdir(directory.c_str(), S_IRWXU) == 0) return;
    if (std::filesystem::is_directory(directory, failed)) return;  // another turn made it
    throw Error(ErrorCode::storage, "cannot create the workspace " + directory.string() +
                                        "; check gateway.root in the configuration file");
}

std::filesystem::path make_root(const GatewaySettings& settings) {
    std::filesystem::path root = settings.root.empty() ? gateway_root() : settings.root;
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
    options.stream_output = settings.stream;
    options.debounce = sources.bub.debounce_options();
    options.max_waiting = settings.max_waiting;
    options.retry_limit = settings.retry_limit;
    options.deliveries = parts.deliveries;
    options.on_warning = parts.on_warning;
    return options;
}

std::size_t thread_count(const GatewaySettings& settings) {
    if (settings.threads > 0) return settings.threads;
    return std::max(1U, std::thread::hardware_concurrency());
}

/// Returns the value of the variable with a channel's token or other secret. Throws Error(invalid_argument) if it is not set.
std::string secret_in(const std::string& variable, const std::string& channel,
                      const std::string& what, const std::string& advice) {
    const char* const value = std::getenv(variable.c_str());
    if (value && *value) return value;
    throw Error(ErrorCode::invalid_argument, "the channel " + channel + " has no " + what +
                                                 ", since " + variable + " is not set. " + advice);
}

constexpr const char* http_key = "gateway.http.listen";
constexpr const char* webhook_key = "gateway.telegram.webhook.listen";

}  // namespace

std::shared_ptr<bub::Channel> GatewayInstance::http_channel(
    const bub::MessageHandler& handler) const {
    const HttpChannelSettings& settings = *settings_.http;
    bub::HttpChannelOptions options;
    options.server.listener = listener(http_key);
    options.server.spares_descriptors = true;
    options.server.certificate_file = settings.certificate.string();
    options.server.key_file = settings.key.string();
    options.operators = settings.operators;
    options.token =
        secret_in(settings.token_env, "http", "token",
                  "To make one: export " + settings.token_env + "=$(openssl rand -hex 16)");
    const std::string problem = token_problem(settings.token_env, options.token);
    if (!problem.empty())
        throw Error(ErrorCode::invalid_argument,
                    "channel http: " + problem + ".\n  To make one: export " + settings.token_env +
                        "=$(openssl rand -hex 16)");
    return std::make_shared<bub::HttpChannel>(std::move(options), handler);
}

std::shared_ptr<bub::Channel> GatewayInstance::telegram_channel(
    bub::ProvideChannelsCall& call) const {
    const TelegramChannelSettings& settings = *settings_.telegram;
    bub::TelegramChannelOptions options;
    options.token = settings.token;
    if (options.token.empty()) {
        options.token = secret_in(settings.token_env, "telegram", "token",
                                  "To set it up: cubepi onboard telegram");
    }
    options.users = settings.users;
    options.chats = settings.chats;
    options.operators = settings.operators;
    for (const Approver& one : settings_.approvers) {
        if (one.channel == "telegram") options.approvers.push_back(one.user);
    }
    options.shows_progress = settings.progress;
    options.api_url = settings.api_url;
    options.runtime = call.framework.runtime();
    options.on_warning = call.framework.options().on_warning;
    if (const std::optional<TelegramWebhookSettings>& webhook = settings.webhook) {
        options.webhook.emplace();
        options.webhook->url = webhook->url;
        options.webhook->path = webhook->path;
        options.webhook->server.listener = listener(webhook_key);
        options.webhook->secret =
            secret_in(webhook->secret_env, "telegram", "webhook secret",
                      "To make one: export " + webhook->secret_env + "=$(openssl rand -hex 32)");
    }
    return std::make_shared<bub::TelegramChannel>(std::move(options), call.handler);
}

/// Makes the channels that are configured and selected. Throws Error for a channel whose token is missing.
std::vector<std::shared_ptr<bub::Channel>> GatewayInstance::channels(
    bub::ProvideChannelsCall& call) const {
    std::vector<std::shared_ptr<bub::Channel>> made;
    if (settings_.http && has("http")) made.push_back(http_channel(call.handler));
    if (settings_.telegram && has("telegram")) made.push_back(telegram_channel(call));
    return made;
}

bool GatewayInstance::has(const std::string& channel) const {
    return bub::selects_service(selected_channels(settings_, parts_), channel);
}

void GatewayInstance::listen(const std::string& key, const ListenAddress& address,
                             const GatewayInstance* replaced) {
    Listening& made = listening_[key];
    made.address = address;
    if (replaced) {
        for (const auto& [other, one] : replaced->listening_) {
            const bool has_port = address.port == 0 ? one.address.port == 0 && other == key
                                                    : one.socket->port() == address.port;
            const bool is_taken =
                std::any_of(listening_.begin(), listening_.end(),
                            [&](const auto& mine) { return mine.second.socket == one.socket; });
            if (!has_port || one.address.host != address.host || is_taken) continue;
            made.socket = one.socket;
            return;
        }
    }
    try {
        made.socket = std::make_shared<HttpListener>(address.host, address.port);
    } catch (const Error& error) {
        throw Error(ErrorCode::invalid_argument,
                    config_path().string() + ": " + key + ": " + error.what());
    }
}

std::shared_ptr<HttpListener> GatewayInstance::listener(const std::string& key) const {
    const auto found = listening_.find(key);
    return found == listening_.end() ? nullptr : found->second.socket;
}

bub::TurnQuestions sender_policy(const GatewaySettings& settings) {
    auto parsed = std::make_shared<std::vector<ParsedRule>>();
    for (const SenderRule& rule : settings.rules) {
        ParsedRule one;
        one.rule = rule;
        for (const std::string& text : rule.allow) one.allow.push_back(parse_rule(text));
        parsed->push_back(std::move(one));
    }
    bub::TurnQuestions questions;
    questions.timeout = settings.question_timeout;
    // Rules that name a directory do not match in workspaces of sessions.
    const std::string workspace =
        settings.shared_workspace ? settings.root.string() : std::string();
    questions.rules = [parsed, workspace](const bub::Envelope& message) {
        return rules_for(*parsed, workspace, message);
    };
    questions.may_answer = [approvers = settings.approvers](const bub::Envelope& message,
                                                            const HitlRequest& request) {
        return is_approver(approvers, message) || was_asked(message, request);
    };
    return questions;
}

std::string token_problem(const std::string& variable, const std::string& token) {
    constexpr std::size_t shortest = 16;
    if (token.size() >= shortest) return {};
    return "the token in " + variable + " has fewer than " + std::to_string(shortest) +
           " characters, so that it can be guessed";
}

std::filesystem::path session_workspace(const std::filesystem::path& root,
                                        std::string_view session_id) {
    std::string name(session_id.substr(0, longest_name));
    for (char& c : name) {
        if (!is_plain(c)) c = '-';
    }
    return root / (name + "-" + bub::detail::sha256_hex(session_id).substr(0, 8));
}

bub::Plugin session_workspaces(std::filesystem::path root) {
    bub::Plugin plugin;
    plugin.name = "session-workspaces";
    plugin.load_state = [root = std::move(root)](bub::LoadStateCall& call) {
        const std::filesystem::path directory = session_workspace(root, call.session_id);
        make_directory(directory);
        JsonObject state;
        state[bub::TurnState::workspace_key] = directory.string();
        return std::optional<JsonObject>(std::move(state));
    };
    return plugin;
}

Task<std::unique_ptr<GatewayInstance>> GatewayInstance::create(ModelFlags flags, Parts parts,
                                                               const GatewayInstance* replaced) {
    ConfigFile config = read_config(config_path());
    GatewaySettings settings = gateway_settings(config_values(config_path()));
    ModelSources sources = model_sources(flags, config, false);
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    ModelChoice model = co_await choose_model(sources, transport_of(*runtime), ChooseModel());
    std::unique_ptr<GatewayInstance> made(
        new GatewayInstance(std::move(config), std::move(settings), std::move(sources),
                            std::move(model), std::move(parts), replaced));
    // A channel without its token is reported now, not when the instance is to run.
    const auto channels = co_await made->manager_->enabled_channels();
    if (channels.empty()) {
        throw Error(ErrorCode::not_found,
                    "no channel is enabled; configure one: 'cubepi onboard telegram', or the key "
                    "gateway.http of " +
                        config_path().string());
    }
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
        new GatewayInstance(config_, settings_, sources_, model_, parts_, this));
    co_return std::move(made);
}

GatewayInstance::GatewayInstance(ConfigFile config, GatewaySettings settings, ModelSources sources,
                                 ModelChoice model, Parts parts, const GatewayInstance* replaced)
    : config_(std::move(config)),
      settings_(std::move(settings)),
      sources_(std::move(sources)),
      model_(std::move(model)),
      parts_(std::move(parts)),
      tapes_(configured_tapes()),
      framework_(make_framework(true)) {
    if (settings_.http && has("http")) listen(http_key, settings_.http->listen, replaced);
    if (settings_.telegram && settings_.telegram->webhook && has("telegram"))
        listen(webhook_key, settings_.telegram->webhook->listen, replaced);
    if (settings_.status) listen(status_key, *settings_.status, replaced);
    bub::ChannelManagerOptions options = manager_options(settings_, sources_, parts_);
    const std::size_t threads = thread_count(settings_);
    if (threads > 1) {
        shards_ =
            std::make_shared<bub::TurnShards>(threads, [this] { return make_framework(false); });
        options.shards = shards_;
    }
    manager_ = std::make_unique<bub::ChannelManager>(*framework_, std::move(options));
}

GatewayInstance::~GatewayInstance() = default;

std::unique_ptr<bub::Framework> GatewayInstance::make_framework(bool with_channels) const {
    auto framework = std::make_unique<bub::Framework>(framework_options(settings_, parts_));
    bub::BuiltinOptions options = builtin_options();
    // A store on a server belongs to the event loop that uses it.
    options.tape_store = with_channels ? tapes_ : configured_tapes();
    if (with_channels) {
        options.channels = [this](bub::ProvideChannelsCall& call) { return channels(call); };
    }
    framework->add(bub::builtin_plugin(*framework, std::move(options)));
    if (!settings_.shared_workspace) framework->add(session_workspaces(framework->workspace()));
    add_plugins(*framework, parts_.plugins);
    return framework;
}

bub::BuiltinOptions GatewayInstance::builtin_options() const {
    bub::BuiltinOptions options;
    options.model = model_.model;
    options.other_models = model_.fallbacks;
    options.find_model = [sources = sources_, primary = model_.endpoint](const std::string& id) {
        return choice_of(sources, endpoint_for_model(sources, primary, id)).model;
    };
    options.describe_endpoint = [sources = sources_,
                                 model = model_](const AssistantMessage& answer) {
        return endpoint_of_answer(sources, model, answer).to_json();
    };
    options.model_at_endpoint = [sources = sources_, model = model_](const JsonObject& stored,
                                                                     const std::string& id) {
        const ModelChoice choice = choice_to_continue(sources, model, StoredModel::of(stored));
        if (id.empty() || choice.offline) return choice.model;
        return model_at_endpoint(sources, choice, id);
    };
    options.environment = command_environment(config_, sources_.flags);
    options.questions = sender_policy(settings_);
    const TurnSettings turns = turn_settings(sources_);
    if (turns.max_turns.value) options.max_steps = *turns.max_turns.value;
    return options;
}

}  // namespace cubepi::app
