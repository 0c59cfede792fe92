#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include <cubepi/core/detail/async_function.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>

namespace bub {

/// The error kinds of Bub's vocabulary.
enum class ErrorKind : std::uint8_t {
    invalid_input,
    config,
    provider,
    tool,
    temporary,
    not_found,
    unknown,
};
std::string_view to_string(ErrorKind kind) noexcept;
/// Returns `unknown` if `text` does not name a kind.
ErrorKind parse_error_kind(std::string_view text) noexcept;

/// An error of the pipeline, e.g. one that a model's stream reported. `what()` is "[kind] message".
class TurnError : public cubepi::Error {
public:
    TurnError(ErrorKind kind, std::string message, cubepi::JsonObject details = {});
    ErrorKind kind() const noexcept { return kind_; }
    const std::string& message() const noexcept { return message_; }
    const cubepi::JsonObject& details() const noexcept { return details_; }

private:
    ErrorKind kind_;
    std::string message_;
    cubepi::JsonObject details_;
};

/// Converts the data of an `error` event: members other than kind, message and details are added to the details (B7).
TurnError error_from_event(const cubepi::JsonObject& data);

/// Returns a readable description of any exception.
std::string describe(const std::exception_ptr& error);

/// A failure whose text is written for the sender of a message: it names no part of the system (D98).
class SenderError : public cubepi::Error {
public:
    using cubepi::Error::Error;
};

/// Returns the text with which the sender of a message is told about a failure. Called on any thread.
using FailureText = std::function<std::string(const std::exception_ptr& failure)>;

/// The cause of a turn's failure, as far as it decides what becomes of the message (D90).
enum class FailureCause : std::uint8_t {
    turn,      ///< the turn itself: the sender is told
    busy,      ///< the session is in use by another process
    outage,    ///< storage that fails or is full, exhausted descriptors
    conflict,  ///< another process has continued the session, or its data is unreadable: trying again does not help
};
FailureCause cause_of(const std::exception_ptr& failure) noexcept;

namespace detail {
CUBEPI_DETAIL_SLOT(on_warning,
                   "on_warning must be callable as void (std::string text); a Task would never run")
}  // namespace detail

/// Receives the text of a warning.
using WarningHandler =
    cubepi::detail::SlotFunction<void(std::string text), detail::on_warning_slot>;

}  // namespace bub
