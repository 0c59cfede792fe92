#include "gateway_command.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/provider/cost.hpp>

#include "../channels/channel_kinds.hpp"
#include "../config/config_file.hpp"
#include "../config/gateway_settings.hpp"
#include "../config/paths.hpp"
#include "../failure.hpp"
#include "../process.hpp"
#include "../program.hpp"
#include "../project/trust.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"
#include "../terminal/text_table.hpp"
#include "control_server.hpp"
#include "gateway.hpp"
#include "gateway_api.hpp"
#include "session_location.hpp"

namespace cubepi::app {

namespace {

constexpr const char* unit_name = "cubepi-gateway.service";

std::filesystem::path unit_path() {
    // $XDG_CONFIG_HOME/systemd/user
    return config_path().parent_path().parent_path() / "systemd" / "user" / unit_name;
}

std::filesystem::path this_program() {
    std::error_code failed;
    std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
    if (failed) throw Error(ErrorCode::io, "cannot determine the path of this program");
    return program;
}

/// In a unit, '%' begins a specifier, and '$' a variable in the command.
std::string escaped(const std::string& text, bool in_command) {
    std::string result;
    for (const char c : text) {
        if (c == '%') result += '%';
        if (c == '$' && in_command) result += '$';
        if (c == '"' || c == '\\') result += '\\';
        result += c;
    }
    return result;
}

/// A word of a command.
std::string quoted(const std::string& text) { return '"' + escaped(text, true) + '"'; }

[[noreturn]] void cannot_write(const std::filesystem::path& path) {
    throw Error(ErrorCode::io, "cannot write " + path.string() + ": " + detail::errno_text(errno));
}

void write_file(const std::filesystem::path& path, const std::string& text) {
    std::error_code failed;
    std::filesystem::create_directories(path.parent_path(), failed);
    const detail::UniqueFd file =
        detail::open_file(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (!file || !detail::write_all(file.get(), text)) cannot_write(path);
}

/// Creates the file for keys and tokens, which only this user can read.
void make_environment_file(const std::filesystem::path& path) {
    std::error_code failed;
    std::filesystem::create_directories(path.parent_path(), failed);
    const detail::UniqueFd file =
        detail::open_file(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!file && errno == EEXIST) return;
    std::string text =
        "# Variables of the gateway's service, one per line: keys of models, tokens of channels.\n"
        "# OPENAI_API_KEY=...\n";
    for (const ChannelKind* kind : channel_kinds()) {
        for (const ChannelKey& key : kind->keys) {
            if (key.type == KeyType::variable)
                text += "# " + std::string(key.default_value) + "=...\n";
        }
    }
    if (!file || !detail::write_all(file.get(), text)) cannot_write(path);
}

using detail::text_member;
using What = GatewayArguments::What;

ServedDirectory served_directory(const CommandLine& line) {
    ServedDirectory directory;
    directory.path = std::filesystem::canonical(std::filesystem::current_path());
    directory.port = line.gateway.port;
    directory.trusts_files = line.conversation.trust;
    directory.viewer = line.gateway.viewer;
    directory.user = line.gateway.name.empty() ? local_user() : line.gateway.name;
    return directory;
}

/// Says which files of the directory are not loaded: the command asks nothing.
Task<> note_project(TrustSettings trust) {
    const std::shared_ptr<Prompter> no_prompter;
    const OpenedProject opened = co_await open_project(std::move(trust), no_prompter);
    const ProjectSettings settings = settings_of(opened.project);
    for (const auto* texts : {&opened.notes, &opened.warnings, &settings.problems})
        for (const std::string& text : *texts) err() << for_terminal(text) << "\n";
}

Task<int> serve_directory(CommandLine line, ServedDirectory directory) {
    allow_many_files();
    const ConfigFile config = read_config(config_path());
    TrustSettings trust{config.trust, directory.trusts_files};
    co_await note_project(std::move(trust));
    Gateway gateway(co_await this_executor, std::move(line), std::move(directory));
    Task<int> running = gateway.run();
    co_return co_await std::move(running);
}

int print_another_link(const ServedDirectory& directory, const CommandLine& line) {
    err() << "Another cubepi web serves " << for_terminal(directory.path.string())
          << "; this is a link to it.\n";
    return print_console_link(directory.socket(), line.gateway);
}

}  // namespace

void allow_many_files() {
    constexpr rlim_t enough = 65'536;
    struct rlimit files = {};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= enough) return;
    files.rlim_cur = std::min(files.rlim_max, enough);
    (void)::setrlimit(RLIMIT_NOFILE, &files);
}

namespace {

Task<int> serve(CommandLine line) {
    allow_many_files();
    Gateway gateway(co_await this_executor, std::move(line));
    Task<int> running = gateway.run();
    co_return co_await std::move(running);
}

JsonObject call(std::string_view command, const std::string& id = {}) {
    JsonObject request{{"command", command}};
    if (!id.empty()) request["id"] = id;
    return call_gateway(gateway_socket(), request);
}

/// Calls an operation whose answer is a list of the same name, and returns all of its pages as one.
JsonObject call_all(std::string_view command) {
    JsonObject all = call(command);
    for (std::string next = text_member(all, "next"); !next.empty();) {
        const JsonObject request{{"command", command}, {"after", next}};
        const JsonObject page = call_gateway(gateway_socket(), request);
        for (const Json& one : page.at(command).as_array()) all[command].as_array().push_back(one);
        next = text_member(page, "next");
    }
    all.erase("next");
    return all;
}

JsonObject call_usage(const std::string& search) {
    constexpr int most = 200;
    const JsonObject request{{"command", "usage"}, {"limit", most}, {"search", search}};
    return call_gateway(gateway_socket(), request);
}

/// "1 turn", "2 turns".
std::string count_of(std::size_t count, const std::string& what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string list_of(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return list.empty() ? "none" : list;
}

void print_line(const char* name, const std::string& value) {
    std::string label = std::string(name) + ":";
    label.resize(12, ' ');
    out() << for_terminal(label) << for_terminal(value) << "\n";
}

/// Names the gateways that did not answer, so that a list is not taken for complete.
void warn_unanswered(const std::optional<std::vector<std::string>>& names) {
    if (!names) return;
    err() << "Without those of gateways that did not answer: " << for_terminal(list_of(*names))
          << ". To see them: cubepi gateway status\n";
}

/// Names the databases that could not be read, for the same reason.
void warn_unread(const std::optional<std::vector<std::string>>& databases) {
    if (!databases) return;
    err() << (databases->size() == 1 ? TerminalView("Without the database ")
                                     : TerminalView("Without the databases "))
          << for_terminal(list_of(*databases))
          << ", which cannot be read at the moment. More: cubepi gateway status\n";
}

void print_gateway(const ClusterGateway& one) {
    const std::string work = count_of(one.running_turns, "turn") + ", " +
                             count_of(one.waiting_messages, "message") + " waiting, " +
                             std::to_string(one.held) + " held";
    out() << "  " << for_terminal(one.id) << "\t" << for_terminal(one.host) << "\t"
          << for_terminal(one.state) << "\t" << for_terminal(one.version) << "\tsince "
          << for_terminal(one.started > 0 ? local_time(one.started) : "-") << "\tconfiguration "
          << for_terminal(one.configuration.empty() ? "-" : one.configuration) << "\t"
          << for_terminal(work) << (one.here ? TerminalView("\t(this one)") : TerminalView(""));
    if (one.problem) out() << "\tproblem: " << for_terminal(*one.problem);
    out() << "\n";
}

void print_gateways(const GatewayStatus& status) {
    if (!status.gateways || status.gateways->size() < 2) return;
    out() << "\nGateways that share the messages:\n";
    for (const ClusterGateway& one : *status.gateways) print_gateway(one);
    if (status.configurations_differ.value_or(false))
        out() << "Their configuration files differ.\n";
}

/// "3 of 100".
std::string used_of(const std::string& used, const std::optional<std::string>& most) {
    return most ? used + " of " + *most : used;
}

std::optional<std::string> count_text(const std::optional<std::int64_t>& count) {
    return count ? std::optional(std::to_string(*count)) : std::nullopt;
}

void print_usage(const GatewayUsage& usage) {
    out() << "Used on " << for_terminal(usage.day) << ", until "
          << for_terminal(local_time(usage.ends)) << ":\n";
    for (const GatewayUse& one : usage.used) {
        std::optional<std::string> most_cost;
        if (one.most_cost) most_cost = money_text(*one.most_cost);
        out() << "  " << for_terminal(one.counter) << "\t"
              << for_terminal(used_of(std::to_string(one.messages), count_text(one.most_messages)) +
                              " messages\t" +
                              used_of(std::to_string(one.tokens), count_text(one.most_tokens)) +
                              " tokens\t" + used_of(money_text(one.cost), most_cost))
              << "\n";
    }
    if (usage.used.empty()) out() << "  nothing\n";
    if (usage.has_more) out() << "  and others; to search for one: cubepi gateway usage TEXT\n";
}

void print_status(const GatewayStatus& status) {
    print_line("State", status.state);
    if (status.problem) print_line("Problem", *status.problem);
    print_line("Process", std::to_string(status.pid));
    print_line("Version", status.version);
    print_line("Started", local_time(status.started));
    print_line("Model", status.model);
    print_line("Channels", list_of(status.channels));
    print_line("Workspaces", status.workspaces);
    print_line("Turns", count_of(status.running_turns, "turn") + " running, " +
                            count_of(status.waiting_messages, "message") + " waiting");
    print_line("Held", status.held == 0
                           ? "nothing"
                           : count_of(status.held, "message") + "; see them: cubepi gateway held");
    if (status.usage) {
        out() << "\n";
        print_usage(*status.usage);
    }
    print_gateways(status);
}

/// The column of what another gateway has.
std::string place_of(const std::optional<std::string>& gateway) {
    return gateway ? "\tat " + *gateway : std::string();
}

void print_sessions(const BusySessions& busy) {
    if (busy.sessions.empty()) err() << "No session has a running turn or waiting messages.\n";
    for (const BusySession& one : busy.sessions)
        out() << for_terminal(one.session) << "\t"
              << (one.running ? TerminalView("running") : TerminalView("waiting")) << "\t"
              << for_terminal(count_of(one.waiting, "message") + " waiting" + place_of(one.gateway))
              << "\n";
    warn_unanswered(busy.unanswered);
}

void print_held(const std::vector<HeldMessage>& list, TerminalView kind) {
    for (const HeldMessage& one : list)
        out() << for_terminal(one.id) << "\t" << kind << "\t" << for_terminal(local_time(one.date))
              << "\t" << for_terminal(one.channel) << " " << for_terminal(one.chat) << "\t"
              << for_terminal(one.text) << for_terminal(place_of(one.gateway)) << "\n";
}

void print_held(const HeldList& held) {
    if (held.messages.empty() && held.answers.empty()) err() << "Nothing is held.\n";
    print_held(held.messages, "message");
    print_held(held.answers, "answer");
    warn_unanswered(held.unanswered);
    warn_unread(held.unread_databases);
}

void print_logins(const ConsoleLogins& all) {
    if (all.logins.empty()) err() << "No browser is logged in to the web console.\n";
    for (const ConsoleLogin& one : all.logins)
        out() << for_terminal(one.id) << "\t" << for_terminal(one.role) << "\t"
              << for_terminal(one.name) << "\tsince " << for_terminal(local_time(one.since)) << "\t"
              << for_terminal(one.used ? "used " + local_time(*one.used) : "link, not opened")
              << "\n";
}

int print(const JsonObject& answer, const GatewayArguments& arguments) {
    if (arguments.json) {
        data_output(safe_json(answer) + "\n");
        return exit_ok;
    }
    switch (arguments.what) {
        case What::status: print_status(read_answer<GatewayStatus>(answer)); break;
        case What::usage: print_usage(read_answer<GatewayUsage>(answer)); break;
        case What::sessions: print_sessions(read_answer<BusySessions>(answer)); break;
        case What::held: print_held(read_answer<HeldList>(answer)); break;
        case What::logins: print_logins(read_answer<ConsoleLogins>(answer)); break;
        default: break;
    }
    return exit_ok;
}

/// Columns with tabs between them; at a terminal a table.
void print_questions(const std::vector<GatewayQuestion>& questions) {
    const Style style = Style::of(STDOUT_FILENO);
    const auto columns = static_cast<std::size_t>(style.columns);
    TextTable table;
    table.columns = {{"id"}, {"asked", false, 1}, {"session"}, {"user", false, 2}, {"question"}};
    for (const GatewayQuestion& question : questions) {
        const Json* const created = question.request.if_contains("created_at");
        const double time = created && created->is_number() ? created->to_number<double>() : 0;
        const std::string session = text_member(question.asker, "session");
        std::string user = text_member(question.asker, "user");
        if (user.empty()) user = "-";
        std::string summary = question.summary;
        std::replace(summary.begin(), summary.end(), '\n', ' ');
        if (!style.terminal) {
            out() << for_terminal(question.id) << "\t" << for_terminal(local_time(time)) << "\t"
                  << for_terminal(session) << "\t" << for_terminal(user) << "\t"
                  << for_terminal(summary) << "\n";
            continue;
        }
        table.rows.push_back({for_terminal(question.id),
                              for_terminal(short_local_time(time, columns)),
                              line_for_terminal(session, columns / 4),
                              line_for_terminal(user, columns / 8), spelled_out(summary)});
    }
    out() << table.text(style);
}

int list_questions(const InboxArguments& arguments, bool json) {
    const JsonObject answer = call_all("questions");
    const auto open = read_answer<GatewayQuestions>(answer);
    if (json) {
        data_output(safe_json(answer.at("questions")) + "\n");
        warn_unread(open.unread_databases);
        return exit_ok;
    }
    std::vector<GatewayQuestion> shown = open.questions;
    std::erase_if(shown, [&arguments](const GatewayQuestion& one) {
        return !one.id.starts_with(arguments.question) ||
               (!arguments.session.empty() &&
                arguments.session != text_member(one.asker, "session"));
    });
    print_questions(shown);
    if (shown.empty()) err() << "No question of the gateway waits for an answer.\n";
    warn_unread(open.unread_databases);
    return exit_ok;
}

const char* action_of(InboxArguments::What what) {
    using What = InboxArguments::What;
    switch (what) {
        case What::approve: return "approve";
        case What::deny: return "deny";
        case What::cancel: return "cancel";
        default: return "answer";
    }
}

}  // namespace

int print_console_link(const std::filesystem::path& socket, const GatewayArguments& arguments) {
    const JsonObject request{{"command", "console"},
                             {"viewer", arguments.viewer},
                             {"name", arguments.name.empty() ? local_user() : arguments.name}};
    const auto link = read_answer<ConsoleLink>(call_gateway(socket, request));
    out() << for_terminal(link.url) << "\n" << flush_now;
    err() << "The link logs in once, within " << for_terminal(std::to_string(link.seconds / 60))
          << " minutes.\n";
    return exit_ok;
}

namespace {

int change(const GatewayArguments& arguments) {
    switch (arguments.what) {
        case What::release:
            (void)call("release", arguments.id);
            err() << "Released " << for_terminal(arguments.id) << ".\n";
            break;
        case What::discard:
            (void)call("discard", arguments.id);
            err() << "Discarded " << for_terminal(arguments.id) << ".\n";
            break;
        case What::stop:
            (void)call("stop", arguments.id);
            err() << "Stopped the turn of " << for_terminal(arguments.id) << ".\n";
            break;
        case What::logout:
            (void)call("logout", arguments.id);
            err() << "Ended the login " << for_terminal(arguments.id) << ".\n";
            break;
        case What::reload:
            (void)call("reload");
            err() << "The gateway uses the new configuration.\n";
            break;
        default:
            (void)call_gateway(gateway_socket(), JsonObject{{"command", "drain"},
                                                            {"gateway", arguments.id},
                                                            {"all", arguments.all}});
            err() << (arguments.all ? TerminalView("The gateways end when their running turns have "
                                                   "ended.\n")
                                    : TerminalView("The gateway ends when its running turns have "
                                                   "ended.\n"));
            break;
    }
    return exit_ok;
}

}  // namespace

std::filesystem::path gateway_environment_path() {
    return config_path().parent_path() / "gateway.env";
}

std::string gateway_unit(const UnitOptions& options) {
    std::string command = quoted(options.program.string()) + " gateway";
    for (const std::string& channel : options.channels)
        command += " --enable-channel " + quoted(channel);
    const auto stop_timeout = options.drain_timeout + time_after_drain;
    return "[Unit]\n"
           "Description=CubePi gateway\n"
           "\n"
           "[Service]\n"
           "Type=notify\n"
           "ExecStart=" +
           command +
           "\n"
           "ExecReload=/bin/kill -HUP $MAINPID\n"
           "EnvironmentFile=-" +
           escaped(options.environment.string(), false) +
           "\n"
           "Environment=CUBEPI_LOG=info\n"
           "WatchdogSec=60\n"
           "Restart=on-failure\n"
           "RestartSec=5\n"
           "TimeoutStopSec=" +
           std::to_string(stop_timeout.count()) +
           "\n"
           "LimitCORE=0\n"
           "NoNewPrivileges=yes\n"
           "PrivateTmp=yes\n"
           "ProtectSystem=full\n"
           "LockPersonality=yes\n"
           "RestrictRealtime=yes\n"
           "RestrictSUIDSGID=yes\n"
           "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK\n"
           "SystemCallArchitectures=native\n"
           "SystemCallFilter=~@clock @cpu-emulation @module @obsolete @raw-io @reboot @swap\n"
           "UMask=0077\n"
           "\n"
           "[Install]\n"
           "WantedBy=default.target\n";
}

int install_unit(std::vector<std::string> channels) {
    const std::filesystem::path unit = unit_path();
    UnitOptions options;
    options.program = this_program();
    options.channels = std::move(channels);
    options.environment = gateway_environment_path();
    options.drain_timeout =
        gateway_settings(config_values(config_path()), TimeZones::ignored).drain_timeout;
    make_environment_file(options.environment);
    write_file(unit, gateway_unit(options));
    out() << "Wrote " << for_terminal(unit.string()) << "\n\n"
          << "Keys and tokens for the service: " << for_terminal(options.environment.string())
          << "\n"
          << "To start it now and at every login:\n"
          << "  systemctl --user daemon-reload\n"
          << "  systemctl --user enable --now cubepi-gateway\n"
          << "To keep it running while you are logged out:\n"
          << "  loginctl enable-linger\n"
          << "Its log:\n"
          << "  journalctl --user -u cubepi-gateway -f\n";
    return exit_ok;
}

int uninstall_unit() {
    const std::filesystem::path unit = unit_path();
    if (::unlink(unit.c_str()) != 0 && errno != ENOENT) {
        throw Error(ErrorCode::io,
                    "cannot remove " + unit.string() + ": " + detail::errno_text(errno));
    }
    out() << "Removed " << for_terminal(unit.string()) << "\n"
          << "To end the running service:\n"
          << "  systemctl --user disable --now cubepi-gateway\n"
          << "  systemctl --user daemon-reload\n";
    return exit_ok;
}

int gateway_inbox(const CommandLine& line) {
    const InboxArguments& inbox = line.inbox;
    if (inbox.what == InboxArguments::What::list || inbox.what == InboxArguments::What::show)
        return list_questions(inbox, line.conversation.json);
    const JsonObject request{{"command", "answer"},
                             {"question", inbox.question},
                             {"action", action_of(inbox.what)},
                             {"text", inbox.value}};
    const JsonObject answered = call_gateway(gateway_socket(), request);
    err() << "The gateway continues the session " << for_terminal(text_member(answered, "session"))
          << "; its chat receives the answer.\n";
    return exit_ok;
}

int gateway_command(const CommandLine& line) {
    switch (line.gateway.what) {
        case What::run: return run(serve(line));
        case What::status: return print(call("status"), line.gateway);
        case What::usage: return print(call_usage(line.gateway.search), line.gateway);
        case What::sessions: return print(call_all("sessions"), line.gateway);
        case What::held: return print(call("held"), line.gateway);
        case What::release:
        case What::discard:
        case What::stop:
        case What::logout:
        case What::reload:
        case What::drain: return change(line.gateway);
        case What::logins: return print(call("logins"), line.gateway);
        case What::console: return print_console_link(gateway_socket(), line.gateway);
        case What::import_files: return import_command();
        case What::install: return install_unit(line.gateway.channels);
        case What::uninstall: return uninstall_unit();
    }
    return exit_usage;
}

// `cubepi web`: a gateway for the user of one directory.

int web_command(const CommandLine& line) {
    const ServedDirectory directory = served_directory(line);
    if (has_listener(directory.socket())) return print_another_link(directory, line);
    try {
        return run(serve_directory(line, directory));
    } catch (const Error& error) {
        // Another one has started meanwhile.
        const bool is_late =
            error.code() == ErrorCode::busy || error.code() == ErrorCode::storage_locked;
        if (!is_late || !has_listener(directory.socket())) throw;
    }
    return print_another_link(directory, line);
}

}  // namespace cubepi::app
