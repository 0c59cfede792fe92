#pragma once

#include <cubepi/core/detail/compiler_requirements.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi {

/// The kind of an error, for code that branches. `to_string` returns the stable spelling used in JSON.
enum class ErrorCode : std::uint8_t {
    unknown,
    // Misuse of the library: fix the program.
    invalid_argument,  ///< a value that is never valid
    invalid_state,     ///< a call that is not allowed in the current state
    busy,              ///< a run of the agent is active
    no_messages,       ///< there is nothing to continue from
    cannot_continue,   ///< the thread ends with a finished answer and nothing is queued
    unsupported,       ///< not supported by this store, provider or build
    // Control flow.
    cancelled,  ///< aborted by the caller
    timeout,    ///< a timeout expired; the message names it
    limit,      ///< a configured limit was reached
    // Data.
    parse,       ///< malformed text
    validation,  ///< well-formed data that violates its schema
    // Network.
    dns,           ///< the name does not resolve
    connect,       ///< no connection could be established
    tls,           ///< the peer's certificate or the handshake was rejected
    proxy,         ///< the proxy rejected the request or failed
    disconnected,  ///< the connection was lost during the exchange
    protocol,      ///< the peer violated the protocol
    too_large,     ///< more bytes than allowed
    // Providers.
    auth,              ///< 401: the key is missing or invalid
    rate_limited,      ///< 429 or an exhausted quota
    unavailable,       ///< 5xx, overload, or the endpoint is unreachable
    bad_request,       ///< the endpoint rejected the request
    context_length,    ///< the request exceeds the model's context window
    model_not_found,   ///< the endpoint does not know the model
    content_filtered,  ///< the endpoint rejected the content
    provider,          ///< a failure reported by the endpoint that fits no other code
    // Storage.
    storage,          ///< the store failed; the message has the reason
    storage_locked,   ///< another process holds the database
    storage_corrupt,  ///< an unreadable row or file
    storage_full,     ///< no space left
    schema_mismatch,  ///< tables of another version
    // Threads and runs: see the classes of these names below.
    thread_not_found,
    thread_exists,
    run_not_completed,
    run_not_claimed,
    run_already_claimed,
    run_already_completed,
    stale_append,
    // Files and processes.
    not_found,          ///< no such file, directory or program
    permission_denied,  ///< rejected by policy or by the system
    io,                 ///< the system reported an I/O error; see the message
    // Questions to the user.
    hitl,                ///< a failed question that fits no other code
    stale_answer,        ///< an answer to a question that has ended
    no_pending_request,  ///< an answer without a pending question
    bad_answer,          ///< an answer that does not fit its question, which stays open
    no_channel,          ///< no user can be asked
    pending_requests,    ///< the thread waits for answers: see PendingRequestsError
};

std::string_view to_string(ErrorCode code) noexcept;

/// The base class of all exceptions of this library. `what()` states what failed, where, why and the remedy; it never
/// contains a secret.
class Error : public std::runtime_error {
public:
    Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
    ErrorCode code() const noexcept { return code_; }

private:
    ErrorCode code_;
};

/// Returns the message of an exception of any type, for display; not null.
std::string exception_text(const std::exception_ptr& exception);

/// A timeout expired. `timeout()` names it: "connect", "first_byte", "idle", "total", "tool", ...
class TimeoutError : public Error {
public:
    TimeoutError(std::string timeout, const std::string& message)
        : Error(ErrorCode::timeout, message), timeout_(std::move(timeout)) {}
    // In parentheses, because <curses.h> defines a macro of this name.
    const std::string&(timeout)() const noexcept { return timeout_; }

private:
    std::string timeout_;
};

/// A prompt for a thread whose suspended run waits for the user (D60).
class PendingRequestsError : public Error {
public:
    PendingRequestsError(std::vector<std::string> question_ids, const std::string& message)
        : Error(ErrorCode::pending_requests, message), question_ids_(std::move(question_ids)) {}
    /// Returns the questions that wait for an answer. Empty: all are answered, and resume() continues the run.
    const std::vector<std::string>& question_ids() const noexcept { return question_ids_; }

private:
    std::vector<std::string> question_ids_;
};

/// A run reached a limit of AgentLimits.
class LimitReachedError : public Error {
public:
    LimitReachedError(std::string limit, const std::string& message)
        : Error(ErrorCode::limit, message), limit_(std::move(limit)) {}
    /// Returns the member of AgentLimits: "max_turns", "max_spend", "max_repeated_calls",
    /// "max_duration" or "max_answer_bytes".
    const std::string& limit() const noexcept { return limit_; }

private:
    std::string limit_;
};

/// The details of a provider's failure. Stored with the message that it ended, under CubeLoop's names (see
/// docs/decisions.md, D9 and D41).
struct ErrorInfo {
    ErrorCode code = ErrorCode::unknown;
    std::string type;                   ///< class name: "RateLimited", "ProviderAuthFailed", ...
    std::string provider_code;          ///< the endpoint's own code, e.g. "insufficient_quota"
    std::optional<int> status_code;     ///< HTTP status
    std::optional<double> retry_after;  ///< seconds
    std::optional<std::int64_t> tokens_in;
    std::optional<std::int64_t> context_window;
    /// The endpoint's or network layer's description of the failure: valid UTF-8, without secrets, at most about 2 KiB.
    /// Empty for a message loaded from a store, which keeps only the whole error text.
    std::string message = {};

