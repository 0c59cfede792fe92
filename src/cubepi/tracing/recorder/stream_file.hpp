#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <cubepi/core/agent_event.hpp>
#include <cubepi/tracing/recorder/content.hpp>
#include <cubepi/tracing/recorder/stream_writer.hpp>

namespace cubepi::detail {

/// The deltas of a run, one JSON object per line, for debugging. Used by one run.
class StreamFile {
public:
    using Time = std::chrono::steady_clock::time_point;

    /// The file `<run id>.stream.jsonl` of the writer, which must outlive this object.
    StreamFile(StreamWriter& writer, const std::string& run_id, const ContentFilter& content,
               Time start);

    void write(const StreamEvent& event, Time now);

private:
    void write_line(JsonObject line);
    JsonObject line_of(const char* type, Time now) const;
    void write_call_start(const StreamEvent& event, JsonObject line);
    void write_call_end(const StreamEvent& event, JsonObject line);
    void add_preview(JsonObject& line, const char* key, std::string_view text) const;

    StreamWriter& writer_;
    const ContentFilter& content_;
    const Time start_;
    const std::shared_ptr<StreamWriter::File> file_;
    std::map<std::int32_t, std::size_t> argument_sizes_;  // by content index
};

}  // namespace cubepi::detail
