#include <cubepi/tracing/jsonl_exporter.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <utility>
#include <vector>

#include <cubepi/core/offload.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/tracing/export/private_directories.hpp>
#include <cubepi/tracing/export/span_json.hpp>

namespace cubepi {

namespace {

using detail::UniqueFd;

std::string date_of(std::chrono::system_clock::time_point time) {
    std::string text;
    detail::append_iso_time(text, time);
    text.resize(10);
    return text;
}

std::string file_name(const TraceId& trace) {
    return (trace.valid() ? trace.hex() : std::string("unknown-trace")) + ".jsonl";
}

std::string failure(const char* what, const std::filesystem::path& path, int error) {
    std::string text =
        std::string("cannot ") + what + " " + path.string() + ": " + detail::errno_text(error);
    if (detail::is_out_of_space(error)) text += "; free space or choose another directory";
    return text;
}

/// Returns true if the file does not end with a complete line.
bool ends_inside_line(int fd) {
    struct stat status{};
    if (::fstat(fd, &status) != 0 || status.st_size == 0) return false;
    char last = '\n';
    const auto position = static_cast<std::uint64_t>(status.st_size) - 1;
    return detail::read_at(fd, position, &last, 1) == std::size_t{1} && last != '\n';
}

/// The file of a trace, as far as this process knows it.
struct TraceFile {
    std::string date = {};
    bool check_end = true;  // its last line may be incomplete
};

/// The files of the traces that were written to last. Bounded.
class TraceFiles {
public:
    /// Returns the entry of a trace, with an empty date if it is new.
    TraceFile& find(const TraceId& trace) {
        if (const auto found = recent_.find(trace); found != recent_.end()) return found->second;
        if (recent_.size() >= limit) older_ = std::exchange(recent_, {});
        TraceFile& file = recent_[trace];
        if (const auto found = older_.find(trace); found != older_.end()) file = found->second;
        return file;
    }

private:
    static constexpr std::size_t limit = 4096;
    std::map<TraceId, TraceFile> recent_;
    std::map<TraceId, TraceFile> older_;
};

using SpanPointers = std::vector<const SpanData*>;

}  // namespace

struct JsonlSpanExporter::State {
    explicit State(std::filesystem::path where) : directory(std::move(where)) {}

    ExportResult write(const SpanBatch& batch, const std::shared_ptr<const Resource>& of);
    std::string date_for(const TraceId& trace, const SpanPointers& spans) const;
    std::string append(TraceFile& file, const std::filesystem::path& path, std::string lines);
    UniqueFd open(const std::filesystem::path& path) const;

    const std::filesystem::path directory;
    /// A thread of its own: a disk that hangs must not keep other exporters or stores waiting.
    const std::shared_ptr<WorkerPool> writer = std::make_shared<WorkerPool>(1, "cubepi-traces");
    std::atomic<bool> writing = false;
    // Used by the writer's thread only.
    TraceFiles files;
    std::shared_ptr<const Resource> resource;
    std::string resource_text;
};

namespace {

/// Marks a write in progress, until end() or, if the write is never made, the destructor.
class Writing {
public:
    explicit Writing(std::atomic<bool>& flag) : flag_(&flag) {}
    ~Writing() { end(); }
    void end() noexcept {
        if (flag_ != nullptr) *std::exchange(flag_, nullptr) = false;
    }
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

private:
    std::atomic<bool>* flag_;
};

}  // namespace

JsonlSpanExporter::JsonlSpanExporter(std::filesystem::path directory)
    : state_(std::make_shared<State>(std::move(directory))) {}

JsonlSpanExporter::~JsonlSpanExporter() = default;

ExportLimits JsonlSpanExporter::limits() {
    ExportLimits limits;
    limits.delay = std::chrono::milliseconds(200);
    return limits;
}

Task<ExportResult> JsonlSpanExporter::export_spans(SpanBatch batch,
                                                   std::shared_ptr<const Resource> resource) {
    if (state_->writing.exchange(true)) {
        // After a time limit. The batch must not wait for the thread too: nothing limits that queue.
        ExportResult busy;
        busy.rejected = batch.size();
        busy.error = "the previous write to " + state_->directory.string() +
                     " has not ended: check the disk";
        co_return busy;
    }
    auto writing = std::make_shared<Writing>(state_->writing);
    auto write = [state = state_, writing = std::move(writing), batch = std::move(batch),
                  resource = std::move(resource)] {
        ExportResult result = state->write(batch, resource);
        writing->end();
        return result;
    };
    Task<ExportResult> written = offload(*state_->writer, std::move(write));
    co_return co_await std::move(written);
}

ExportResult JsonlSpanExporter::State::write(const SpanBatch& batch,
                                             const std::shared_ptr<const Resource>& of) {
    if (resource != of) {
        resource = of;
        resource_text = detail::resource_json(*of);
    }
    std::map<TraceId, SpanPointers> traces;
    for (const auto& span : batch) traces[span->context.trace_id].push_back(span.get());
    ExportResult result;
    for (const auto& [trace, spans] : traces) {
        TraceFile& file = files.find(trace);
        if (file.date.empty()) file.date = date_for(trace, spans);
        std::string lines;
        for (const SpanData* span : spans) detail::append_span_line(lines, *span, resource_text);
        const std::string error =
            append(file, directory / file.date / file_name(trace), std::move(lines));
        if (error.empty()) continue;
        result.rejected += spans.size();
        if (result.error.empty()) result.error = error;
    }
    return result;
}

/// The date of the trace's start. The spans here may be children that ended first, of a trace that started in another process,
/// so that a file of the day before is continued.
std::string JsonlSpanExporter::State::date_for(const TraceId& trace,
                                               const SpanPointers& spans) const {
    const SpanData* first = spans.front();
    for (const SpanData* span : spans) {
        if (span->start < first->start) first = span;
    }
    std::string date = date_of(first->start);
    if (!first->parent.valid()) return date;
    const std::string before = date_of(first->start - std::chrono::days(1));
    std::error_code ignored;
    const bool continues = std::filesystem::exists(directory / before / file_name(trace), ignored);
    return continues ? before : date;
}

UniqueFd JsonlSpanExporter::State::open(const std::filesystem::path& path) const {
    // O_NONBLOCK, because opening a pipe that no process reads would never return.
    constexpr int flags = O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK;
    UniqueFd file = detail::open_file(path.c_str(), flags, 0600);
    if (!file && errno == ENOENT) {
        detail::make_private_directories(path.parent_path());
        file = detail::open_file(path.c_str(), flags, 0600);
    }
    return file;
}

/// Returns the error; empty if all was written.
std::string JsonlSpanExporter::State::append(TraceFile& file, const std::filesystem::path& path,
                                             std::string lines) {
    const UniqueFd fd = open(path);
    if (!fd) return failure("open", path, errno);
    // Only so that ends_inside_line() does not see half of another process's write; without the lock the worst is an empty line.
    (void)detail::try_flock(fd.get(), detail::LockKind::exclusive);
    if (file.check_end && ends_inside_line(fd.get())) lines.insert(0, "\n");
    file.check_end = !detail::write_all(fd.get(), lines);
    return file.check_end ? failure("write to", path, errno) : std::string();
}

}  // namespace cubepi
