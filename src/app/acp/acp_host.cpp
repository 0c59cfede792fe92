#include "acp_host.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>

#include "../config/paths.hpp"
#include "../config/tape_place.hpp"
#include "../conversation/session.hpp"
#include "../mcp/mcp_settings.hpp"
#include "../process.hpp"
#include "../saved_sessions.hpp"
#include "../session_list.hpp"
#include "acp_session.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t listed_at_once = 50;
constexpr std::size_t max_id = 200;

[[noreturn]] void refuse(const std::string& reason) {
    throw AcpError(acp_error::invalid_params, reason);
}

std::string server_name(std::string_view name) {
    std::string made;
    for (const char c : name.substr(0, 40)) {
        const bool is_allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                (c >= '0' && c <= '9') || c == '-' || c == '_';
        made += is_allowed ? c : '_';
    }
    return made;
}

JsonObject mapping(const std::vector<std::pair<std::string, std::string>>& pairs) {
    JsonObject made;
    for (const auto& [name, value] : pairs) made[name] = value;
    return made;
}

/// The servers of the editor in the form of the configuration, by whose rules they are checked.
std::vector<McpServerSettings> servers_of(const std::vector<AcpMcpServer>& servers) {
    JsonObject all;
    for (const AcpMcpServer& server : servers) {
        JsonObject one;
        if (server.url.empty()) {
            one["command"] = server.command;
            JsonArray arguments;
            for (const std::string& argument : server.arguments) arguments.emplace_back(argument);
            one["args"] = std::move(arguments);
            one["env"] = mapping(server.environment);
        } else {
            one["url"] = server.url;
            one["headers"] = mapping(server.headers);
        }
        all[server_name(server.name)] = std::move(one);
    }
    try {
        return mcp_settings(Json(std::move(all)));
    } catch (const Error& error) {
        refuse(error.what());
    }
}

std::string iso_time(double seconds) {
    const auto time = static_cast<std::time_t>(seconds);
    std::tm parts = {};
    if (seconds <= 0 || !::gmtime_r(&time, &parts)) return {};
    std::string text(32, '\0');
    text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
    return text;
}

class EditorHost final : public AcpHost {
public:
    EditorHost(ConversationFlags flags, int protocol)
        : flags_(std::move(flags)), protocol_(protocol) {}

    AcpAbilities abilities() const override {
        AcpAbilities abilities;
        abilities.name = "cubepi";
        abilities.title = "CubePi";
        abilities.version = version_text();
        abilities.images = true;
        abilities.opens = true;
        abilities.lists = true;
        abilities.takes_servers = true;
        abilities.more_directories = true;
        abilities.protocol = protocol_;
        return abilities;
    }

    Task<std::shared_ptr<AcpSession>> create(std::shared_ptr<AcpEditor> editor, std::string id,
                                             AcpSetup setup) override {
        const Entered entered(*this, setup.directory);
        SessionParts parts = parts_of(setup);
        SessionPlan plan = co_await plan_session(flags_for(setup), std::move(parts));
        if (plan.create) {
            const auto saved = std::make_shared<SavedSessions>(SavedSessions::here());
            plan.create = [saved, id](std::string) { return saved->create_named(id, true); };
        }
        co_return co_await made(std::move(plan), std::move(editor), std::move(id));
    }

    Task<std::shared_ptr<AcpSession>> open(std::shared_ptr<AcpEditor> editor, std::string id,
                                           AcpSetup setup) override {
        if (id.size() > max_id) throw_missing();
        const Entered entered(*this, setup.directory);
        SavedSessions saved = SavedSessions::here();
        const std::vector<SavedSession> here = co_await saved.on_tapes_here();
        if (std::ranges::find(here, id, &SavedSession::name) == here.end()) throw_missing();
        ConversationFlags flags = flags_for(setup);
        flags.session = id;
        SessionParts parts = parts_of(setup);
        SessionPlan plan = co_await plan_session(std::move(flags), std::move(parts));
        co_return co_await made(std::move(plan), std::move(editor), std::move(id));
    }

