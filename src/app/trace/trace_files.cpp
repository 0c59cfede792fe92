#include "trace_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <map>
#include <optional>
#include <system_error>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/schema/python_json.hpp>

#include "../terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

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

bool is_day(std::string_view name) {
    if (name.size() != 10 || name[4] != '-' || name[7] != '-') return false;
    return std::count_if(name.begin(), name.end(),
                         [](unsigned char c) { return std::isdigit(c) != 0; }) == 8;
}

void add_files_of(const std::filesystem::path& directory, const std::string& day,
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

std::uint64_t size_of(const std::filesystem::path& path) {
    std::error_code failed;
    const std::uintmax_t size = std::filesystem::file_size(path, failed);
    return failed ? 0 : size;
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
    const auto add = [&text](std::size_t count, const std::string& one, const std::string& many) {
        if (count == 0) return;
        text +=
            (text.empty() ? "" : ", ") + std::to_string(count) + " " + (count == 1 ? one : many);
    };
    add(problems.malformed, "line that is not a span", "lines that are not spans");
    add(problems.incomplete, "incomplete line at the end", "incomplete lines at the end of files");
    add(problems.too_long, "line of more than 128 MiB", "lines of more than 128 MiB");
    if (!text.empty()) text = "skipped " + text;
    add(problems.repeated, "span occurs more than once", "spans occur more than once");
    return text;
}

LineRest read_lines(int file, const std::filesystem::path& path, std::uint64_t offset,
                    const std::function<void(std::string_view, std::uint64_t)>& line,
                    std::size_t longest, std::size_t piece) {
    LineRest rest;
    rest.offset = offset;
    bool skips = false;  // the current line is too long
    std::string buffer(piece, '\0');
    while (true) {
        const auto count = detail::read_at(file, offset, buffer.data(), buffer.size());
        if (!count)
            throw Error(ErrorCode::io,
                        "cannot read '" + path.string() + "': " + detail::errno_text(errno));
        std::string_view bytes = std::string_view(buffer).substr(0, *count);
        while (!bytes.empty()) {
            const std::size_t end = bytes.find('\n');
            const std::string_view part = bytes.substr(0, end);
            if (!skips && rest.text.size() + part.size() > longest) {
                skips = true;
                ++rest.too_long;
                rest.text = std::string();
            }
            if (!skips && (end == std::string_view::npos || !rest.text.empty())) rest.text += part;
            if (end == std::string_view::npos) break;
            if (!skips) line(rest.text.empty() ? part : rest.text, rest.offset);
            skips = false;
            rest.text.clear();
            bytes.remove_prefix(end + 1);
            rest.offset = offset + *count - bytes.size();
        }
        offset += *count;
        if (*count < buffer.size()) return rest;
    }
}

void read_spans(const std::filesystem::path& path, std::uint32_t file,
                const std::function<void(TraceSpan&&)>& add, LineProblems& problems) {
    const auto use = [&](std::string_view line, std::uint64_t offset) {
        if (line.find_first_not_of(" \t\r") == std::string_view::npos) return true;
        std::optional<TraceSpan> span = parse_span(line);
        if (!span) return false;
        span->place = SpanPlace{file, static_cast<std::uint32_t>(line.size()), offset};
        add(std::move(*span));
        return true;
    };
    const detail::UniqueFd descriptor = open_trace(path);
    const LineRest rest =
        read_lines(descriptor.get(), path, 0, [&](std::string_view line, std::uint64_t offset) {
            if (!use(line, offset)) ++problems.malformed;
        });
    if (!use(rest.text, rest.offset)) ++problems.incomplete;
    problems.too_long += rest.too_long;
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
    add_files_of(directory, "", found);
    for (const auto& entry : entries) {
        const std::string name = entry.path().filename().string();
        if (entry.is_directory(failed)) add_files_of(entry.path(), is_day(name) ? name : "", found);
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

FollowedTrace::FollowedTrace(std::filesystem::path directory, std::string name)
    : directory_(std::move(directory)), name_(std::move(name)) {
    if (name_.starts_with("0x")) name_.erase(0, 2);
    if (name_.ends_with(extension)) add_files({name_});
}

std::vector<TraceSpan> FollowedTrace::poll() {
    if (!name_.ends_with(extension)) search();
    std::vector<TraceSpan> spans;
    for (File& file : files_) read(file, spans);
    for (const TraceSpan& span : spans)
        ended_ = ended_ || span.parent_id.empty() || span.has_remote_parent;
    return spans;
}

void FollowedTrace::read(File& file, std::vector<TraceSpan>& spans) {
    const detail::UniqueFd descriptor = detail::open_file(file.path.c_str(), O_RDONLY);
    struct stat info = {};
    if (!descriptor || fstat(descriptor.get(), &info) != 0) return;
    const bool is_other = file.inode != info.st_ino;
    if (is_other || static_cast<std::uint64_t>(info.st_size) < file.offset) file.offset = 0;
    file.inode = info.st_ino;
    file.offset = read_lines(descriptor.get(), file.path, file.offset,
                             [&spans](std::string_view line, std::uint64_t) {
                                 if (std::optional<TraceSpan> span = parse_span(line))
                                     spans.push_back(std::move(*span));
                             })
                      .offset;
}

void FollowedTrace::search() {
    std::error_code failed;
    std::vector<TraceFiles> all;
    if (std::filesystem::is_directory(directory_, failed)) all = list_trace_files(directory_);
    if (!std::exchange(has_begun_, true)) {
        for (const TraceFiles& files : all) {
            for (const auto& path : files.paths) sizes_.emplace_back(path, size_of(path));
        }
    }
    std::vector<const TraceFiles*> chosen;
    for (const TraceFiles& files : all) {
        if (files.name == name_) {
            chosen = {&files};
            break;
        }
        if (is_chosen(files)) chosen.push_back(&files);
    }
    if (chosen.size() > 1 && !name_.empty())
        throw Error(ErrorCode::invalid_argument, "several traces begin with '" + printable(name_) +
                                                     "'; name one of them with more digits");
    if (chosen.empty()) return;
    name_ = chosen.front()->name;
    add_files(chosen.front()->paths);
}

bool FollowedTrace::is_chosen(const TraceFiles& files) const {
    if (!name_.empty()) return files.name.starts_with(name_);
    return std::any_of(files.paths.begin(), files.paths.end(), [this](const auto& path) {
        const auto known = std::find_if(sizes_.begin(), sizes_.end(),
                                        [&path](const auto& one) { return one.first == path; });
        return size_of(path) > (known == sizes_.end() ? 0 : known->second);
    });
}

void FollowedTrace::add_files(const std::vector<std::filesystem::path>& paths) {
    for (const auto& path : paths) {
        const bool known = std::any_of(files_.begin(), files_.end(),
                                       [&path](const File& file) { return file.path == path; });
        if (!known) files_.push_back(File{path, 0, 0});
    }
}

std::vector<std::filesystem::path> FollowedTrace::paths() const {
    std::vector<std::filesystem::path> paths;
    for (const File& file : files_) paths.push_back(file.path);
    return paths;
}

}  // namespace cubepi::app
