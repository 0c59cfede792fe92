#include "log_setup.hpp"

#include <cstdlib>
#include <memory>

#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/runtime.hpp>

#include "terminal/terminal_stream.hpp"
#include "terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

LogLevel level_of(const std::string& text, const std::string& source) {
    if (const std::optional<LogLevel> level = parse_log_level(text)) return *level;
    throw Error(
        ErrorCode::invalid_argument,
        source + ": '" + text + "' is not a log level; use debug, info, warning, error or off");
}

LogFormat format_of(const std::string& text, const std::string& source) {
    if (text == "text") return LogFormat::text;
    if (text == "json") return LogFormat::json;
    throw Error(ErrorCode::invalid_argument,
                source + ": '" + text + "' is not a log format; use text or json");
}

/// systemd sets JOURNAL_STREAM to the device and inode of its socket, also for children that have another standard error.
bool is_journal(int descriptor) {
    struct stat info = {};
    if (fstat(descriptor, &info) != 0) return false;
    return variable("JOURNAL_STREAM") ==
           std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
}

/// The format of the log, if it is on.
std::optional<LogFormat>& log_format() {
    static std::optional<LogFormat> format;
    return format;
}

}  // namespace

LogSettings log_settings(const LogFlags& flags, std::string_view variable) {
    constexpr const char* source = "CUBEPI_LOG";
    LogSettings settings;
    if (!variable.empty()) {
        const std::size_t colon = variable.find(':');
        settings.level = level_of(std::string(variable.substr(0, colon)), source);
        if (colon != std::string_view::npos)
            settings.format = format_of(std::string(variable.substr(colon + 1)), source);
    }
    if (!flags.level.empty()) settings.level = level_of(flags.level, "--log-level");
    if (!flags.format.empty()) {
        settings.format = format_of(flags.format, "--log-format");
        if (settings.level == LogLevel::off && flags.level.empty())
            settings.level = LogLevel::info;  // the format alone asks for a log
    }
    return settings;
}

void set_up_log(const LogFlags& flags, bool chat) {
    const LogSettings settings = log_settings(flags, variable("CUBEPI_LOG"));
    if (settings.level == LogLevel::off) return;
    if (chat && isatty(STDERR_FILENO) == 1) {
        throw Error(ErrorCode::invalid_argument,
                    "the log would be mixed with the chat; write it to a file: cubepi chat "
                    "2> cubepi.log");
    }
    const LogFormat format =
        settings.format.value_or(is_journal(STDERR_FILENO) ? LogFormat::journal : LogFormat::text);
    auto sink = std::make_shared<StreamLogSink>(log_output(), format);
    log_format() = format;
    Runtime::set_standard_log(Logger(std::move(sink), settings.level));
}

void warn_operator(const std::string& text) {
    if (log_format() == LogFormat::json) return;
    const bool has_priority =
        log_format().value_or(LogFormat::text) == LogFormat::journal || is_journal(STDERR_FILENO);
    if (has_priority) err() << "<4>";
    err() << "cubepi: " << for_terminal(text) << "\n";
}

}  // namespace cubepi::app
