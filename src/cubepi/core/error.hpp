#pragma once

#include <cubepi/core/detail/compiler_requirements.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cubepi {

/// What went wrong, for code that branches. `to_string` gives the stable spelling used in JSON.
enum class ErrorCode : std::uint8_t {
    unknown,
    // Misuse of the library: fix the program.
    invalid_argument,  ///< a value that can never work
    invalid_state,     ///< a call that is not allowed now
    busy,              ///< the agent already runs
    no_messages,       ///< nothing to continue from
    cannot_continue,   ///< the thread ends with a finished answer and nothing is queued
    unsupported,       ///< this store, provider or build cannot do that
    // Control flow.
    cancelled,  ///< aborted by the caller
    timeout,    ///< a clock ran out; the message says which
    limit,      ///< a configured limit was reached
    // Data.
    parse,       ///< text that is not what it should be
    validation,  ///< well-formed data that breaks its schema
    // Network.
    dns,           ///< the name does not resolve
    connect,       ///< no connection could be made
    tls,           ///< the peer's certificate or handshake was refused
    proxy,         ///< the proxy refused or failed
    disconnected,  ///< the connection broke in the middle
    protocol,      ///< the peer sent something its protocol does not allow
    too_large,     ///< more bytes than allowed
    // Providers.
    auth,              ///< 401, 403: the key is missing, wrong or not allowed
    rate_limited,      ///< 429 or a used-up quota
    unavailable,       ///< 5xx, overload, or the endpoint cannot be reached
    bad_request,       ///< the endpoint refuses the request
    context_length,    ///< the request does not fit the model's window
    model_not_found,   ///< the endpoint does not know the model
    content_filtered,  ///< the endpoint refuses the content
    provider,          ///< a failure the endpoint reported that fits no other code
    // Storage.
    storage,          ///< the store failed; the message says how
    storage_locked,   ///< another process holds the database
    storage_corrupt,  ///< a row or file that cannot be read
    storage_full,     ///< no space left
    schema_mismatch,  ///< tables of another version
    // Threads and runs: the classes of these names below say when.
    thread_not_found,
    thread_exists,
    run_not_completed,
    run_not_claimed,
    run_already_claimed,
    run_already_completed,
    stale_append,
    // Files and processes.
    not_found,          ///< no such file, folder or program
    permission_denied,  ///< refused by policy or by the system
    io,                 ///< the system failed at it; the message says how
    // People.
    hitl,                ///< asking failed in a way that fits no other code
    stale_answer,        ///< an answer to a question that is over
    no_pending_request,  ///< an answer, and nobody asked
    bad_answer,          ///< an answer that does not fit its question; the question stays open
    no_channel,          ///< nobody can be asked
};

std::string_view to_string(ErrorCode code) noexcept;

/// The root of everything this library throws. `what()` says what failed, where, why and what to do; it
/// never contains a secret.
class Error : public std::runtime_error {
public:
    Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
    ErrorCode code() const noexcept { return code_; }

private:
    ErrorCode code_;
};

/// What an exception of any type says, for texts that people read; not null.
std::string exception_text(const std::exception_ptr& exception);

/// A clock ran out. `clock()` names it: "connect", "first_byte", "gap", "total", "tool", ...
class TimeoutError : public Error {
public:
    TimeoutError(std::string clock, const std::string& message)
        : Error(ErrorCode::timeout, message), clock_(std::move(clock)) {}
    const std::string& clock() const noexcept { return clock_; }

private:
    std::string clock_;
};

/// A run reached a limit of AgentLimits.
class LimitReachedError : public Error {
public:
    LimitReachedError(std::string limit, const std::string& message)
        : Error(ErrorCode::limit, message), limit_(std::move(limit)) {}
    /// The member of AgentLimits: "max_turns", "max_spend" or "wall_clock".
    const std::string& limit() const noexcept { return limit_; }

private:
    std::string limit_;
};

