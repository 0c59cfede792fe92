#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <langinfo.h>
#include <unistd.h>

#include <bub/channel/postgres_delivery_schema.hpp>
#include <bub/limits/postgres_usage_store.hpp>
#include <bub/schedule/postgres_schedule_store.hpp>
#include <bub/tape/postgres_tape_schema.hpp>
#include <cubepi/core/format_version.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/provider/cost.hpp>

#include "config/command_sandbox.hpp"
#include "config/config_file.hpp"
#include "config/model_choice.hpp"
#include "config/model_sources.hpp"
#include "config/paths.hpp"
#include "config/store_locations.hpp"
#include "config/tool_names.hpp"
#include "conversation/tool_approval.hpp"
#include "failure.hpp"
#include "gateway/gateway_findings.hpp"
#include "gateway/gateway_instance.hpp"
#include "mcp/mcp_settings.hpp"
#include "models.hpp"
#include "process.hpp"
#include "program.hpp"
#include "project/project.hpp"
#include "project/trust.hpp"
#include "saved_sessions.hpp"
#include "shell_quoting.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

/// Writes the findings; each problem has the next command.
class Report {
public:
    explicit Report(Style style) : style_(style) {}

    void title(TerminalView text) const {
        out() << "\n" << style_.bold() << text << style_.off() << "\n";
    }
    void good(const std::string& text) const { line(style_.green(), "✓", text); }
    void plain(const std::string& text) const { line(style_.dim(), "-", text); }
    void problem(const std::string& text, const std::string& advice) const {
        line(style_.red(), "✗", text);
        std::istringstream lines(advice);
        for (std::string more; std::getline(lines, more);)
            out() << "      "
                  << for_terminal(more.substr(std::min(more.find_first_not_of(' '), more.size())))
                  << "\n";
    }
    void failure(const Error& error, const FailureContext& context) const {
        std::string text = explain(error, context).text;
        // The user has done that.
        constexpr std::string_view advice = " Check: cubepi doctor";
        if (const std::size_t at = text.find(advice); at != std::string::npos)
            text.erase(at, advice.size());
        const std::size_t end = text.find('\n');
        if (end == std::string::npos) return problem(text, {});
        problem(text.substr(0, end), text.substr(text.find_first_not_of(" \n", end)));
    }

private:
    void line(TerminalView color, TerminalView sign, const std::string& text) const {
        out() << "  " << color << sign << style_.off() << " " << for_terminal(text) << "\n"
              << flush_now;
    }
    Style style_;
};

/// The remedy for an error in the configuration file.
std::string how_to_correct() { return "Correct it: ${EDITOR:-nano} " + config_path().string(); }

std::string host_of(const std::string& url) {
    Endpoint endpoint;
    endpoint.base_url = url;
    return endpoint.host();
}

