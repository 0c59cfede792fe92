#pragma once

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <cubepi/core/agent_event.hpp>
#include <cubepi/tracing/recorder/content.hpp>

namespace cubepi::detail {

/// The deltas of a run, one JSON object per line, for debugging. Write errors end the file silently. Used by one run.
class StreamFile {
public:
    using Time = std::chrono::steady_clock::time_point;

    /// Creates `<directory>/<run id>.stream.jsonl`, readable only by its owner; one that exists is continued.
    StreamFile(const std::filesystem::path& directory, const std::string& run_id,
               const ContentFilter& content, Time start);

    void write(const StreamEvent& event, Time now);

private:
    struct Close {
        void operator()(std::FILE* file) const noexcept { (void)std::fclose(file); }
    };
    void write_line(JsonObject line);
    JsonObject line_of(const char* type, Time now) const;
    void write_call_start(const StreamEvent& event, JsonObject line);
    void write_call_end(const StreamEvent& event, JsonObject line);
    void add_preview(JsonObject& line, const char* key, std::string_view text) const;

    const ContentFilter& content_;
    const Time start_;
    std::unique_ptr<std::FILE, Close> file_;
    std::map<std::int32_t, std::size_t> argument_sizes_;  // by content index
};

}  // namespace cubepi::detail
