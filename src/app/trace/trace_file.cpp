#include "trace_file.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <map>
#include <optional>
#include <system_error>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::app {

namespace {

constexpr std::size_t read_size = std::size_t{256} << 10U;
constexpr std::string_view extension = ".jsonl";
/// Files of record_stream, which are not spans.
constexpr std::string_view stream_extension = ".stream.jsonl";

detail::UniqueFd open_trace(const std::filesystem::path& path) {
    if (const std::string_view kind = detail::kind_if_not_regular(path); !kind.empty())
        throw Error(ErrorCode::invalid_argument,
                    "'" + path.string() + "' is " + std::string(kind) + ", not a trace file");
    detail::UniqueFd file = detail::open_file(path.c_str(), O_RDONLY);
    if (!file)
        throw Error(ErrorCode::io,
                    "cannot read '" + path.string() + "': " + detail::errno_text(errno));
    return file;
}

std::string counted(std::size_t count, std::string_view one, std::string_view many) {
    return std::to_string(count) + " " + std::string(count == 1 ? one : many);
}

bool is_day(std::string_view name) {
    if (name.size() != 10 || name[4] != '-' || name[7] != '-') return false;
    return std::count_if(name.begin(), name.end(),
                         [](unsigned char c) { return std::isdigit(c) != 0; }) == 8;
}

void add_files(const std::filesystem::path& directory, const std::string& day,
               std::map<std::string, TraceFiles>& found) {
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator(directory, failed)) {
        const std::string file = entry.path().filename().string();
        if (!file.ends_with(extension) || file.ends_with(stream_extension)) continue;
        const std::string name = file.substr(0, file.size() - extension.size());
        // Only an id is the same trace in several directories.
        const std::string key = is_trace_id(name) ? name : day + "/" + name;
        TraceFiles& files = found[key];
        if (files.paths.empty() || day < files.day) files.day = day;
        files.name = name;
        files.paths.push_back(entry.path());
    }
}

}  // namespace

LineProblems& LineProblems::operator+=(const LineProblems& other) noexcept {
    malformed += other.malformed;
    incomplete += other.incomplete;
    too_long += other.too_long;
    repeated += other.repeated;
    return *this;
}

std::string describe(const LineProblems& problems) {
    std::string text;
    const auto add = [&text](std::size_t count, std::string_view one, std::string_view many) {
        if (count == 0) return;
        text += (text.empty() ? "" : ", ") + counted(count, one, many);
    };
    add(problems.malformed, "line that is not a span", "lines that are not spans");
    add(problems.incomplete, "incomplete line at the end", "incomplete lines at the end of files");
    add(problems.too_long, "line of more than 128 MiB", "lines of more than 128 MiB");
    if (!text.empty()) text = "skipped " + text;
    add(problems.repeated, "span occurs more than once", "spans occur more than once");
    return text;
}

void LineBuffer::push(std::string_view bytes, const Line& line) {
    while (!bytes.empty()) {
        const std::size_t end = bytes.find('\n');
        const std::string_view part = bytes.substr(0, end);
        read_ += part.size();
        if (!skipping_ && rest_.size() + part.size() > longest_) {
            skipping_ = true;
            rest_ = std::string();
        }
        if (end == std::string_view::npos) {
            if (!skipping_) rest_ += part;
            return;
        }
        if (skipping_) {
            ++too_long_;
        } else if (rest_.empty()) {
            line(part, start_);
        } else {
            rest_ += part;
            line(rest_, start_);
        }
        skipping_ = false;
        rest_.clear();
        start_ = ++read_;
        bytes.remove_prefix(end + 1);
    }
}

void read_spans(const std::filesystem::path& path, std::uint32_t file,
                const std::function<void(TraceSpan&&)>& add, LineProblems& problems) {
    const detail::UniqueFd descriptor = open_trace(path);
    LineBuffer lines;
    SpanParser parser;
    const auto take = [&](std::string_view line, std::uint64_t offset) {
        if (line.find_first_not_of(" \t\r") == std::string_view::npos) return true;
        std::optional<TraceSpan> span = parser.parse(line);
        if (!span) return false;
        span->place = SpanPlace{file, static_cast<std::uint32_t>(line.size()), offset};
        add(std::move(*span));
        return true;
    };
    const LineBuffer::Line line = [&](std::string_view text, std::uint64_t offset) {
        if (!take(text, offset)) ++problems.malformed;
    };
    std::string buffer(read_size, '\0');
    std::uint64_t offset = 0;
    while (true) {
        const auto count = detail::read_at(descriptor.get(), offset, buffer.data(), buffer.size());
        if (!count)
            throw Error(ErrorCode::io,
                        "cannot read '" + path.string() + "': " + detail::errno_text(errno));
        lines.push(std::string_view(buffer).substr(0, *count), line);
        offset += *count;
        if (*count < buffer.size()) break;
    }
    if (!take(lines.rest(), lines.rest_offset())) ++problems.incomplete;
    problems.too_long += lines.too_long();
}

JsonObject read_line(const std::filesystem::path& path, const SpanPlace& place) {
    const detail::UniqueFd descriptor = open_trace(path);
    std::string line(place.bytes, '\0');
    const auto count = detail::read_at(descriptor.get(), place.offset, line.data(), line.size());
    if (!count || *count != line.size()) return {};
    try {
        Json value = parse_lenient(line);
        return value.is_object() ? std::move(value.get_object()) : JsonObject();
    } catch (const Error&) {
        return {};
    }
}

std::vector<TraceFiles> list_trace_files(const std::filesystem::path& directory) {
    std::error_code failed;
    std::filesystem::directory_iterator entries(directory, failed);
    if (failed)
        throw Error(ErrorCode::not_found, "cannot read the directory of traces '" +
                                              directory.string() + "': " + failed.message() +
                                              "; name it with --dir or CUBEPI_TRACE");
    std::map<std::string, TraceFiles> found;
    add_files(directory, "", found);
    for (const auto& entry : entries) {
        const std::string name = entry.path().filename().string();
        if (entry.is_directory(failed)) add_files(entry.path(), is_day(name) ? name : "", found);
    }
    std::vector<TraceFiles> list;
    list.reserve(found.size());
    for (auto& [key, files] : found) {
        std::sort(files.paths.begin(), files.paths.end());
        list.push_back(std::move(files));
    }
    // Files without a day can be of any time: they come first, so that nothing newer is found after them.
    std::sort(list.begin(), list.end(), [](const TraceFiles& a, const TraceFiles& b) {
        if (a.day.empty() != b.day.empty()) return a.day.empty();
        return a.day != b.day ? a.day > b.day : a.name < b.name;
    });
    return list;
}

bool is_trace_id(std::string_view name) noexcept {
    return name.size() == 32 && std::all_of(name.begin(), name.end(),
                                            [](unsigned char c) { return std::isxdigit(c) != 0; });
}

}  // namespace cubepi::app
