#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <cubepi/core/agent_event.hpp>
#include <cubepi/tracing/recorder/content.hpp>

namespace cubepi::detail {

/// Appends lines to files on a thread of its own, so that a run never waits for a disk. The thread starts with the first line.
/// Thread-safe. In a child process of fork() there is no thread, and every line is dropped.
class StreamWriter {
public:
    class File;
    /// The bytes of lines that wait for the thread; further lines are dropped and counted.
    static constexpr std::size_t max_waiting_bytes = std::size_t{4} << 20U;

    /// The directory is created with the first line.
    StreamWriter(std::filesystem::path directory, std::shared_ptr<LossReport> losses);
    /// Calls close() with a limit of 5 s.
    ~StreamWriter();
    StreamWriter(const StreamWriter&) = delete;
    StreamWriter& operator=(const StreamWriter&) = delete;

    /// Returns the file of that name, which is opened with its first line: readable only by its owner, continued if it exists.
    std::shared_ptr<File> open(const std::string& name) const;
    /// Appends a line, which ends with a line feed. Does not block.
    void write(std::shared_ptr<File> file, std::string line) noexcept;
    /// Waits until the lines so far are written. Returns false after `limit`.
    bool flush(std::chrono::milliseconds limit);
    /// Writes what waits and ends the thread. After `limit` the thread is left to itself, and what it has not written is counted as
    /// lost. Returns false in this case. Later lines are dropped.
    bool close(std::chrono::milliseconds limit);

private:
    struct State;
    bool start() noexcept;

    const std::filesystem::path directory_;
    const std::shared_ptr<State> state_;
    const unsigned process_;
    std::thread thread_;  // guarded by the mutex of the state
};

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
    const ContentFilter content_;
    const Time start_;
    const std::shared_ptr<StreamWriter::File> file_;
    std::map<std::int32_t, std::size_t> argument_sizes_;  // by content index
};

}  // namespace cubepi::detail
