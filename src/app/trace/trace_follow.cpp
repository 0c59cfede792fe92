#include "trace_follow.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/posix_file.hpp>

#include "../terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t read_size = std::size_t{64} << 10U;

/// Returns nothing while the directory does not exist.
std::vector<TraceFiles> files_of(const std::filesystem::path& directory) {
    std::error_code failed;
    if (!std::filesystem::is_directory(directory, failed)) return {};
    return list_trace_files(directory);
}

std::uint64_t size_of(const std::filesystem::path& path) {
    std::error_code failed;
    const std::uintmax_t size = std::filesystem::file_size(path, failed);
    return failed ? 0 : size;
}

}  // namespace

GrowingTraceFile::GrowingTraceFile(std::filesystem::path path)
    : path_(std::move(path)), lines_(std::make_unique<LineBuffer>()) {}

void GrowingTraceFile::start_over() {
    lines_ = std::make_unique<LineBuffer>();
    offset_ = 0;
}

void GrowingTraceFile::read(const std::function<void(TraceSpan)>& add) {
    const detail::UniqueFd file = detail::open_file(path_.c_str(), O_RDONLY);
    struct stat info = {};
    if (!file || fstat(file.get(), &info) != 0) return;
    if (inode_ != info.st_ino || static_cast<std::uint64_t>(info.st_size) < offset_) start_over();
    inode_ = info.st_ino;
    SpanParser parser;
    const LineBuffer::Line take = [&](std::string_view line, std::uint64_t) {
        if (std::optional<TraceSpan> span = parser.parse(line)) add(std::move(*span));
    };
    std::string buffer(read_size, '\0');
    while (true) {
        const auto count = detail::read_at(file.get(), offset_, buffer.data(), buffer.size());
        if (!count)
            throw Error(ErrorCode::io,
                        "cannot read '" + path_.string() + "': " + detail::errno_text(errno));
        lines_->push(std::string_view(buffer).substr(0, *count), take);
        offset_ += *count;
        if (*count < buffer.size()) return;
    }
}

FollowedTrace::FollowedTrace(std::filesystem::path directory, std::string name)
    : directory_(std::move(directory)), name_(std::move(name)) {
    if (name_.starts_with("0x")) name_.erase(0, 2);
    if (name_.ends_with(".jsonl")) add_files({name_});
}

std::vector<TraceSpan> FollowedTrace::poll() {
    if (!name_.ends_with(".jsonl")) look();
    std::vector<TraceSpan> spans;
    for (GrowingTraceFile& file : files_)
        file.read([&spans](TraceSpan span) { spans.push_back(std::move(span)); });
    for (const TraceSpan& span : spans)
        ended_ = ended_ || span.parent_id.empty() || span.has_remote_parent;
    return spans;
}

std::vector<std::filesystem::path> FollowedTrace::paths() const {
    std::vector<std::filesystem::path> paths;
    for (const GrowingTraceFile& file : files_) paths.push_back(file.path());
    return paths;
}

void FollowedTrace::look() {
    const std::vector<TraceFiles> all = files_of(directory_);
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

bool FollowedTrace::is_chosen(const TraceFiles& files) {
    if (!name_.empty()) return files.name.starts_with(name_);
    return std::any_of(files.paths.begin(), files.paths.end(), [this](const auto& path) {
        const auto known = std::find_if(sizes_.begin(), sizes_.end(),
                                        [&path](const auto& one) { return one.first == path; });
        return size_of(path) > (known == sizes_.end() ? 0 : known->second);
    });
}

void FollowedTrace::add_files(const std::vector<std::filesystem::path>& paths) {
    for (const auto& path : paths) {
        const bool known =
            std::any_of(files_.begin(), files_.end(),
                        [&path](const GrowingTraceFile& file) { return file.path() == path; });
        if (!known) files_.emplace_back(path);
    }
}

}  // namespace cubepi::app