std::string count_text(std::size_t count, const std::string& what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string models_text(const std::vector<OfferedModel>& models) {
    std::string text = count_text(models.size(), "model");
    for (std::size_t i = 0; i < models.size() && i < 5; ++i)
        text += (i == 0 ? ": " : ", ") + models[i].id;
    return models.size() > 5 ? text + ", …" : text;
}

void check_rules(const Report& report, const ConfigFile& config) {
    if (config.allow.empty()) return;
    try {
        const std::vector<std::string> unused = unused_rules(config.allow);
        report.plain("allow: " + count_text(config.allow.size(), "rule"));
        for (const std::string& note : unused) report.problem(note, how_to_correct());
    } catch (const Error& error) {
        report.problem(error.what(), how_to_correct());
    }
}

ConfigFile check_config(const Report& report) {
    const std::filesystem::path path = config_path();
    ConfigFile config;
    std::error_code failed;
    if (!std::filesystem::exists(path, failed)) {
        report.plain("no configuration file (" + path.string() + ")");
        return config;
    }
    try {
        config = read_config(path);
    } catch (const Error& error) {
        report.problem(error.what(), how_to_correct());
        return config;
    }
    report.good("configuration file " + path.string());
    if (!config.provider.empty()) report.plain("provider: " + config.provider);
    if (!config.model.empty()) report.plain("model: " + config.model);
    if (!config.base_url.empty()) report.plain("base_url: " + host_of(config.base_url));
    if (!config.api_key.empty()) report.plain("api_key: set");
    for (const ProviderConfig& provider : config.providers) {
        report.plain("provider " + provider.name +
                     (provider.base_url.empty() ? "" : " at " + host_of(provider.base_url)) +
                     (provider.api_key.empty() ? "" : ", api_key: set"));
    }
    check_rules(report, config);
    if (config.too_open) {
        report.problem("the file contains a key and is readable by other users",
                       "chmod 600 " + shell_word(path.string()));
    }
    return config;
}

/// Checks that a variable that the configuration names for a key is set.
void check_named_variable(const Report& report, const ModelSources& sources,
                          const std::string& variable) {
    if (variable.empty()) return;
    if (sources.environment.contains(variable)) return report.plain(variable + " is set");
    report.problem("the configuration names " + variable + " for the key, and it is not set",
                   "export " + variable + "=...");
}

void check_environment(const Report& report, const ModelSources& sources) {
    for (const KnownProvider& known : known_providers()) {
        if (service_of(known.name) != known.name) continue;  // has the variables of that one
        const std::string key(known.key_variable);
        const std::string url(known.base_url_variable);
        const bool set = sources.environment.contains(key);
        const bool first_party = !url.empty();
        if (set || first_party) report.plain(key + (set ? " is set" : " is not set"));
        if (first_party && sources.environment.contains(url))
            report.plain(url + ": " + host_of(sources.environment.at(url)));
    }
}

/// Lists the settings taken from Bub.
void check_bub(const Report& report, const bub::Settings& bub) {
    std::string list;
    for (const auto& [name, origin] : bub.origins)
        list += (list.empty() ? "" : ", ") + name + " (" + origin + ")";
    if (!list.empty()) report.plain("settings taken from Bub: " + list);
    for (const std::string& problem : bub.problems) {
        report.problem(problem, "Correct it there, or set it in " + config_path().string() +
                                    ", which takes precedence.");
    }
}

std::string source_text(const std::string& source) {
    return " (" + (source.empty() ? "default" : source) + ")";
}

/// Returns the model of conversations without flags; empty: none is named, or its address is invalid.
std::optional<Model> configured_model(const ModelSources& sources) {
    std::optional<Model> model;
    try {
        const Endpoint endpoint = choose_endpoint(sources);
        if (!endpoint.model.empty()) model = endpoint.bind(endpoint.model).spec();
    } catch (const Error&) {
        // Reported with the models.
    }
    return model;
}

void show_subagents(const Report& report, const SubagentSettings& settings,
                    const std::optional<Model>& model) {
    const std::size_t background = settings.max_background;
    if (background != SubagentSettings().max_background)
        report.plain("subagents.max_background: " +
                     (background == 0 ? std::string("false") : std::to_string(background)) +
                     source_text(config_origin));
    if (settings.max_turns)
        report.plain("subagents.max_turns: " + std::to_string(*settings.max_turns) +
                     source_text(config_origin));
    if (settings.max_spend)
        report.plain("subagents.max_spend: " + money_text(*settings.max_spend) +
                     source_text(config_origin));
    if (settings.max_spend && model && !price_of(*model))
        report.problem(
            "the price of the model " + model->id +
                " is unknown, so that sub-agents with subagents.max_spend cannot call it",
            "Choose a model with a known price, or set subagents.max_turns instead in " +
                config_path().string());
}

/// Lists the settings of a conversation without flags, with their sources.
void show_in_use(const Report& report, const ModelSources& sources) {
    Endpoint endpoint;
    try {
        endpoint = choose_endpoint(sources);
    } catch (const Error&) {
        return;  // reported with the models
    }
    if (endpoint.provider.empty()) return;
    report.title("In use");
    const EndpointOrigin& from = endpoint.from;
    report.plain("provider: " + endpoint.provider + source_text(from.provider));
    report.plain("address: " + endpoint.host() + source_text(from.base_url));
    if (!endpoint.api_key.empty()) report.plain("key: set" + source_text(from.api_key));
    if (const std::string note = endpoint.key_note(); !note.empty()) report.problem(note, {});
    if (!endpoint.model.empty()) report.plain("model: " + endpoint.model + source_text(from.model));
    for (const FallbackModel& model : fallback_models(sources, endpoint)) {
        const std::string by = turn_settings(sources).fallback_models.by;
        if (model.problem.empty()) {
            report.plain("fallback model: " + model.name + source_text(by));
        } else {
            report.problem("the fallback model " + model.name + " is not used: " + model.problem,
                           {});
        }
    }
    if (const auto& share = sources.config.compact_at) {
        std::ostringstream text;
        text << "compact_at: " << *share;
        report.plain(text.str() + source_text(config_origin));
    }
    if (const std::string& model = sources.config.compact_model; !model.empty())
        report.plain("compact_model: " + model + source_text(config_origin));
    const TurnSettings settings = turn_settings(sources);
    if (const auto& timeout = settings.model_timeout; timeout.value)
        report.plain("model_timeout: " + std::to_string(timeout.value->count()) + " ms" +
                     source_text(timeout.by));
    if (const auto& timeout = settings.first_byte_timeout)
        report.plain("first_byte_timeout: " + std::to_string(timeout->count()) + " ms" +
                     source_text(config_origin));
    if (const auto& timeout = settings.idle_timeout)
        report.plain("idle_timeout: " + std::to_string(timeout->count()) + " ms" +
                     source_text(config_origin));
    if (const auto& limit = settings.max_turns; limit.value)
        report.plain("max_turns: " + std::to_string(*limit.value) + source_text(limit.by));
    if (const auto& limit = settings.max_tokens; limit.value)
        report.plain("max_tokens: " + std::to_string(*limit.value) + source_text(limit.by));
    const ConfigFile& config = sources.config;
    if (const auto& limit = config.max_repeated_calls) {
        report.plain(
            "max_repeated_calls: " + (*limit == 0 ? std::string("false") : std::to_string(*limit)) +
            source_text(config_origin));
    }
    if (config.memory) report.plain("memory: true" + source_text(config_origin));
    if (!config.todos) report.plain("todos: false" + source_text(config_origin));
    show_subagents(report, config.subagents, configured_model(sources));
}

/// Lists the environment of commands, and the variables that are removed from it.
void show_environment(const Report& report, const ConfigFile& config) {
    const EnvironmentPolicy policy = command_environment(config);
    std::string text = "commands inherit ";
    switch (policy.inherit) {
        case InheritEnvironment::all: text += "all variables but secrets"; break;
        case InheritEnvironment::core: text += "the core variables"; break;
        case InheritEnvironment::none: text += "no variables"; break;
    }
    constexpr std::size_t most_shown = 12;
    const std::vector<std::string> withheld = withheld_variables(policy);
    for (std::size_t i = 0; i < std::min(withheld.size(), most_shown); ++i)
        text += (i == 0 ? "; withheld: " : ", ") + withheld[i];
    if (withheld.size() > most_shown)
        text += " and " + std::to_string(withheld.size() - most_shown) + " more";
    report.plain(text);
}

/// Lists the commands of the user that run around calls and prompts.
void show_hooks(const Report& report, const ConfigFile& config) {
    for (const bub::CommandHook& hook : config.hooks) {
        const std::string of = hook.matcher.empty() ? "" : " " + hook.matcher;
        report.plain("hook at " + std::string(to_string(hook.point)) + of + ": " + hook.command);
    }
    for (const std::string& warning : hook_warnings(config.hooks))
        report.problem(visible(warning), how_to_correct());
}

/// "; Authorization by a command, every 300 s"
std::string header_note(const McpServerSettings& server) {
    std::string names;
    for (const auto& [name, command] : server.header_commands)
        names += (names.empty() ? "; " : ", ") + name;
    if (names.empty()) return names;
    return names + " by a command, every " + std::to_string(server.header_max_age.count()) + " s";
}

/// Lists the MCP servers; `cubepi mcp check` connects to them.
void show_mcp_servers(const Report& report) {
    try {
        for (const McpServerSettings& server : configured_mcp_servers(config_path()))
            report.plain("MCP server " + server.name + ": " + server.address() +
                         (server.disabled ? " (disabled)" : "") + header_note(server));
    } catch (const Error& error) {
        report.problem(error.what(), how_to_correct());
    }
}

/// Lists the promises of the sandbox of commands, and whether this kernel holds them.
void check_sandbox(const Report& report, const ConfigFile& config) {
    report.title("Sandbox of commands");
    const SandboxSupport& support = sandbox_support();
    report.plain(
        "Landlock " +
        (support.landlock_abi == 0 ? std::string("is missing")
                                   : std::to_string(support.landlock_abi)) +
        (support.seccomp ? ", seccomp" : ", no seccomp") +
        (!support.namespaces                  ? ", no namespaces"
         : support.namespaces_problem.empty() ? ", namespaces of users, mounts and the network"
                                              : ", namespaces") +
        (support.namespaces_problem.empty() ? "" : " (" + support.namespaces_problem + ")"));
    try {
        const CommandSandboxes sandboxes(config.sandbox, std::string());
        if (sandboxes.settings().mode == SandboxSettings::Mode::off)
            return report.plain("off (configuration)");
        if (const std::string problem = sandboxes.problem(); !problem.empty())
            return report.problem(problem, {});
        const auto profile = sandboxes.profile(std::filesystem::current_path());
        for (const SandboxGuarantee& one : sandbox_guarantees(*profile)) {
            const std::string text = to_string(one.property);
            if (!one.applies) {
                report.plain(text + ": not promised (configuration)");
            } else if (one.held) {
                report.good(text + " (" + one.how + ")");
            } else {
                report.plain("not held: " + text + " (" + one.how + ")");
            }
        }
    } catch (const Error& error) {
        report.problem(error.what(), how_to_correct());
    }
}

ModelSources check_settings(const Report& report) {
    report.title("Configuration");
    const ConfigFile config = check_config(report);
    ModelSources sources = model_sources(ModelFlags(), config, false);
    check_environment(report, sources);
    check_named_variable(report, sources, config.api_key_env);
    for (const ProviderConfig& provider : config.providers)
        check_named_variable(report, sources, provider.api_key_env);
    for (const char* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy"}) {
        const char* value = std::getenv(name);
        if (value && *value) report.plain(std::string(name) + ": " + host_of(value));
    }
    show_environment(report, config);
    show_hooks(report, config);
    show_mcp_servers(report);
    check_bub(report, sources.bub);
    show_in_use(report, sources);
    check_sandbox(report, config);
    return sources;
}

std::string place_of(const Endpoint& endpoint) {
    return endpoint.provider + " (" + endpoint.host() + ")";
}

/// Returns false if the endpoint needs a key and has none.
bool check_key(const Report& report, const Endpoint& endpoint) {
    if (!endpoint.needs_key || !endpoint.api_key.empty()) return true;
    report.problem("there is no key for " + place_of(endpoint),
                   "export " + endpoint.key_variable +
                       "=..., or save one: cubepi onboard --provider " +
                       shell_word(endpoint.provider));
    return false;
}

/// Returns true if the endpoint answers.
Task<bool> check_endpoint(Report report, Endpoint endpoint,
                          std::shared_ptr<HttpTransport> transport) {
    const std::string place = place_of(endpoint);
    if (!check_key(report, endpoint)) co_return false;
    std::vector<OfferedModel> models;
    try {
        models = co_await list_models(std::move(transport), endpoint);
    } catch (const Error& error) {
        report.failure(error, failure_context(endpoint));
        co_return false;
    }
    report.good(place + " answers; it offers " + models_text(models));
    bool known = !endpoint.model_named;
    for (const OfferedModel& model : models) known = known || model.id == endpoint.model;
    if (!known) {
        report.problem("it does not list the configured model " + endpoint.model,
                       "List its models: cubepi models --provider " +
                           shell_word(endpoint.provider) + "; then set another in " +
                           config_path().string());
    }
    co_return true;
}

Task<bool> check_models(Report report, ModelSources sources, bool offline) {
    report.title("Models");
    try {
        (void)read_config(config_path());
    } catch (const Error&) {
        report.plain(
            "not contacted: no command uses a configuration file with an error, see above");
        co_return offline;
    }
    const std::shared_ptr<HttpTransport> transport = transport_of(*Runtime::standard());
    bool can_answer = false;
    std::vector<Endpoint> endpoints;
    try {
        endpoints = configured_endpoints(sources);
    } catch (const Error& error) {
        report.problem(error.what(), {});
    }
    if (offline) {
        for (const Endpoint& endpoint : endpoints) (void)check_key(report, endpoint);
        report.plain("not contacted (--offline)");
        co_return true;
    }
    if (endpoints.empty()) report.plain("no key and no address are configured");
    for (Endpoint& endpoint : endpoints) {
        const bool answers = co_await check_endpoint(report, std::move(endpoint), transport);
        can_answer = can_answer || answers;
    }
    const std::vector<LocalServer> servers = co_await find_local_servers(transport);
    for (const LocalServer& server : servers) {
        const std::string name = server.endpoint.title + " at " + server.endpoint.host();
        if (server.models.empty()) {
            report.problem(name + " answers, but has no model",
                           "Load one there, e.g.: ollama pull llama3.2");
            continue;
        }
        report.good(name + " offers " + models_text(server.models));
        can_answer = true;
    }
    if (servers.empty())
        report.plain("no server on this machine (Ollama, llama.cpp, vLLM, LM Studio)");
    if (!can_answer && !endpoints.empty()) {
        report.problem("no configured model is available",
                       "Fix the problems above, or choose another model: cubepi onboard; to look "
                       "around: cubepi chat --offline");
    } else if (!can_answer) {
        report.problem(
            "no model is available",
            "cubepi onboard; or export OPENAI_API_KEY=..., ANTHROPIC_API_KEY=... or "
            "GEMINI_API_KEY=..., or start a server here: ollama serve; to look around: cubepi chat "
            "--offline");
    }
    co_return can_answer;
}

/// Returns true if the configuration has a gateway with channels.
bool has_gateway() {
    try {
        return !gateway_settings(config_values(config_path()), TimeZones::ignored)
                    .configured.empty();
    } catch (const Error&) {
        // Reported with the gateway.
        return false;
    }
}

/// Checks that the database of the sessions is reachable and has the tables. Returns false if not.
Task<bool> check_session_database(Report report, TapeLocation place) {
    PostgresOptions options;
    options.connection = std::move(place.database);
    struct Tables {
        std::string name;
        std::optional<FormatVersion> found;
        int needed;
    };
    std::vector<Tables> all;
    try {
        report.plain(postgres_description(options) + source_text(place.by));
        std::vector<std::pair<const char*, const PostgresTables*>> sets;
        sets.emplace_back("sessions", &bub::postgres_tape_tables());
        if (has_gateway()) {
            sets.emplace_back("deliveries of the gateway", &bub::postgres_delivery_tables());
            sets.emplace_back("schedules", &bub::postgres_schedule_tables());
            sets.emplace_back("the use of the gateway", &bub::postgres_usage_tables());
        }
        for (const auto& [name, tables] : sets) {
            const std::optional<FormatVersion> found = co_await tables->status(options);
            all.push_back({name, found, tables->version()});
        }
    } catch (const Error& error) {
        report.failure(error, FailureContext());
        co_return false;
    }
    const std::string command = place.by == config_origin ? "" : " --tapes DATABASE";
    bool usable = true;
    for (const Tables& tables : all) {
        if (is_usable(tables.found, tables.needed)) continue;
        usable = false;
        const std::string text = "the tables of " + tables.name + " are ";
        if (!tables.found) {
            const bool is_empty = !all.front().found;
            report.problem(text + "missing",
                           (is_empty ? "cubepi db init" : "cubepi db migrate") + command);
        } else if (!tables.found->is_refused_by(tables.needed)) {
            report.problem(text + "of version " + std::to_string(tables.found->version),
                           "cubepi db migrate" + command);
        } else {
            report.problem(text + refusal_text(*tables.found, tables.needed), "Update the program");
        }
    }
    co_return usable;
}

Task<void> check_sessions(Report report, bool offline) {
    report.title("Sessions");
    TapeLocation place;
    try {
        place = tape_location();
    } catch (const Error&) {
        co_return;  // reported with the configuration
    }
    if (!place.is_files() && offline) {
        report.plain("in a database, which was not contacted (--offline)");
        co_return;
    }
    bool are_usable = true;
    for (const std::string& url : place.urls()) {
        TapeLocation one;
        one.database = url;
        one.by = place.by;
        const bool usable = co_await check_session_database(report, std::move(one));
        are_usable = are_usable && usable;
    }
    if (!are_usable) co_return;
    SavedSessions saved = SavedSessions::here();
    const std::string tapes = saved.tapes()->location();
    try {
        const std::vector<SavedSession> all = co_await saved.on_tapes(SessionsOf::program);
        const auto here = std::count_if(all.begin(), all.end(),
                                        [prefix = saved.tape_prefix()](const SavedSession& one) {
                                            return one.tape.starts_with(prefix);
                                        });
        if (all.empty()) {
            report.plain("no saved sessions (" + tapes + ")");
        } else {
            report.good(tapes + ": " + count_text(all.size(), "session") + ", " +
                        std::to_string(here) + " of this directory");
        }
    } catch (const Error& error) {
        report.failure(error, FailureContext());
    }
    try {
        const std::vector<SavedSession> older = co_await saved.in_database();
        if (!older.empty()) {
            report.good(saved.database().string() + ": " + count_text(older.size(), "session") +
                        " of an older version; copied to a tape when used");
        }
    } catch (const Error& error) {
        report.failure(error, FailureContext());
    }
}

/// Shows whether the directory is trusted, and names what in it cannot be loaded.
void check_project(const Report& report) {
    TrustSettings trust;
    try {
        trust.paths = read_config(config_path()).trust;
    } catch (const Error&) {
        // Reported with the configuration.
    }
    const std::filesystem::path directory = std::filesystem::current_path();
    const Project project = find_project(directory, trust);
    const bub::LoadedFiles refused = bub::look_at_project_files(
        directory, true, {}, bub::InstructionScope::user, project.is_trusted);
    const bub::LoadedFiles all =
        bub::look_at_project_files(directory, true, {}, bub::InstructionScope::user, true);
    report.title("Project");
    report.plain(project.root.string() + (project.is_trusted ? ": trusted" : ": not trusted"));
    if (!refused.summary.empty()) report.plain(refused.summary);
    if (std::string note = untrusted_note(project, refused); !note.empty()) report.plain(note);
    std::vector<std::string> problems = all.problems;
    const ProjectSettings settings = settings_of(project);
    problems.insert(problems.end(), settings.problems.begin(), settings.problems.end());
    for (std::string& warning : hook_warnings(settings.hooks))
        problems.push_back(std::move(warning));
    for (const std::string& problem : problems) report.problem(visible(problem), {});
}

/// `model`: the one that the configuration names, if any.
void check_gateway(const Report& report, const std::optional<Model>& model) {
    GatewaySettings settings;
    report.title("Gateway");
    try {
        settings = gateway_settings(config_values(config_path()));
    } catch (const Error& error) {
        const bool is_in_file = error.code() == ErrorCode::parse;
        report.problem(error.what(), is_in_file ? how_to_correct() : "");
        return;
    }
    for (const GatewayFinding& finding :
         gateway_findings(settings, gateway_environment(settings))) {
        switch (finding.kind) {
            case GatewayFinding::Kind::good: report.good(finding.text); break;
            case GatewayFinding::Kind::plain: report.plain(finding.text); break;
            case GatewayFinding::Kind::problem: report.problem(finding.text, finding.advice); break;
        }
    }
    try {
        if (model) check_price(settings, *model);
    } catch (const Error& error) {
        report.problem(error.what(), {});
    }
}

void check_terminal(const Report& report) {
    report.title("Terminal");
    const Style style = Style::of(STDOUT_FILENO);
    if (!style.terminal || isatty(STDIN_FILENO) != 1) {
        report.plain(
            "none: a call that needs approval is asked about later, with cubepi inbox, unless "
            "--yes or a rule allows it");
    } else {
        report.good(std::string(style.color ? "colors" : "no colors") + ", " +
                    std::to_string(style.columns) + " columns");
    }
    const char* term = std::getenv("TERM");
    report.plain(std::string("TERM: ") + (term ? term : "not set"));
    const std::string charset = nl_langinfo(CODESET);
    if (charset != "UTF-8")
        report.problem("the locale is not UTF-8 (" + charset + ")", "export LANG=C.UTF-8");
}

std::optional<std::filesystem::path> first_on_path(const std::string& name) {
    const char* value = std::getenv("PATH");
    std::string rest = value ? value : "";
    while (!rest.empty()) {
        const std::size_t end = rest.find(':');
        std::filesystem::path candidate = std::filesystem::path(rest.substr(0, end)) / name;
        if (access(candidate.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(candidate))
            return candidate;
        rest = end == std::string::npos ? std::string() : rest.substr(end + 1);
    }
    return std::nullopt;
}

void check_program(const Report& report) {
    report.title("Program");
    std::error_code failed;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
    report.good(std::string(version_text()) + ", " + self.string());
    const std::optional<std::filesystem::path> first = first_on_path("cubepi");
    if (!first) {
        report.plain("not on PATH; to run it by name: export PATH=" +
                     shell_word(self.parent_path().string()) + ":$PATH");
    } else if (!std::filesystem::equivalent(*first, self, failed)) {
        report.problem(
            "another cubepi comes first on PATH: " + first->string() +
                " (Python CubePi installs one too)",
            "export PATH=" + shell_word(self.parent_path().string()) + ":$PATH; hash -r");
    }
}

Task<int> examine(bool offline) {
    const Report report(Style::of(STDOUT_FILENO));
    check_program(report);
    ModelSources sources = check_settings(report);
    const std::optional<Model> model = configured_model(sources);
    const bool can_answer = co_await check_models(report, std::move(sources), offline);
    co_await check_sessions(report, offline);
    check_project(report);
    check_gateway(report, model);
    check_terminal(report);
    out() << "\n";
    co_return can_answer ? exit_ok : exit_no_model;
}

}  // namespace

int doctor_command(const CommandLine& line) {
    return run(examine(line.conversation.model.offline));
}

}  // namespace cubepi::app
