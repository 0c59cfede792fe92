#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trace_file.hpp"
#include "trace_filter.hpp"

namespace cubepi::app {

/// Reads the spans that are appended to a file. A file that was replaced or became shorter is read again from its beginning; one
/// that is missing has no spans.
class GrowingTraceFile {
public:
    explicit GrowingTraceFile(std::filesystem::path path);

    const std::filesystem::path& path() const noexcept { return path_; }
    /// Passes on the complete lines since the last call; a line that is not a span is skipped. Throws Error(io).
    void read(const std::function<void(TraceSpan)>& add);

private:
    void start_over();

    std::filesystem::path path_;
    std::unique_ptr<LineBuffer> lines_;
    std::uint64_t offset_ = 0;
    std::uint64_t inode_ = 0;
};

/// A trace that is being written. Spans are in its files when they have ended, those below a span before it.
class FollowedTrace {
public:
    /// `name`: a trace's id, its beginning, or a file; empty: the first trace that grows from now on.
    FollowedTrace(std::filesystem::path directory, std::string name);

    /// Looks for the trace, if it is not known yet, and returns its spans since the last call. Throws Error(invalid_argument) if
    /// several traces begin with the name.
    std::vector<TraceSpan> poll();
    /// True if the root has ended, or the span whose parent is in another program: nothing follows.
    bool ended() const noexcept { return ended_; }
    bool found() const noexcept { return !files_.empty(); }
    std::vector<std::filesystem::path> paths() const;

private:
    void look();
    bool is_chosen(const TraceFiles& files);
    void add_files(const std::vector<std::filesystem::path>& paths);

    std::filesystem::path directory_;
    std::string name_;
    std::vector<std::pair<std::filesystem::path, std::uint64_t>> sizes_;  // when following began
    bool has_begun_ = false;
    std::vector<GrowingTraceFile> files_;
    bool ended_ = false;
};

}  // namespace cubepi::app
