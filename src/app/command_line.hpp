#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <bub/hooks.hpp>

#include "process.hpp"

namespace cubepi::app {

/// The model that the flags select.
struct ModelFlags {
    std::string provider = {};
    std::string model = {};
    std::string base_url = {};
    std::string api_key_env = {};  ///< the variable with the key for the address
    bool offline = false;
    std::string script = {};  ///< answers of the offline model, a JSON file

    /// True if one of the flags selects a model or its server.
    bool name_a_model() const {
        return offline || !provider.empty() || !model.empty() || !base_url.empty() ||
               !script.empty();
    }
};

/// MiB of standard input that `run` accepts without --max-input.
inline constexpr std::size_t default_input_limit = 64;

/// Options of a conversation.
struct ConversationFlags {
    ModelFlags model = {};
    std::string session = {};
    bool continue_last = false;
    bool no_save = false;  ///< a temporary session
    bool suspend =
        false;  ///< where the user cannot be asked, the run is suspended instead of refused
    bool yes = false;
    bool json = false;
    bool no_tools = false;
    std::string system_prompt = {};
    bool trust = false;          ///< the project is trusted for this run
    int max_turns = 0;           ///< 0: the library's own limit
    std::string sandbox = {};    ///< the mode of the sandbox; empty: that of the configuration
    double max_cost = 0;         ///< USD per prompt; 0: no limit
    std::string directory = {};  ///< the one to work in; empty: the current one
    std::string work_tree = {};  ///< name of the git work tree to work in; empty: none
    std::vector<std::string> more_directories = {};  ///< in which the file tools may work, too
};

/// The forms of input and output of `run`.
struct RunArguments {
    enum class Output : std::uint8_t {
        text,
        json,        ///< one object at the end
        stream_json  ///< one event per line
    };
    Output output = Output::text;
    bool json_input = false;               ///< standard input has one message per line
    std::string answer_file = {};          ///< receives the answer
    std::string schema_file = {};          ///< JSON Schema of the answer
    std::vector<std::string> images = {};  ///< of `run` and `chat`: go with the first prompt
    std::size_t input_limit = default_input_limit;  ///< MiB of standard input
};

/// Arguments of `inbox`.
struct InboxArguments {
    enum class What { list, show, approve, deny, answer, cancel };
    What what = What::list;
    std::string question = {};  ///< its id, or the beginning of it
    std::string session = {};   ///< empty: any of this directory
    std::string value = {};     ///< answer: the answer; deny: the reason
    bool gateway = false;       ///< the questions of the running gateway
};

/// Arguments of `schedule`, which are those of the running gateway.
struct ScheduleCommandArguments {
    enum class What : std::uint8_t { list, add, cancel };
    What what = What::list;
    std::string id = {};
    std::string channel = {};
    std::string chat = {};
    std::string session = {};
    std::string user = {};
    std::string at = {};
    std::string every = {};
    std::string cron = {};
    std::string zone = {};
    bool skip_missed = false;
    bool json = false;
};

/// Arguments of `sessions` and `resume`.
struct SessionsArguments {
    enum class What : std::uint8_t { list, remove, rename, show, export_file };
    What what = What::list;
    std::string name = {};
    std::string title = {};     ///< rename: empty removes the title
    std::size_t limit = 50;     ///< show: newest messages; 0: all
    std::string html = {};      ///< export: the file of a page
    std::string markdown = {};  ///< export: the file of a text
    bool force = false;         ///< export: replace the files
    bool resume = false;  ///< the session of a chat must exist; without a name the user picks it
};

/// The arguments of `cubepi db`.
struct DatabaseArguments {
    enum class What { status, check, init, migrate, sql, divide };
    What what = What::status;
    /// A URL, an SQLite file; check: also a directory; sql: also the name of a kind of database. Empty: the database of the sessions (tape_location()).
    std::string target = {};
    int from = 0;        ///< sql, of a kind: the version of CubePi's tables
    bool tapes = false;  ///< the tables of tapes instead of those of threads
    bool json = false;
    bool move = false;  ///< divide: sessions are moved to their databases
};

/// The arguments of `cubepi mcp`.
struct McpArguments {
    enum class What : std::uint8_t { list, add, remove, check, call, login, logout, serve };
    What what = What::list;
    std::string server = {};                        ///< its name; empty: all (check)
    std::vector<std::string> command = {};          ///< add: a command with its arguments, or a URL
    std::vector<std::string> env = {};              ///< add: NAME=VALUE
    std::vector<std::string> headers = {};          ///< add: "NAME: VALUE"
    std::vector<std::string> header_commands = {};  ///< add: "NAME: COMMAND"
    std::string cwd = {};                           ///< add: the directory of the command
    std::string tool = {};                          ///< call: as the server names it
    std::string arguments = {};                     ///< call: a JSON object; empty: none
    bool json = false;
    bool yes = false;         ///< serve: all calls are allowed
    std::string listen = {};  ///< serve: HOST:PORT, over HTTP; empty: over standard streams
    std::string issuer =
        {};  ///< serve: of the clients' access tokens; empty: a token of the environment
    std::string url = {};  ///< serve: of the clients, with an issuer; empty: that of `listen`
    std::vector<std::string> scopes = {};  ///< serve: of each access token
};

/// The arguments of `cubepi trust`.
struct TrustArguments {
    enum class What : std::uint8_t { list, add, remove };
    What what = What::list;
    std::string directory = {};  ///< empty: the current one
    bool json = false;
};

/// The arguments of `cubepi permissions`.
struct PermissionArguments {
    enum class What : std::uint8_t { list, remove };
    What what = What::list;
    std::string rule = {};  ///< remove: its number or text
    bool json = false;
};

/// The arguments of `cubepi gateway` and of `cubepi web`.
struct GatewayArguments {
    enum class What : std::uint8_t {
        run,
        status,
        usage,
        sessions,
        held,
        release,
        discard,
        stop,
        reload,
        drain,
        console,
        logins,
        logout,
        import_files,
        install,
        uninstall
    };
    What what = What::run;
    std::vector<std::string> channels = {};  ///< --enable-channel
    std::string id = {};      ///< of a held message or answer, of a session, or of a login
    std::string search = {};  ///< usage: in the names of users and chats
    std::string name = {};    ///< of the user of the console; empty: that of the system
    bool viewer = false;
    bool all = false;  ///< drain: all gateways that share the messages
    bool json = false;
    std::uint16_t port = 0;  ///< web: 0: a free one
};

/// The arguments of `cubepi tape`.
struct TapeArguments {
    enum class What { list, show, search, anchors, export_lines, copy };
    What what = What::list;
    std::string tape = {};       ///< its name or a prefix of it; empty: by session or the newest
    std::string session = {};    ///< a session id of this directory
    std::string directory = {};  ///< of the tapes; empty: those of configured_tapes()
    std::string text = {};       ///< to search for
    std::vector<std::string> kinds = {};
    std::string from = {};  ///< a local date or time
    std::string to = {};
    std::size_t limit = 20;  ///< 0: all
    bool json = false;
    bool messages = false;    ///< export: the messages for a model, instead of the entries
    std::string output = {};  ///< export: a file; empty: standard output
    std::string target =
        {};              ///< copy: a directory, a database, or "files" for the default directory
    bool all = false;    ///< copy: all tapes
    bool force = false;  ///< export, copy: replace the existing file or tape
};

/// The arguments of `cubepi trace`.
struct TraceArguments {
    enum class What { list, view, stats, convert, follow };
    What what = What::list;
    std::string directory = {};  ///< of the traces; empty: $CUBEPI_TRACE, or ./cubepi-traces
    std::string run = {};  ///< a trace's id, the beginning of one, or a file; empty: the newest
    std::vector<std::string> runs =
        {};               ///< stats: the same for several traces; empty: all of the directory
    std::string by = {};  ///< stats: "model" or "tool"; empty: both
    std::string session = {};
    std::string model = {};
    std::string tool = {};
    bool error = false;
    std::string min_duration = {};
    std::vector<std::string> metadata = {};  ///< KEY=VALUE
    std::vector<std::string> metadata_columns = {};
    std::string since = {};  ///< a local date or time
    std::size_t limit = 20;  ///< 0: all
    bool json = false;
    bool verbose = false;
    bool content = false;
    bool html = false;  ///< view: as a page
    std::string output =
        {};  ///< view --html: the file; empty: standard output, or a file named after the trace
    bool force = false;           ///< replace the file
    std::string span = {};        ///< convert: the beginning of the id of a span
    std::size_t call = 0;         ///< convert: the call of a model, from 1; 0: the last
    std::string form = "curl";    ///< convert: the only form
    std::string idle_limit = {};  ///< follow: ends after so long without a new span; empty: never
};

enum class Verb {
    none,
    run,
    chat,
    demo,
    models,
    onboard,
    doctor,
    hooks,
    sessions,
    inbox,
    tape,
    trace,
    db,
    mcp,
    acp,
    trust,
    permissions,
    gateway,
    schedule,
    web,
    completion,
    complete,
    man_page,
    demo_step,
    plugin
};

/// Registers plugins besides the builtin one; null: there are none.
using AddPlugins = std::function<void(bub::Framework& framework)>;

/// The request of a command line.
struct CommandLine {
    Verb verb = Verb::none;
    ConversationFlags conversation = {};
    RunArguments run = {};
    TapeArguments tape = {};
    TraceArguments trace = {};
    DatabaseArguments db = {};
    McpArguments mcp = {};
    TrustArguments trust = {};
    PermissionArguments permissions = {};
    GatewayArguments gateway = {};
    InboxArguments inbox = {};
    ScheduleCommandArguments schedule = {};
    SessionsArguments sessions = {};
    LogFlags log = {};
    std::string database = {};  ///< of sessions: --db
    std::vector<std::string> words =
        {};  ///< the prompt's or a filter's words, a session's or shell's name, a plugin command's arguments
    bool key_from_input = false;      ///< onboard: the key is on standard input
    std::string channel = {};         ///< onboard: it, not the model
    int protocol = 1;                 ///< acp: the newest version
    bool fast = false;                ///< demo: without waiting
    bool all = false;                 ///< sessions, inbox: those of all directories
    std::string plugin_command = {};  ///< plugin: which of the plugins' commands
    AddPlugins plugins = {};          ///< set by run_program
    std::string demo_tapes = {};
    std::string demo_directory = {};
    std::optional<int> exit_code =
        {};  ///< set when there is nothing to run: help was shown, or a flag is wrong
};

/// The arguments of a prompt, separated by spaces.
std::string prompt_of(const std::vector<std::string>& words);

/// Whether standard input and standard output are terminals, which a chat needs.
bool at_terminal() noexcept;
/// Returns true if standard input is a pipe, a file or a socket: not a terminal or a device, which may never end.
bool input_is_piped() noexcept;

/// Parses the arguments. Never throws for invalid ones: reports them on standard error and sets exit_code. `more` are the
/// commands of plugins, which receive the arguments after their names unparsed; no name is in own_command_names().
///
/// Without a command, `terminal` decides: `chat` at a terminal, else `run`. A first argument that could be a misspelt
/// command (one word, ASCII only) is an error and never a prompt.
CommandLine parse_command_line(int argc, char** argv, const std::vector<bub::CliCommand>& more = {},
                               bool terminal = at_terminal(), bool piped = input_is_piped());

/// The names of the program's own commands.
std::vector<std::string> own_command_names();

}  // namespace cubepi::app
