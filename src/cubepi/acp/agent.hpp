#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/acp/editor.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/server.hpp>

// A program that is an agent in editors implements AcpHost and AcpSession and calls serve_acp(). For one whose sessions are each an
// Agent, <cubepi/acp/agent_host.hpp> has both.

namespace cubepi {

/// Why a prompt ended.
enum class AcpStop : std::uint8_t { end_turn, max_tokens, max_turn_requests, refusal, cancelled };
std::string_view to_string(AcpStop stop) noexcept;

/// A prompt of the user. Linked and embedded resources are parts of the text, with their URIs.
struct AcpPrompt {
    std::string text = {};
    std::vector<ImageContent> images = {};
    std::string typed = {};  ///< the part of `text` that the user has typed
    /// Called by the session when the message has become a part of the conversation, with its stored id (empty: it has none). Never
    /// null. If it is not called, that is the end of AcpSession::prompt(), unless it ends with a failure or AcpStop::cancelled.
    std::function<void(const std::string& id)> on_inserted = [](const std::string&) {};
};

/// An MCP server that the editor passes on.
struct AcpMcpServer {
    std::string name = {};
    std::string command = {};  ///< empty: a server at `url`
    std::vector<std::string> arguments = {};
    std::vector<std::pair<std::string, std::string>> environment = {};
    std::string url = {};
    std::vector<std::pair<std::string, std::string>> headers = {};
};

/// The circumstances of a session that begins or continues.
struct AcpSetup {
    std::string directory = {};  ///< absolute
    std::vector<std::string> more_directories = {};
    std::vector<AcpMcpServer> servers = {};
};

/// A choice that the user makes in the editor.
struct AcpChoice {
    std::string id = {};
    std::string name = {};
    std::string description = {};
};

/// A setting of a session, shown as a list of choices.
struct AcpOption {
    std::string id = {};
    std::string name = {};
    std::string category = {};  ///< "mode", "model", "thought_level"; empty: none
    std::string current = {};   ///< the id of a choice
    std::vector<AcpChoice> choices = {};
};

/// A session of the editor. Used on the executor of the connection.
class AcpSession {
public:
    virtual ~AcpSession() = default;

    /// Runs the agent and returns why it ended. Called again while a prompt runs: the session steers the run, queues the prompt, or
    /// throws AcpError. A failure of the agent is an Error, whose text the user sees.
    virtual Task<AcpStop> prompt(AcpPrompt prompt) = 0;
    /// Ends all prompts soon, with AcpStop::cancelled. May be called without one.
    virtual void cancel() noexcept = 0;
    /// Sends the messages of a loaded session as updates.
    virtual Task<> replay() { co_return; }
    /// Called after the editor was told the session's id: sends first updates, such as the commands.
    virtual void announce() {}

    /// Empty: there are no modes.
    virtual std::vector<AcpChoice> modes() const { return {}; }
    virtual std::string mode() const { return {}; }
    virtual Task<> set_mode(std::string id);
    /// Also lists the modes, for editors that know options only: see acp_mode_option().
    virtual std::vector<AcpOption> options() const { return {}; }
    /// Throws AcpError(invalid_params) for an id or a value that is unknown.
    virtual Task<> set_option(std::string id, std::string value);

    /// Releases the session. No prompt is in progress. Not called if the process ends.
    virtual Task<> close() { co_return; }

    AcpSession(const AcpSession&) = delete;
    AcpSession& operator=(const AcpSession&) = delete;

protected:
    AcpSession() = default;
};

/// Returns the modes of a session as an option with the id "mode".
AcpOption acp_mode_option(const AcpSession& session);

/// A saved session in a list.
struct AcpListedSession {
    std::string id = {};
    std::string directory = {};
    std::string title = {};
    std::string updated_at = {};  ///< ISO 8601; empty: unknown
};

struct AcpSessionList {
    std::vector<AcpListedSession> sessions = {};
    std::string next_cursor = {};  ///< empty: the list is complete
};

/// The abilities of an agent, besides sessions with text.
struct AcpAbilities {
    std::string name = "cubepi";
    std::string title = {};  ///< empty: the name
    std::string version = {};
    bool images = false;         ///< prompts may have pictures
    bool opens = false;          ///< AcpHost::open(): `session/load` and `session/resume`
    bool lists = false;          ///< AcpHost::list()
    bool removes = false;        ///< AcpHost::remove()
    bool takes_servers = false;  ///< AcpSetup::servers over HTTP; those over stdio always are
    bool more_directories = false;
    /// The newest version of the protocol that is offered: 1, or 2, a draft that may change. The editor may still choose version 1.
    int protocol = 1;
};

/// The agent of a connection. Used on its executor.
class AcpHost {
public:
    virtual ~AcpHost() = default;

    virtual AcpAbilities abilities() const = 0;
    /// Makes a session with this id, which is random and names no other one.
    virtual Task<std::shared_ptr<AcpSession>> create(std::shared_ptr<AcpEditor> editor,
                                                     std::string id, AcpSetup setup) = 0;
    /// Opens a saved session. Throws AcpError(not_found).
    virtual Task<std::shared_ptr<AcpSession>> open(std::shared_ptr<AcpEditor> editor,
                                                   std::string id, AcpSetup setup);
    /// Lists the saved sessions of a directory (empty: all). Throws AcpError(invalid_params) for a cursor that is not one of its own.
    virtual Task<AcpSessionList> list(std::string directory, std::string cursor);
    /// Deletes a saved session, which is not open. A session that does not exist is not an error.
    virtual Task<> remove(std::string id);

    AcpHost(const AcpHost&) = delete;
    AcpHost& operator=(const AcpHost&) = delete;

protected:
    AcpHost() = default;
};

struct AcpLimits {
    std::size_t max_message_bytes = std::size_t{64}
                                    << 20U;  ///< of the editor; more ends the connection
    std::size_t max_queued_bytes = std::size_t{64} << 20U;  ///< for an editor that does not read
    std::size_t max_requests = 256;                         ///< in progress at a time
    std::size_t max_sessions = 64;                          ///< open at a time

    AcpLimits() {}
};

/// Serves an editor on a stream of lines (mcp_standard_streams()) until its end. Prompts in progress are cancelled then, and all
/// sessions closed before this returns. Throws Error(disconnected) if the editor does not read, and Error(too_large).
Task<> serve_acp(std::shared_ptr<AcpHost> host, std::unique_ptr<McpByteStream> stream,
                 AcpLimits limits = {});

}  // namespace cubepi
