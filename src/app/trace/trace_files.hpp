#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "span.hpp"

namespace cubepi::app {

/// Lines that were not used, of one or several files.
struct LineProblems {
    std::size_t malformed = 0;  ///< not a span
    std::size_t incomplete =
        0;                     ///< a last line without its end: its writer continues or was killed
    std::size_t too_long = 0;  ///< longer than longest_line
    std::size_t repeated = 0;  ///< spans that occur again; the last line counts

    LineProblems& operator+=(const LineProblems& other) noexcept;
};

/// "skipped 2 lines that are not spans, 1 incomplete line at the end"; empty: none.
std::string describe(const LineProblems& problems);

/// Longer lines are skipped, which limits the memory for a damaged file. A recorded request with images may have tens of MB.
inline constexpr std::size_t longest_line = std::size_t{128} << 20U;

/// The bytes of a file after its last line feed.
struct LineRest {
    std::string text = {};     ///< empty if it is too long
    std::uint64_t offset = 0;  ///< of the text: the place to continue at when the file has grown
    std::size_t too_long = 0;  ///< lines that were skipped, the rest included
};

/// Calls `line` with each complete line from `offset` to the end of an open file, and with the line's offset. Throws Error(io)
/// that names `path`. `longest` and `piece` (the bytes of one call of read(2)) are for tests.
LineRest read_lines(int file, const std::filesystem::path& path, std::uint64_t offset,
                    const std::function<void(std::string_view line, std::uint64_t offset)>& line,
                    std::size_t longest = longest_line,
                    std::size_t piece = std::size_t{256} << 10U);

/// Reads the spans of a trace file and adds the unused lines to `problems`. `file` is the number for their places. Memory
/// is limited by the longest line. Throws Error(io) or Error(invalid_argument) if the file cannot be read.
void read_spans(const std::filesystem::path& path, std::uint32_t file,
                const std::function<void(TraceSpan&&)>& add, LineProblems& problems);

/// Returns the line of a span with its content. An empty object if the file has changed.
JsonObject read_line(const std::filesystem::path& path, const SpanPlace& place);

/// The files that may belong to one trace: those of one name, in the directories of successive days.
struct TraceFiles {
    std::string name = {};  ///< of the files, without .jsonl: the trace's id
    std::string day = {};   ///< the first: "2026-11-21"; empty: not in a directory of a day
    std::vector<std::filesystem::path> paths = {};
};

/// Lists the trace files of a directory and of its subdirectories, newest day first. Throws Error(not_found) if the directory
/// does not exist.
std::vector<TraceFiles> list_trace_files(const std::filesystem::path& directory);

/// Returns true for a name that is a trace's id: 32 hexadecimal digits.
bool is_trace_id(std::string_view name) noexcept;

/// A trace that is being written. Spans are in its files when they have ended, those below a span before it. A file that was
/// replaced or became shorter is read again from its beginning.
class FollowedTrace {
public:
    /// `name`: a trace's id, its beginning, or a file; empty: the first trace that grows from now on.
    FollowedTrace(std::filesystem::path directory, std::string name);

    /// Searches the trace, if it is not known yet, and returns its spans since the last call. Throws Error(invalid_argument) if
    /// several traces begin with the name.
    std::vector<TraceSpan> poll();
    /// True if the root has ended, or the span whose parent is in another program: nothing follows.
    bool ended() const noexcept { return ended_; }
    bool found() const noexcept { return !files_.empty(); }
    std::vector<std::filesystem::path> paths() const;

private:
    struct File {
        std::filesystem::path path = {};
        std::uint64_t offset = 0;  // of the first byte that was not used
        std::uint64_t inode = 0;
    };
    static void read(File& file, std::vector<TraceSpan>& spans);
    void search();
    bool is_chosen(const TraceFiles& files) const;
    void add_files(const std::vector<std::filesystem::path>& paths);

    std::filesystem::path directory_;
    std::string name_;
    std::vector<std::pair<std::filesystem::path, std::uint64_t>> sizes_;  // when following began
    bool has_begun_ = false;
    std::vector<File> files_;
    bool ended_ = false;
};

}  // namespace cubepi::app
