#include "trace_settings.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

namespace cubepi::app {

namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

std::filesystem::path expanded(const std::filesystem::path& path) {
    const std::string text = path.string();
    const std::string home = variable("HOME");
    if (home.empty() || !text.starts_with("~/")) return path;
    return std::filesystem::path(home) / text.substr(2);
}

}  // namespace

TraceSettings trace_settings(const TraceSettings& configured) {
    TraceSettings settings = configured;
    if (const std::string directory = variable("CUBEPI_TRACE"); !directory.empty())
        settings.directory = directory;
    settings.directory = expanded(settings.directory);
    const std::string content = variable("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
    if (!content.empty()) settings.content = content == "true" || content == "1";
    return settings;
}

}  // namespace cubepi::app
