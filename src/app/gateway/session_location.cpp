#include "session_location.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include <bub/channel/divided_delivery_log.hpp>
#include <bub/channel/postgres_delivery_log.hpp>
#include <bub/envelope.hpp>
#include <bub/session_tape.hpp>
#include <bub/tape/divided_tape_store.hpp>
#include <bub/tape/support/encoding.hpp>
#include <bub/tape/turn_lease.hpp>
#include <bub/turn_state.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "../config/command_sandbox.hpp"
#include "../config/paths.hpp"
#include "../conversation/tool_approval.hpp"
#include "gateway_messages.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t longest_name = 60;

bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

Error no_workspace(const std::filesystem::path& path) {
    return Error(ErrorCode::storage, "cannot create " + path.string() +
                                         "; check gateway.root in the configuration file");
}

void make_directory(const std::filesystem::path& directory) {
    std::error_code failed;
    if (std::filesystem::is_directory(directory, failed)) return;
    std::filesystem::create_directories(directory.parent_path(), failed);
    if (!failed && ::mkdir(directory.c_str(), S_IRWXU) == 0) return;
    if (std::filesystem::is_directory(directory, failed)) return;  // another turn made it
    throw no_workspace(directory);
}

/// Returns the session that the directory of an earlier version belongs to; nothing: it is not recorded.
std::optional<std::string> recorded_owner(const std::filesystem::path& record) {
    if (!std::filesystem::exists(record)) return std::nullopt;
    std::ifstream file(record, std::ios::binary);
    if (!file) throw Error(ErrorCode::storage, "cannot read " + record.string());
    return std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Records the owner of a directory, unless it has one.
void record_owner(const std::filesystem::path& record, const std::string& session_id) {
    // Complete when it appears, also if the process is killed.
    const std::filesystem::path made = record.string() + "." + Runtime::standard()->ids->next();
    std::ofstream file(made, std::ios::binary);
    file << session_id;
    file.close();
    std::error_code failed;
    if (file) std::filesystem::create_hard_link(made, record, failed);
    std::filesystem::remove(made, failed);
}

struct SessionRouting {
    bub::Framework* framework;
    std::filesystem::path root;
    std::string name_space;
    bool is_shared = false;
    bool has_terminal_sessions = false;
    std::shared_ptr<bub::PostgresDeliveryLog> deliveries = {};  ///< null: in files, or divided
    std::shared_ptr<bub::DividedDeliveryLog> divided = {};      ///< null: not divided
};

Error mapped_elsewhere(const bub::DatabaseMap& map, const std::string& session,
                       std::size_t database) {
    return Error(ErrorCode::unsupported,
                 "the hook resolve_session maps a chat whose messages are in the database '" +
                     map.name(database) + "' to the session '" + session +
                     "', which is in the database '" + map.name(map.of_session(session)) +
                     "'. With several databases, a hook may only map a chat to a session of the "
                     "same database");
}

/// Lets a turn use the tapes of the database that has its messages (D258). Throws Error for a session of another database: two chats in
/// two databases could continue it at the same time.
Task<> use_database(SessionRouting place, bub::LoadStateCall& call) {
    // The sessions of a terminal are found by the names of their tapes.
    if (place.has_terminal_sessions || call.session_id.starts_with("temp/")) co_return;
    const std::shared_ptr<bub::TapeStore> store = co_await place.framework->tape_store();
    const auto divided = std::dynamic_pointer_cast<bub::DividedTapeStore>(store);
    if (!divided) co_return;
    auto tapes = std::make_shared<bub::TurnTapes>();
    std::size_t database = divided->map().of_session(call.session_id);
    if (place.divided && !call.message.receipts.empty()) {
        std::optional<bub::TurnLease> lease = place.divided->lease(call.message.receipts, database);
        if (database != divided->map().of_session(call.session_id))
            throw mapped_elsewhere(divided->map(), call.session_id, database);
        if (!lease)
            throw bub::SessionTakenError("the messages of the turn are not of this gateway");
        const auto leasable = std::dynamic_pointer_cast<bub::LeasableTapes>(divided->at(database));
        if (leasable) tapes->store = leasable->leased(std::move(*lease));
    }
    tapes->base = divided->at(database);
    call.state.offer(std::move(tapes));
}

/// Lets a turn use its tapes under the lease of its messages (D227): both are in the same database.
Task<> lease_tapes(SessionRouting place, bub::LoadStateCall& call) {
    const std::vector<std::string>& receipts = call.message.receipts;
    if (!place.deliveries) {
        co_await use_database(std::move(place), call);
        co_return;
    }
    if (receipts.empty()) co_return;
    const std::shared_ptr<bub::TapeStore> store = co_await place.framework->tape_store();
    const auto tapes = std::dynamic_pointer_cast<bub::LeasableTapes>(store);
    if (!tapes) co_return;
    std::optional<bub::TurnLease> lease = place.deliveries->lease(receipts);
    if (!lease) throw bub::SessionTakenError("the messages of the turn are not of this gateway");
    auto leased = std::make_shared<bub::TurnTapes>();
    leased->store = tapes->leased(std::move(*lease));
    call.state.offer(std::move(leased));
}

/// Returns whether the directory of an earlier version belongs to the session (D100). The record is next to the directory, where no
/// session works. Without a record, the session's tape of that version is the proof.
Task<bool> owns_earlier(SessionRouting place, SessionWorkspace workspace, std::string session_id) {
    std::error_code failed;
    if (!std::filesystem::is_directory(workspace.earlier, failed)) co_return false;
    const std::filesystem::path record = workspace.earlier.string() + ".session";
    std::optional<std::string> owner = recorded_owner(record);
    if (!owner) {
        bool is_own = workspace.is_unique;
        const std::shared_ptr<bub::TapeStore> all = co_await place.framework->tape_store();
        const std::shared_ptr<bub::TapeStore> store = tapes_of_session(all, session_id);
        if (!is_own && store) {
            std::string tape = bub::tape_name(workspace.earlier, session_id);
            const bub::TapePosition end = co_await store->position(std::move(tape));
            is_own = end.last_id > 0;
        }
        if (!is_own) co_return false;
        record_owner(record, session_id);
        owner = recorded_owner(record);
        if (!owner) throw no_workspace(record);
    }
    co_return *owner == session_id;
}

Task<std::optional<JsonObject>> locate_session(SessionRouting place, bub::LoadStateCall& call) {
    co_await lease_tapes(place, call);
    auto tapes = std::make_shared<bub::SessionTapes>();
    tapes->name_space = place.name_space;
    tapes->earlier_workspace = place.root;
    if (!place.is_shared) {
        SessionWorkspace workspace = session_workspace(place.root, call.session_id);
        tapes->earlier_workspace = workspace.earlier;
        const bool is_earlier = co_await owns_earlier(place, workspace, call.session_id);
        if (is_earlier) workspace.directory = workspace.earlier;
        make_directory(workspace.directory);
        // Now, not with the values that are merged later: the hooks after this one read the session's tape.
        call.state.values[bub::TurnState::workspace_key] = workspace.directory.string();
    }
    // The names of the tapes of a terminal are the default.
    if (!place.has_terminal_sessions) call.state.offer(std::move(tapes));
    co_return std::nullopt;
}

/// Passes a message of the web console to the running turn of its session, whatever channel the session has.
std::optional<bub::AdmitDecision> admit_steering(const bub::AdmitMessageCall& call) {
    std::optional<bub::AdmitDecision> decision;
    const bub::Envelope& message = call.message;
    const bool steers = call.turn.is_running && message.is_operator() &&
                        detail::flag_member(message.rest, ConsoleChannel::steer_key);
    if (steers) decision.emplace().action = bub::AdmitAction::steer;
    return decision;
}

Task<std::string> known_name(std::string name) { co_return name; }

}  // namespace

