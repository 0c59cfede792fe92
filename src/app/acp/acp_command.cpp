#include <memory>
#include <utility>

#include <unistd.h>

#include <cubepi/acp/agent.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

#include "../program.hpp"
#include "../terminal/terminal_stream.hpp"
#include "acp_host.hpp"
#include "acp_session.hpp"

namespace cubepi::app {

namespace {

Task<> serve_editor(ConversationFlags flags, int protocol) {
    const Executor executor = co_await this_executor;
    co_await serve_acp(editor_host(std::move(flags), protocol), mcp_standard_streams(executor));
}

}  // namespace

int acp_command(const CommandLine& line) {
    if (::isatty(STDIN_FILENO) != 0) {
        err() << "This is an agent for an editor, which writes JSON to standard input.\n"
                 "Name it in the configuration of the editor: command \"cubepi\", arguments "
                 "\"acp\".\n";
    }
    try {
        run(serve_editor(line.conversation, line.protocol));
    } catch (const Error& error) {
        // Of the editor; it is not a failure of a model.
        if (error.code() != ErrorCode::disconnected && error.code() != ErrorCode::too_large) throw;
        log_to_editor(error.what());
        return exit_failed;
    }
    return exit_ok;
}

}  // namespace cubepi::app
