#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/client.hpp>
#include <cubepi/mcp/credentials.hpp>
#include <cubepi/mcp/oauth_session.hpp>
#include <cubepi/process/environment.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi::app {

inline constexpr std::chrono::seconds default_header_max_age(300);

/// A server of the key `mcp` of the configuration file, in the shape that other clients use:
///
///     mcp:
///       git: {command: uvx, args: [mcp-server-git], env: {LOG: "1"}, cwd: ~/project}
///       issues: {url: "https://mcp.example.com/mcp", headers: {Authorization: "Bearer ${ISSUES_TOKEN}"}}
///       wiki: {url: "https://wiki.example.com/mcp", oauth: {client_id: cubepi, issuer: "https://login.example.com"}}
///       team: {url: "https://team.example.com/mcp", header_commands: {Authorization: "team-token --bearer"}, header_max_age: 600}
///       old: {command: old-server, disabled: true, sampling: ask, roots: false}
///
/// `${NAME}` in values of `env`, `headers` and `oauth` is a variable of this process.
struct McpServerSettings {
    std::string name = {};
    std::string command = {};  ///< empty: a server at `url`
    std::vector<std::string> args = {};
    std::map<std::string, std::string> env = {};
    std::string cwd = {};
    std::string url = {};
    std::map<std::string, std::string> headers = {};
    /// Commands of the shell that print the values of headers, by the names of the headers (D202). Not for servers of a project.
    std::map<std::string, std::string> header_commands = {};
    /// After this time, and after a refusal (401), the commands run again.
    std::chrono::seconds header_max_age = default_header_max_age;
    /// By name: client_id, client_secret, private_key (a PEM file), issuer, scope, grant ("client_credentials"), client_metadata,
    /// redirect_uri.
    std::map<std::string, std::string> oauth = {};
    bool disabled = false;
    /// `sampling: ask`: it may have a model answer, and each time the user is asked; `off` by default. Not for servers of a project.
    bool sampling = false;
    bool roots = true;  ///< it is told in which directories the user works
    /// The `.mcp.json` that names it; empty: the configuration of the user.
    std::string project_file = {};

    /// The command or the URL, for display; never a variable or a header.
    std::string address() const;
    /// All of it that decides which server this is, as written.
    std::string identity() const;
};

/// Reads the value of the key `mcp`. Throws Error(parse) that names server and key. Null: no servers.
std::vector<McpServerSettings> mcp_settings(const Json& value);
/// Reads them from the configuration file.
std::vector<McpServerSettings> configured_mcp_servers(const std::filesystem::path& path);

/// Returns the session for logins at the server, whose tokens are in the file of its name. Null if the server is a program, has a
/// configured token, or a URL by which no login is possible. `ui`: null if no user can log in now. Throws Error(invalid_argument).
std::shared_ptr<McpOAuthSession> mcp_session(const McpServerSettings& server,
                                             std::shared_ptr<McpLoginUi> ui,
                                             const EnvironmentPolicy& environment,
                                             std::shared_ptr<const Runtime> runtime);

/// The servers of an `.mcp.json`, the file in which other clients look for the servers of a project, too.
struct ProjectMcpServers {
    std::vector<McpServerSettings> servers = {};
    std::vector<std::string> problems = {};  ///< why others are left out
};

/// Reads the text of the file at `path`: {"mcpServers": {"NAME": {"command": ...}}}. Relative commands and a missing `cwd` mean the
/// directory of the file. Unknown keys are those of other clients.
ProjectMcpServers project_mcp_servers(const std::filesystem::path& path, const std::string& text);
/// Returns the identity of the server to which a tool belongs; nothing for other tools.
std::optional<std::string> server_identity(const std::vector<McpServerSettings>& servers,
                                           const std::string& tool);
/// Returns all servers: of a repeated name, that of the user.
std::vector<McpServerSettings> with_project_servers(std::vector<McpServerSettings> of_user,
                                                    std::vector<McpServerSettings> of_project);

/// For a process that outlives its runs. Users of a gateway answer hours later; a connection that waits for longer is not worth its
/// server's memory.
inline constexpr std::chrono::hours mcp_suspended_call_time(24);

/// The parts of a conversation that its servers may use, each as its settings say.
struct McpHost {
    std::function<BoundModel()> model =
        {};  ///< of the conversation; empty: servers get no answers of models
    std::vector<std::filesystem::path> roots = {};  ///< the directories of the conversation
    /// How long calls of servers with sessions wait for later runs (McpClientOptions); zero for a process that ends with its run.
    std::chrono::nanoseconds suspended_call_time = std::chrono::nanoseconds::zero();
};

/// Returns a client of the server. `environment` is the policy of commands, of which the hidden variables are hidden from servers
/// too; a server of a project cannot name one of them. Throws Error(invalid_argument) for a URL that is invalid, or a variable that is
/// not set.
std::shared_ptr<McpClient> mcp_client(const McpServerSettings& server,
                                      const EnvironmentPolicy& environment,
                                      std::shared_ptr<const Runtime> runtime,
                                      const McpHost& host = McpHost());

/// Returns the source of the headers that commands of the user print (McpHttpOptions::fresh_headers); empty if the server has none. A
/// value is used until it is older than McpServerSettings::header_max_age, or the server refuses it; requests that need a value at the
/// same time wait for one command. A command gets the variables of `environment`, no input, and half a minute.
std::function<Task<HttpHeaders>(bool is_refused)> header_commands(
    const McpServerSettings& server, const EnvironmentPolicy& environment,
    std::shared_ptr<const Runtime> runtime);

/// Returns the store of the tokens for an MCP server: a file that only this user can read, and which is replaced as a whole. Tokens
/// that were issued for another URL under the same name are not used. Its errors name the file.
std::shared_ptr<McpCredentialStore> credential_file(const std::string& server,
                                                    const std::string& url,
                                                    std::shared_ptr<const Runtime> runtime);

/// Removes the file. Returns false if there is none. Throws Error(io).
bool remove_credential_file(const std::string& server);

/// Returns the contents of a file of at most 64 KiB. Throws Error(io) that names the file.
std::string read_small_file(const std::filesystem::path& path);

/// Returns the dialog of `cubepi mcp login`: it prints the address of the page, and waits until a browser of this machine is redirected
/// to a free port of 127.0.0.1, or a line of standard input is the address to which a browser elsewhere was redirected. `out` must
/// outlive it.
std::shared_ptr<McpLoginUi> login_prompt(std::ostream& out);

}  // namespace cubepi::app
