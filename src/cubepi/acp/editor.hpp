#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

// The editor's side of the Agent Client Protocol (https://agentclientprotocol.com): what an agent may ask of the editor that has started it.

namespace cubepi {

/// Codes of errors, of JSON-RPC and of the protocol.
namespace acp_error {
inline constexpr int parse = -32700;
inline constexpr int invalid_request = -32600;
inline constexpr int method_not_found = -32601;
inline constexpr int invalid_params = -32602;
inline constexpr int internal = -32603;
inline constexpr int cancelled = -32800;
inline constexpr int not_found = -32002;
inline constexpr int unsupported_version = -32022;
}  // namespace acp_error

/// An error response: one that a host throws for a request of the editor, or one of the editor.
class AcpError : public Error {
public:
    AcpError(int code, const std::string& message)
        : Error(ErrorCode::protocol, message), number_(code) {}
    /// The code of the JSON-RPC error.
    int number() const noexcept { return number_; }

private:
    int number_;
};

/// The editor, as it describes itself in `initialize`. Its texts are display only.
struct AcpEditorInfo {
    std::string name = {};
    std::string version = {};
    int protocol =
        1;  ///< version that the connection speaks; editors of version 2 have neither files nor terminals
    bool reads_files = false;   ///< `fs/read_text_file`
    bool writes_files = false;  ///< `fs/write_text_file`
    bool has_terminals = false;
};

/// A command for a terminal of the editor.
struct AcpCommand {
    std::string program = {};
    std::vector<std::string> arguments = {};
    std::vector<std::pair<std::string, std::string>> environment = {};
    std::string directory = {};              ///< absolute; empty: that of the session
    std::size_t max_output_bytes = 1 << 20;  ///< the editor drops the beginning of a longer output
};

/// The end of a command.
struct AcpCommandResult {
    std::string output = {};
    bool is_truncated = false;
    std::optional<int> exit_code = {};  ///< absent: a signal has ended it
    std::string signal = {};
};

/// The editor of a connection. Used on the executor of the connection; may outlive it.
class AcpEditor {
public:
    virtual ~AcpEditor() = default;

    /// Valid after `initialize`.
    virtual const AcpEditorInfo& info() const noexcept = 0;
    /// Sends `session/update`. Does not wait: updates are queued, and an editor that does not read ends the connection
    /// (AcpLimits::max_queued_bytes). Has no effect after the end of the connection. `update` has the form of version 1, or of an update
    /// that only version 2 has, for an editor that speaks it.
    virtual void update(std::string_view session, JsonObject update) = 0;
    /// Sends a request and waits for its result. Cancelling withdraws it. Throws AcpError if the editor refuses it, and
    /// Error(disconnected) at the end of the connection.
    virtual Task<JsonObject> request(std::string method, JsonObject params) = 0;

    // The following throw like request(), and Error(unsupported) if the editor does not offer it.

    /// Returns the text of a file as the editor has it, which may not be saved. `path` is absolute.
    Task<std::string> read_text_file(std::string session, std::string path);
    /// Sets the text of a file in the editor.
    Task<> write_text_file(std::string session, std::string path, std::string text);
    /// Runs a command in a terminal of the editor and waits for its end. Cancelling kills it. The editor decides about environment and
    /// shell: no sandbox of this library confines the command.
    Task<AcpCommandResult> run_command(std::string session, AcpCommand command);

    AcpEditor(const AcpEditor&) = delete;
    AcpEditor& operator=(const AcpEditor&) = delete;

protected:
    AcpEditor() = default;
};

}  // namespace cubepi