    friend bool operator==(const ErrorInfo&, const ErrorInfo&) = default;
};

/// A failure of a model endpoint. Callers branch on the derived classes.
class ProviderError : public Error {
public:
    ProviderError(ErrorInfo info, const std::string& message)
        : Error(info.code, message), info_(std::move(info)) {}
    const ErrorInfo& info() const noexcept { return info_; }

private:
    ErrorInfo info_;
};

/// The request exceeds the model's context window; the info has both sizes if the endpoint reports them.
class ContextLengthExceeded : public ProviderError {
    using ProviderError::ProviderError;
};
/// 429, or an exhausted quota; `info().retry_after` has the delay if the endpoint reports one.
class RateLimited : public ProviderError {
    using ProviderError::ProviderError;
};
/// The key is missing, invalid, or lacks the permission. A retry does not help.
class ProviderAuthFailed : public ProviderError {
    using ProviderError::ProviderError;
};
/// 5xx, overload, or an unreachable endpoint. A later retry may help.
class ProviderUnavailable : public ProviderError {
    using ProviderError::ProviderError;
};
/// The endpoint rejects the request. A retry does not help.
class ProviderBadRequest : public ProviderError {
    using ProviderError::ProviderError;
};
/// The endpoint does not know the model, or it is not available for this key.
class ModelNotFound : public ProviderError {
    using ProviderError::ProviderError;
};
/// The endpoint rejects the prompt or its model's answer.
class ContentFiltered : public ProviderError {
    using ProviderError::ProviderError;
};

/// Throws the class that corresponds to `info.code`, or a plain ProviderError if there is none.
[[noreturn]] void throw_provider_error(ErrorInfo info, const std::string& message);

/// A failure of a store. Earlier appends are preserved; no append is stored partially.
class CheckpointerError : public Error {
public:
    CheckpointerError(ErrorCode code, const std::string& message, std::string thread_id = {},
                      std::string run_id = {}, std::string path = {})
        : Error(code, message),
          thread_id_(std::move(thread_id)),
          run_id_(std::move(run_id)),
          path_(std::move(path)) {}
    const std::string& thread_id() const noexcept { return thread_id_; }
    const std::string& run_id() const noexcept { return run_id_; }
    /// Returns the file or directory that could not be used; empty if the failure concerns none.
    const std::string& path() const noexcept { return path_; }

private:
    std::string thread_id_;
    std::string run_id_;
    std::string path_;
};

/// The thread has no stored data.
class ThreadNotFoundError : public CheckpointerError {
    using CheckpointerError::CheckpointerError;
};
/// The thread to be created by a fork already exists.
class ThreadAlreadyExistsError : public CheckpointerError {
    using CheckpointerError::CheckpointerError;
};
/// The call requires a completed run.
class RunNotCompletedError : public CheckpointerError {
    using CheckpointerError::CheckpointerError;
};
/// The run was never claimed on this thread.
class RunNotClaimedError : public CheckpointerError {
    using CheckpointerError::CheckpointerError;
};
/// The run is open, or another live owner has an open run on the thread (D50).
class RunAlreadyClaimedError : public CheckpointerError {
public:
    using CheckpointerError::CheckpointerError;
    /// `owner` is the live owner of the thread's open run, e.g. "pid 4711 on build-3".
    RunAlreadyClaimedError(const std::string& message, std::string thread_id, std::string run_id,
                           std::string owner)
        : CheckpointerError(ErrorCode::run_already_claimed, message, std::move(thread_id),
                            std::move(run_id)),
          owner_(std::move(owner)) {}
    /// Returns an empty string if the run was claimed before by the same caller.
    const std::string& owner() const noexcept { return owner_; }

private:
    std::string owner_;
};
/// The run is completed: claims and appends under its id are rejected.
class RunAlreadyCompletedError : public CheckpointerError {
    using CheckpointerError::CheckpointerError;
};
/// Another writer appended first, or took the claim over: reload the thread before continuing (D20).
class StaleAppendError : public CheckpointerError {
    using CheckpointerError::CheckpointerError;
};
/// Another process held the store for longer than the configured lock timeout.
class CheckpointerLockTimeoutError : public CheckpointerError {
    using CheckpointerError::CheckpointerError;
};

/// A stored row is unreadable. `row_ref()` names it, e.g. "messages.id=17".
class CheckpointCorruptionError : public CheckpointerError {
public:
    CheckpointCorruptionError(const std::string& message, std::string thread_id,
                              std::string backend, std::string row_ref, std::string path = {})
        : CheckpointerError(ErrorCode::storage_corrupt, message, std::move(thread_id),
                            std::string(), std::move(path)),
          backend_(std::move(backend)),
          row_ref_(std::move(row_ref)) {}
    const std::string& backend() const noexcept { return backend_; }
    const std::string& row_ref() const noexcept { return row_ref_; }

private:
    std::string backend_;
    std::string row_ref_;
};

}  // namespace cubepi
