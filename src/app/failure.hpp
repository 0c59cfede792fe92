#pragma once

#include <exception>
#include <optional>
#include <string>

#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>

#include "config/provider_kinds.hpp"

namespace cubepi::app {

/// The exit status of the program. Documented in docs/cli.md; scripts depend on the numbers.
enum ExitCode : int {
    exit_ok = 0,
    exit_failed = 1,        ///< the model, the network or a tool run failed
    exit_usage = 2,         ///< wrong flags or arguments
    exit_no_model = 3,      ///< there is no model to ask
    exit_storage = 4,       ///< the sessions could not be read or written
    exit_limited = 5,       ///< a limit of the run was reached
    exit_incomplete = 6,    ///< the answer was cut off, refused or filtered, or is empty
    exit_waiting = 7,       ///< the run is suspended and waits for an answer (cubepi inbox)
    exit_aborted = 130,     ///< Ctrl-C
    exit_closed_pipe = 141  ///< the output pipe was closed
};

/// A failure as shown to the user: the error, and the next command.
struct Failure {
    std::string text =
        {};  ///< one line, may be followed by indented lines: the server's message, advice
    int exit_code = 1;
};

/// The destination of the failing call, for texts that name it.
struct FailureContext {
    std::string where = {};  ///< "gpt-5.1 at api.openai.com"
    std::string key_variable =
        {};  ///< the variable that holds the API key; empty: the configuration file does
    /// The source of a key that belongs to another address and was therefore not sent; empty: none.
    std::string withheld_key = {};
    std::string address_from =
        {};  ///< source of the server's address: a flag, a variable, a file; empty: default
    std::string session = {};  ///< the name of the conversation, if it has one
    bool advise = true;        ///< false: without the next command
    bool in_chat = false;  ///< the next command is one of a chat at a terminal, not of the shell
};

/// Returns true for errors of a connection: name, network, TLS, proxy, timeout.
bool is_network(ErrorCode code);

/// The context of calls to `endpoint` that are not about one model.
FailureContext failure_context(const Endpoint& endpoint);

Failure explain(const Error& error, const FailureContext& context = {});
Failure explain(const std::exception_ptr& failure, const FailureContext& context = {});

/// The text for the data of an `error` event of a turn: its message, and advice where the data is typed.
std::string explain_event(const JsonObject& data, const FailureContext& context = {});

/// The reason why an answer that ended a completed run is incomplete: cut off, refused or filtered, or empty
/// (exit_incomplete).
std::optional<Failure> incomplete_answer(const AssistantMessage& answer,
                                         const FailureContext& context = {});
/// The same for the last answer of a run.
std::optional<Failure> incomplete_answer(const RunResult& result,
                                         const FailureContext& context = {});

}  // namespace cubepi::app