    /// Lists the sessions of one directory: only there are names unique.
    Task<AcpSessionList> list(std::string directory, std::string cursor) override {
        if (directory.empty()) directory = std::filesystem::current_path().string();
        std::size_t first = 0;
        const char* const end = cursor.data() + cursor.size();
        const auto parsed = std::from_chars(cursor.data(), end, first);
        if (!cursor.empty() && (parsed.ec != std::errc() || parsed.ptr != end))
            refuse("`cursor` is not one of a list of sessions");
        SavedSessions saved(configured_tapes(), sessions_path(), canonical(directory));
        std::vector<ListedSession> all = co_await list_sessions(saved);
        std::erase_if(all,
                      [](const ListedSession& one) { return !one.is_here || one.tape.empty(); });
        AcpSessionList list;
        for (std::size_t i = first; i < all.size() && i - first < listed_at_once; ++i) {
            const ListedSession one = co_await load_facts(saved.tapes(), std::move(all[i]));
            if (one.name.empty()) continue;
            AcpListedSession listed;
            listed.id = one.name;
            listed.directory = directory;
            listed.title = one.heading();
            listed.updated_at = iso_time(one.used_at);
            list.sessions.push_back(std::move(listed));
        }
        if (all.size() > first && all.size() - first > listed_at_once)
            list.next_cursor = std::to_string(first + listed_at_once);
        co_return list;
    }

private:
    [[noreturn]] static void throw_missing() {
        throw AcpError(acp_error::not_found, "there is no session with this id in this directory");
    }

    static std::filesystem::path canonical(const std::string& directory) {
        std::error_code failed;
        std::filesystem::path path = std::filesystem::canonical(directory, failed);
        if (failed || !std::filesystem::is_directory(path, failed))
            refuse("`cwd` is not a directory that can be used: " + directory);
        return path;
    }

    /// Changes to the directory of a session. The process has one: a session elsewhere needs that no other one is open.
    void enter(const std::string& directory) {
        const std::filesystem::path path = canonical(directory);
        std::erase_if(open_, [](const auto& session) { return session.expired(); });
        if (path == std::filesystem::current_path()) return;
        if (!open_.empty() || opening_ > 0) {
            refuse("this process works in " + std::filesystem::current_path().string() +
                   "; close its sessions, or start another cubepi acp for " + path.string());
        }
        std::error_code failed;
        std::filesystem::current_path(path, failed);
        if (failed) refuse("`cwd` cannot be entered: " + failed.message());
    }

    /// The directory does not change while a session is made.
    class Entered {
    public:
        Entered(EditorHost& host, const std::string& directory) : host_(host) {
            host_.enter(directory);
            ++host_.opening_;
        }
        ~Entered() { --host_.opening_; }
        Entered(const Entered&) = delete;
        Entered& operator=(const Entered&) = delete;

    private:
        EditorHost& host_;
    };

    ConversationFlags flags_for(const AcpSetup& setup) const {
        ConversationFlags flags = flags_;
        flags.more_directories = setup.more_directories;
        return flags;
    }

    static SessionParts parts_of(const AcpSetup& setup) {
        SessionParts parts;
        parts.channel = std::make_shared<InMemoryChannel>();
        parts.more_servers = servers_of(setup.servers);
        return parts;
    }

    Task<std::shared_ptr<AcpSession>> made(SessionPlan plan, std::shared_ptr<AcpEditor> editor,
                                           std::string id) {
        plan.waits_for_tasks = true;
        plan.background_channel = std::make_shared<InMemoryChannel>();
        Executor executor = co_await this_executor;
        auto session = std::make_shared<EditorSession>(std::move(plan), std::move(editor),
                                                       std::move(id), std::move(executor));
        open_.push_back(session);
        co_return session;
    }

    const ConversationFlags flags_;
    const int protocol_;
    std::vector<std::weak_ptr<AcpSession>> open_;
    std::size_t opening_ = 0;
};

}  // namespace

std::shared_ptr<AcpHost> editor_host(ConversationFlags flags, int protocol) {
    return std::make_shared<EditorHost>(std::move(flags), protocol);
}

}  // namespace cubepi::app