/// What a provider's failure carries besides its text. Stored with the message that it ended, under
/// CubeLoop's names (see docs/decisions.md, D9 and D41).
struct ErrorInfo {
    ErrorCode code = ErrorCode::unknown;
    std::string type;                   ///< class name: "RateLimited", "ProviderAuthFailed", ...
    std::string provider_code;          ///< the endpoint's own code, e.g. "insufficient_quota"
    std::optional<int> status_code;     ///< HTTP status
    std::optional<double> retry_after;  ///< seconds
    std::optional<std::int64_t> tokens_in;
    std::optional<std::int64_t> context_window;
    /// The failure in the words of the endpoint or of the network layer: valid UTF-8, without secrets, at most about
    /// 2 KiB. Empty for a message loaded from a store, which keeps only the whole error text.
    std::string message = {};

    friend bool operator==(const ErrorInfo&, const ErrorInfo&) = default;
};

/// A failure of a model endpoint. The derived classes are the kinds that callers branch on.
class ProviderError : public Error {
public:
    ProviderError(ErrorInfo info, const std::string& message)
        : Error(info.code, message), info_(std::move(info)) {}
    const ErrorInfo& info() const noexcept { return info_; }

private:
    ErrorInfo info_;
};

/// The request does not fit the model's window; the info has both sizes where the endpoint says them.
class ContextLengthExceeded : public ProviderError {
    using ProviderError::ProviderError;
};
/// 429, or a used-up quota; `info().retry_after` says how long to wait where the endpoint does.
class RateLimited : public ProviderError {
    using ProviderError::ProviderError;
};
/// The key is missing, wrong, or not allowed to do this. Trying again does not help.
class ProviderAuthFailed : public ProviderError {
    using ProviderError::ProviderError;
};
/// 5xx, overload, or nobody there. Trying again later may help.
class ProviderUnavailable : public ProviderError {
    using ProviderError::ProviderError;
};
/// The endpoint refuses the request as it is. Trying again does not help.
class ProviderBadRequest : public ProviderError {
    using ProviderError::ProviderError;
};
/// The endpoint does not know the model, or not for this key.
class ModelNotFound : public ProviderError {
    using ProviderError::ProviderError;
};
/// The endpoint refuses what was asked, or what its model answered.
class ContentFiltered : public ProviderError {
    using ProviderError::ProviderError;
};

/// Throws the class that fits `info.code` (a plain ProviderError where none does).
[[noreturn]] void throw_provider_error(ErrorInfo info, const std::string& message);

/// A failure of a store. What was appended before it stays; nothing is half written.
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
    /// The file or directory that could not be used; empty if the failure concerns none.
    const std::string& path() const noexcept { return path_; }

private:
    std::string thread_id_;
    std::string run_id_;
    std::string path_;
};

/// The thread that the call names has nothing stored.
class ThreadNotFoundError : public CheckpointerError {
    using CheckpointerError::CheckpointerError;
};
/// The thread that a fork is to make is there already.
class ThreadAlreadyExistsError : public CheckpointerError {
    using CheckpointerError::CheckpointerError;
};
/// The call needs a completed run, and this one is not.
class RunNotCompletedError : public CheckpointerError {
    using CheckpointerError::CheckpointerError;
};
/// The run was never claimed on this thread.
class RunNotClaimedError : public CheckpointerError {
    using CheckpointerError::CheckpointerError;
};
/// The run is open, or another live owner has one open on the thread (D50).
class RunAlreadyClaimedError : public CheckpointerError {
public:
    using CheckpointerError::CheckpointerError;
    /// `owner` is the live owner of the thread's open run, e.g. "pid 4711 on build-3".
    RunAlreadyClaimedError(const std::string& message, std::string thread_id, std::string run_id,
                           std::string owner)
        : CheckpointerError(ErrorCode::run_already_claimed, message, std::move(thread_id),
                            std::move(run_id)),
          owner_(std::move(owner)) {}
    /// Empty if the run was claimed before by the same caller.
    const std::string& owner() const noexcept { return owner_; }

private:
    std::string owner_;
};
/// The run is over: nothing is claimed or appended under its id any more.
class RunAlreadyCompletedError : public CheckpointerError {
    using CheckpointerError::CheckpointerError;
};
/// Another writer appended first, or took the claim over: load again before going on (D20).
class StaleAppendError : public CheckpointerError {
    using CheckpointerError::CheckpointerError;
};
/// Another process held the store for longer than the store is told to wait.
class CheckpointerLockTimeoutError : public CheckpointerError {
    using CheckpointerError::CheckpointerError;
};

/// A stored row that cannot be read. `row_ref()` names it, e.g. "messages.id=17".
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
