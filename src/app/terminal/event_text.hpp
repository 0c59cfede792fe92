#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <cubepi/core/json.hpp>
#include <cubepi/core/notice.hpp>

namespace cubepi::app {

// Formats times, counts and arguments for the views of a run.

/// "12,345"
std::string count_text(std::int64_t count);
/// The same in a short form: "12.3k".
std::string short_count_text(std::int64_t count);

/// "just now", "1 minute ago", "2 days ago".
std::string age_text(std::chrono::seconds age);

/// "path: src, limit: 3", on one line.
std::string arguments_text(const JsonObject& args);
/// The arguments with several lines or many characters, each under its name. Cut at 64 KiB each.
std::string long_arguments_text(const JsonObject& args);

/// Returns false for notices whose content the terminal shows elsewhere: the end of a question.
bool shows_notice(const Notice& notice) noexcept;

}  // namespace cubepi::app
