#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/command_hooks.hpp>
#include <bub/tape/database_map.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/process/environment.hpp>
#include <cubepi/workspace/tool_rules.hpp>

#include "../terminal/attention.hpp"
#include "provider_kinds.hpp"

namespace cubepi::app {

/// The key `trace` of the configuration file: a directory, or a mapping of `directory` and `content`.
struct TraceSettings {
    std::filesystem::path directory = {};  ///< of trace files; empty: none are written
    bool content = false;                  ///< records prompts, answers, arguments and results
};

/// The key `subagents` of the configuration file: limits of the agents that a model starts.
struct SubagentSettings {
    std::size_t max_background = 4;             ///< at once in one session; 0: none
    std::optional<std::size_t> max_turns = {};  ///< model calls of one; absent: those of a prompt
    std::optional<double> max_spend = {};       ///< USD of all that follow from one prompt
};

/// The key `sandbox` of the configuration file: a mode, or a mapping.
struct SandboxSettings {
    enum class Mode : std::uint8_t { off, workspace, read_only };
    Mode mode = Mode::workspace;
    bool network = false;
    bool unix_sockets = false;
    std::vector<std::string> writable = {};  ///< more paths that commands may change
    std::vector<std::string> readable = {};  ///< directories with keys that commands may read
    bool required = false;                   ///< fails if the kernel cannot hold the promises
};

/// Returns the mode with this name: off, workspace or read-only.
std::optional<SandboxSettings::Mode> sandbox_mode(std::string_view name);
std::string_view to_string(SandboxSettings::Mode mode) noexcept;

/// Returns the settings in effect: the variables CUBEPI_TRACE (a directory) and
/// OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT (true or false) take precedence over the configuration file. A leading
/// `~/` is the home directory.
TraceSettings trace_settings(const TraceSettings& configured);

/// One of several databases among which the sessions are divided (D258).
struct DatabasePart {
    std::string name = {};
    std::string url = {};       ///< as ConfigFile::database
    std::string sessions = {};  ///< bub::DatabaseShare::ranges
    std::string notify = {};    ///< as GatewaySettings::notify_database