std::shared_ptr<bub::TapeStore> tapes_of_session(std::shared_ptr<bub::TapeStore> tapes,
                                                 const std::string& session_id) {
    const auto divided = std::dynamic_pointer_cast<bub::DividedTapeStore>(tapes);
    return divided ? divided->of_session(session_id) : std::move(tapes);
}

std::filesystem::path workspaces_root(const GatewaySettings& settings) {
    std::error_code failed;
    const std::filesystem::path root = settings.root.empty() ? gateway_root() : settings.root;
    std::filesystem::path made = std::filesystem::weakly_canonical(root, failed);
    return failed ? root : made;
}

Task<std::string> session_tape(std::shared_ptr<bub::TapeStore> tapes,
                               const GatewaySettings& settings, const std::filesystem::path& root,
                               std::string session_id) {
    // Not a coroutine: the references are those of the caller.
    if (settings.has_terminal_sessions) return known_name(tape_in(root, session_id));
    std::filesystem::path earlier =
        settings.shared_workspace ? root : session_workspace(root, session_id).earlier;
    return bub::find_session_tape(std::move(tapes), settings.tape_namespace, std::move(earlier),
                                  std::move(session_id));
}

SessionWorkspace session_workspace(const std::filesystem::path& root, std::string_view session_id) {
    std::string name(session_id.substr(0, longest_name));
    for (char& c : name) {
        if (!is_plain(c)) c = '-';
    }
    const std::string digest = cubepi::detail::sha256_hex(session_id);
    SessionWorkspace workspace;
    workspace.directory = root / (name + "-" + digest.substr(0, 32));
    workspace.earlier = root / (name + "-" + digest.substr(0, 8));
    // Another session with this name and the same 32 bits of the digest is found by chance or by search only if many bytes are
    // free.
    workspace.is_unique =
        session_id.size() <= longest_name && std::count(name.begin(), name.end(), '-') <= 2;
    return workspace;
}

