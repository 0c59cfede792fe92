#pragma once

#include <filesystem>

namespace cubepi::app {

/// The key `trace` of the configuration file: a directory, or a mapping of `directory` and `content`.
struct TraceSettings {
    std::filesystem::path directory = {};  ///< of trace files; empty: none are written
    bool content = false;                  ///< records prompts, answers, arguments and results
};

/// Returns the settings in effect: the variables CUBEPI_TRACE (a directory) and
/// OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT (true or false) take precedence over the configuration file. A leading
/// `~/` is the home directory.
TraceSettings trace_settings(const TraceSettings& configured);

}  // namespace cubepi::app