    bool operator==(const DatabasePart&) const = default;
};

/// Returns the division of the sessions. Throws Error(invalid_argument).
bub::DatabaseMap database_map(const std::vector<DatabasePart>& databases);

/// Returns why sessions cannot be stored in a database with this URL, without the URL, which may have a password; empty: they
/// can.
std::string database_problem(const std::string& url);
/// True for postgres:// and postgresql://.
bool is_postgres_url(const std::string& text);

/// True if the URL contains a password.
bool has_password(const std::string& url);

/// The value of ConfigFile::compact_model with which a provider that can compacts conversations itself.
inline constexpr std::string_view compacted_by_provider = "provider";

/// The contents of ~/.config/cubepi/config.yaml. All keys are optional:
///
///     model: gpt-5.1
///     base_url: https://api.openai.com/v1
///     api_key: sk-...                # or api_key_env: the name of a variable
///     thinking_tag: think            # the tag around thinking in the text of answers
///     provider: work                 # the default provider
///     providers:
///       work: {type: anthropic, base_url: https://llm.example.com, api_key_env: WORK_KEY, model: m}
///     fallback_models: [anthropic/claude-sonnet-4-5]   # called in this order if the model fails
///     model_timeout: 300             # seconds for one call of a model, in total
///     first_byte_timeout: 120        # seconds until an answer begins
///     idle_timeout: 120              # seconds between parts of an answer
///     max_turns: 50                  # model calls of one prompt
///     max_repeated_calls: 10         # identical tool calls that end a prompt; false: any number
///     max_tokens: 8192               # of one answer
///     context_window: 32768          # tokens, of a model whose window is not known
///     compact_at: 0.8                # share of the context window at which the conversation is summarized
///     compact_model: openai/gpt-5-mini   # writes these summaries; default: the model of the conversation; "provider": its server
///     escape_timeout: 0.1            # seconds after which an Esc of the terminal is the key
///     notifications: osc9            # off, bell or osc9: while the window of a chat is not in front
///     theme: light                   # of a chat: auto, dark or light
///     window_title: false            # the title of the window does not name the session
///     editing_mode: vi               # the keys of the prompt: emacs or vi
///     keys: {f5: /status, ctrl-e: editor, ctrl-o: none}   # other keys of the console (KeyBindings)
///     memory: true                   # the tool memory, with notes for later conversations
///     todos: false                   # the model does not write to-do lists
///     subagents: {max_background: 4, max_turns: 20, max_spend: 0.50}   # agents that the model starts (SubagentSettings)
///     allow: ["shell: ls *"]         # what tools may do without asking
///     ask: ["shell: git push *"]     # what they must ask about, whatever is allowed
///     deny: ["shell: rm *"]          # what they never may
///     trust: [~/src]                 # directories whose instructions and skills are loaded without a question
///     hooks: {PreToolUse: [{matcher: shell, hooks: [{command: ~/bin/check, timeout: 10}]}]}   # commands of the user
///     environment: {inherit: all, exclude: [], include: []}   # environment variables of commands
///     sandbox: {mode: workspace, network: false, writable: [~/.cache], required: true}   # of commands (SandboxSettings)
///     trace: {directory: ~/traces, content: true}   # or a directory: trace files of all turns
///     database: postgres://me@db.example/agents   # sessions are stored there instead of in files
///     mcp: {git: {command: uvx, args: [mcp-server-git]}}   # MCP servers (McpServerSettings)
///     max_listed_mcp_tools: 40       # with more of them, the model loads their definitions when it needs them; false: any number
///     mcp_start_wait: 3              # seconds that the first prompt waits for MCP servers
///     gateway: {threads: 4}          # settings of `cubepi gateway` (GatewaySettings)
///     plugins: {name: ...}           # settings of plugins
struct ConfigFile {
    std::string provider = {};
    std::string model = {};
    std::string base_url = {};
    std::string api_key = {};
    std::string api_key_env = {};
    std::string thinking_tag = {};
    std::vector<ProviderConfig> providers = {};  ///< in the order of the file
    std::vector<std::string> fallback_models = {};
    std::optional<std::chrono::milliseconds> model_timeout = {};
    std::optional<std::chrono::milliseconds> first_byte_timeout = {};
    std::optional<std::chrono::milliseconds> idle_timeout = {};
    std::optional<std::chrono::milliseconds> escape_timeout = {};
    std::optional<std::size_t> max_turns = {};
    std::optional<std::size_t> max_repeated_calls = {};
    std::optional<std::size_t> max_listed_mcp_tools = {};
    std::optional<std::chrono::milliseconds> mcp_start_wait = {};
    std::optional<std::int64_t> max_tokens = {};
    bool memory = false;  ///< the tool `memory`
    TerminalSettings terminal = {};
    std::optional<std::int64_t> context_window = {};
    std::optional<double> compact_at = {};
    std::string compact_model = {};
    bool todos = true;  ///< the model may write to-do lists
    SubagentSettings subagents = {};
    std::vector<std::string> allow = {};
    std::vector<std::string> ask = {};
    std::vector<std::string> deny = {};
    std::vector<std::string> trust = {};  ///< directories
    std::vector<bub::CommandHook> hooks = {};
    EnvironmentPolicy environment = {};        ///< of commands
    SandboxSettings sandbox = {};              ///< of commands
    TraceSettings trace = {};                  ///< use trace_settings()
    std::string database = {};                 ///< use tape_location()
    std::vector<DatabasePart> databases = {};  ///< use tape_location()
    bool has_secret = false;                   ///< a key, a token or a password
    /// True if the file has a secret and its group or others may read it.
    bool too_open = false;
};

/// Reads the file; empty if it does not exist. Throws Error(parse) with file and line for invalid YAML or unknown
/// keys.
ConfigFile read_config(const std::filesystem::path& path);

/// The contents of `.cubepi/config.yaml` of a project, which has the keys `allow`, `ask`, `deny` and `hooks` of the user's file.
struct ProjectConfig {
    std::vector<std::string> allow = {};
    std::vector<std::string> ask = {};
    std::vector<std::string> deny = {};
    std::vector<bub::CommandHook> hooks = {};
};

/// Reads the text of the file at `path`, which is only for messages. Throws Error(parse) with file and line.
ProjectConfig read_project_config(const std::filesystem::path& path, const std::string& text);

/// The warning for ConfigFile::too_open, with the command that repairs it; one line.
std::string open_key_file_note(const std::filesystem::path& path);

/// All contents of the file, including members of plugins; empty if there is no file. Throws Error(parse).
JsonObject config_values(const std::filesystem::path& path);

/// Changes the contents of the file from `before` to `wanted`, preserving comments and everything that does not
/// change. Writes atomically, with mode 0600. Throws Error(parse) if the result would be an invalid configuration,
/// Error(invalid_state) if another process has changed the file meanwhile, Error(io). `decorate` may add comments to the
/// text; a text with other values is not used.
void save_config(const std::filesystem::path& path, const JsonObject& before,
                 const JsonObject& wanted,
                 const std::function<std::string(const std::string& text)>& decorate = {});

/// Adds a rule to `allow`, preserving the rest of the file; creates the file (0600) if there is none. Throws like
/// save_config.
void save_allow_rule(const std::filesystem::path& path, const std::string& rule);
/// Removes a rule from the key of its effect. Returns false, and writes nothing, if it is not there. Throws like save_config().
bool remove_rule(const std::filesystem::path& path, RuleEffect effect, const ApprovalRule& rule);

/// Reads the keys and values of a YAML text. Throws YAML::Exception; Error(parse) if it is not a map.
JsonObject yaml_values(const std::string& text);

/// Changes `text` so that its values equal `wanted`. If the text has one key per line, this preserves comments, and
/// the order and style of unchanged members; comments of values that are replaced or removed become separate lines.
/// Any other text is rewritten, its comment lines first. Throws YAML::Exception; Error(parse) if YAML cannot
/// represent a value (a key of more than 1,000 characters).
std::string edit_yaml(const std::string& text, const JsonObject& wanted);

}  // namespace cubepi::app
