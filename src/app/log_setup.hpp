#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/log.hpp>

namespace cubepi::app {

/// The options of the log as given; empty: not given.
struct LogFlags {
    std::string level = {};   ///< --log-level
    std::string format = {};  ///< --log-format
};

struct LogSettings {
    LogLevel level = LogLevel::off;
    std::optional<LogFormat> format = {};  ///< absent: what fits standard error
};

/// Returns the settings of the flags, else of `variable`, the value of CUBEPI_LOG: LEVEL or LEVEL:FORMAT. Throws
/// Error(invalid_argument).
LogSettings log_settings(const LogFlags& flags, std::string_view variable);

/// Sets the log of the default runtime, which writes to standard error: with priorities if that is systemd's journal. `chat`: in a chat
/// standard error must not be the terminal. Throws Error(invalid_argument).
void set_up_log(const LogFlags& flags, bool chat);

/// Writes a warning of a service to standard error, for its operator: with a priority if that is systemd's journal. Omitted if the log is
/// on and its lines are JSON, which the text would break; the part that warns logs an event.
void warn_operator(const std::string& text);

}  // namespace cubepi::app
