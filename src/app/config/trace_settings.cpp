#include "trace_settings.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

#include "paths.hpp"

namespace cubepi::app {

namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

}  // namespace

TraceSettings trace_settings(const TraceSettings& configured) {
    TraceSettings settings = configured;
    if (const std::string directory = variable("CUBEPI_TRACE"); !directory.empty())
        settings.directory = directory;
    settings.directory = expand_home(settings.directory);
    const std::string content = variable("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
    if (!content.empty()) settings.content = content == "true" || content == "1";
    return settings;
}

}  // namespace cubepi::app