bub::Plugin gateway_sessions(bub::Framework& framework, const GatewaySettings& settings,
                             const std::shared_ptr<bub::DeliveryLog>& deliveries) {
    const SessionRouting place{&framework,
                               framework.workspace(),
                               settings.tape_namespace,
                               settings.shared_workspace,
                               settings.has_terminal_sessions,
                               std::dynamic_pointer_cast<bub::PostgresDeliveryLog>(deliveries),
                               std::dynamic_pointer_cast<bub::DividedDeliveryLog>(deliveries)};
    bub::Plugin plugin;
    plugin.name = "gateway-sessions";
    plugin.load_state = [place](bub::LoadStateCall& call) { return locate_session(place, call); };
    plugin.admit_message = [](bub::AdmitMessageCall& call) { return admit_steering(call); };
    return plugin;
}

std::filesystem::path ServedDirectory::socket() const {
    return served_directory_files(path).string() + ".sock";
}

std::filesystem::path ServedDirectory::deliveries() const { return served_directory_files(path); }

Project ServedDirectory::project(const ConfigFile& config) const {
    return find_project(path, TrustSettings{config.trust, trusts_files});
}

GatewaySettings settings_for(const ServedDirectory& directory, GatewaySettings configured) {
    // The configured channels are not served, but commands must not see their secrets.
    configured.channels = {std::string(ConsoleChannel::channel_name)};
    configured.root = directory.path;
    configured.shared_workspace = true;
    configured.has_terminal_sessions = true;
    // Each thread would have connections to the MCP servers of its own.
    configured.threads = 1;
    configured.show_error_details = true;
    configured.question_timeout = std::chrono::seconds(0);
    configured.rules.clear();
    configured.approvers.clear();
    configured.console = ListenAddress{"127.0.0.1", directory.port};
    configured.status.reset();
    configured.listen.reset();
    configured.base_path.clear();
    configured.allowed_hosts.clear();
    configured.trusted_proxies.clear();
    return configured;
}

std::string tape_in(const std::filesystem::path& directory, std::string_view session_id) {
    return bub::tape_name(directory, session_id);
}

bool is_tape_in(const std::filesystem::path& directory, std::string_view tape) {
    // The first digest of a tape's name is that of the directory.
    const std::string any = tape_in(directory, "");
    return tape.starts_with(any.substr(0, any.find("__") + 2));
}

bub::TurnQuestions owner_policy(const ServedDirectory& directory, const ConfigFile& config,
                                const ProjectSettings& project,
                                const CommandConfinement& confinement,
                                std::vector<McpServerSettings> servers) {
    bub::SenderRules rules;
    rules.allow = ToolRules(directory.path.string());
    const ToolRules allowed = rules_of(config, project);
    for (const ApprovalRule& rule : allowed.rules()) rules.allow.allow(rule);
    if (config.memory) rules.allow.allow(ApprovalRule::parse("memory: *"));
    rules.allow.confine_commands(confinement);
    add_restrictions(rules.allow, config);
    add_restrictions(rules.allow, project);
    restrict_hidden(rules.allow, config.sandbox, {directory.path});
    const auto known = std::make_shared<const std::vector<McpServerSettings>>(std::move(servers));
    rules.definition = [known](const AgentTool& tool) {
        const std::optional<std::string> server = server_identity(*known, tool.name.str());
        return server ? mcp_tool_rule(tool, *server) : std::nullopt;
    };
    bub::TurnQuestions questions;
    questions.rules = [rules = std::move(rules)](const bub::Envelope&) { return rules; };
    // Operators may answer everything, and no other user writes.
    questions.may_answer = [](const bub::Envelope&, const HitlRequest&) { return false; };
    return questions;
}

}  // namespace cubepi::app
