#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trace_span.hpp"

namespace cubepi::app {

/// Lines that were not used, of one or several files.
struct LineProblems {
    std::size_t malformed = 0;  ///< not a span
    std::size_t incomplete =
        0;  ///< a last line without its end: the writer is still writing, or was killed
    std::size_t too_long = 0;  ///< longer than longest_line
    std::size_t repeated = 0;  ///< spans that occur again; the last line counts

    std::size_t skipped() const noexcept { return malformed + incomplete + too_long; }
    LineProblems& operator+=(const LineProblems& other) noexcept;
};

/// "2 lines are not spans, 1 incomplete line at the end"; empty: none.
std::string describe(const LineProblems& problems);

/// Longer lines are skipped, which limits the memory for a damaged file. A recorded request with images may have tens of MB.
inline constexpr std::size_t longest_line = std::size_t{128} << 20U;

/// Splits bytes that arrive in pieces into lines. `offset` in the callback is that of the line in all bytes.
class LineBuffer {
public:
    using Line = std::function<void(std::string_view line, std::uint64_t offset)>;

    explicit LineBuffer(std::size_t longest = longest_line) : longest_(longest) {}
    void push(std::string_view bytes, const Line& line);
    /// The bytes after the last line feed; empty if they are too many.
    std::string_view rest() const noexcept { return rest_; }
    std::uint64_t rest_offset() const noexcept { return start_; }
    /// Lines so far that were too long, the current one included.
    std::size_t too_long() const noexcept { return too_long_ + (skipping_ ? 1 : 0); }

private:
    std::size_t longest_;
    std::string rest_;
    std::uint64_t start_ = 0;  // of rest_
    std::uint64_t read_ = 0;
    std::size_t too_long_ = 0;
    bool skipping_ = false;
};

/// Reads the spans of a trace file and adds the unused lines to `problems`. `file` is the number for their places. Memory
/// is limited by the longest line. Throws Error(io) or Error(invalid_argument) if the file cannot be read.
void read_spans(const std::filesystem::path& path, std::uint32_t file,
                const std::function<void(TraceSpan&&)>& add, LineProblems& problems);

/// Returns the line of a span with its content. An empty object if the file has changed.
JsonObject read_line(const std::filesystem::path& path, const SpanPlace& place);

/// The files that may belong to one trace: those of one name, in the directories of successive days.
struct TraceFiles {
    std::string name = {};  ///< of the files, without .jsonl: the trace's id
    std::string day =
        {};  ///< the first: "2026-11-21"; empty: the files are not in a directory of a day
    std::vector<std::filesystem::path> paths = {};
};

/// Lists the trace files of a directory and of its subdirectories, newest day first. Throws Error(not_found) if the directory
/// does not exist.
std::vector<TraceFiles> list_trace_files(const std::filesystem::path& directory);

/// Returns true for a name that is a trace's id: 32 hexadecimal digits.
bool is_trace_id(std::string_view name) noexcept;

}  // namespace cubepi::app
