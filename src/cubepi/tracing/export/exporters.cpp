#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <ostream>
#include <utility>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cubepi/core/number_text.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/tracing/console_exporter.hpp>
#include <cubepi/tracing/export/span_json.hpp>
#include <cubepi/tracing/jsonl_exporter.hpp>
#include <cubepi/tracing/memory_exporters.hpp>
#include <cubepi/tracing/metric_data.hpp>

namespace cubepi {

namespace {

constexpr std::size_t longest_value = 60;

/// One line without control characters, cut to its limit.
std::string shortened(std::string_view text) {
    const bool cut = text.size() > longest_value;
    if (cut) {
        text = text.substr(0, longest_value);
        text = text.substr(0, complete_utf8_prefix(text));
    }
    std::string clean = replace_broken_utf8(text);
    for (std::size_t i = 0; i < clean.size(); ++i) {
        const auto c = static_cast<unsigned char>(clean[i]);
        if (c < 0x20 || c == 0x7f) clean[i] = ' ';
        // U+0080 to U+009F, which are two bytes.
        if (c != 0xc2 || static_cast<unsigned char>(clean[i + 1]) > 0x9f) continue;
        clean[i] = ' ';
        clean[i + 1] = ' ';
    }
    return cut ? clean + "…" : clean;
}

std::string value_text(const AttributeValue& value) {
    if (const auto text = value.if_text()) return shortened(*text);
    if (const bool* truth = value.if_boolean()) return *truth ? "true" : "false";
    if (const std::int64_t* integer = value.if_integer()) return std::to_string(*integer);
    if (const double* number = value.if_number()) return number_text(*number);
    std::string list;
    for (const SharedString& one : *value.if_list()) list += (list.empty() ? "" : ",") + one.str();
    return shortened(list);
}

std::string line_of(const SpanData& span) {
    std::string time;
    detail::append_iso_time(time, span.start);
    std::string line = time.substr(11, 12) + "  " + shortened(span.name) + "  " +
                       seconds_text(span.end - span.start);
    if (span.status == SpanStatus::error) {
        line += "  error";
        if (!span.status_description.empty()) line += ": " + shortened(span.status_description);
    } else {
        line += "  ok";
    }
    for (const Attribute& one : span.attributes)
        line += "  " + shortened(one.key) + "=" + value_text(one.value);
    line += "  trace=" + span.context.trace_id.hex() + " span=" + span.context.span_id.hex();
    if (span.parent.valid()) line += " parent=" + span.parent.hex();
    return line + "\n";
}

/// Writes `text`, which has `items` spans or data points.
ExportResult write(std::ostream& out, const std::string& text, std::size_t items) {
    out << text << std::flush;
    ExportResult result;
    if (!out) {
        out.clear();
        result.rejected = items;
        result.error = "cannot write to the stream";
    }
    return result;
}

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

ConsoleSpanExporter::ConsoleSpanExporter(std::ostream& out) : out_(out) {}

Task<ExportResult> ConsoleSpanExporter::export_spans(SpanBatch batch,
                                                     std::shared_ptr<const Resource>) {
    std::string lines;
    for (const auto& span : batch) lines += line_of(*span);
    co_return write(out_, lines, batch.size());
}

ConsoleMetricExporter::ConsoleMetricExporter(std::ostream& out) : out_(out) {}

Task<ExportResult> ConsoleMetricExporter::export_metrics(
    std::shared_ptr<const MetricSnapshot> metrics, std::shared_ptr<const Resource> resource) {
    co_return write(out_, prometheus_text(*metrics, *resource), metrics->point_count());
}

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

struct InMemorySpanExporter::State {
    mutable std::mutex mutex;
    SpanBatch spans;
    std::shared_ptr<const Resource> resource;
    bool shut_down = false;
};

InMemorySpanExporter::InMemorySpanExporter() : state_(std::make_unique<State>()) {}
InMemorySpanExporter::~InMemorySpanExporter() = default;

Task<ExportResult> InMemorySpanExporter::export_spans(SpanBatch batch,
                                                      std::shared_ptr<const Resource> resource) {
    const std::lock_guard lock(state_->mutex);
    std::move(batch.begin(), batch.end(), std::back_inserter(state_->spans));
    state_->resource = std::move(resource);
    co_return ExportResult();
}

Task<void> InMemorySpanExporter::shutdown() {
    const std::lock_guard lock(state_->mutex);
    state_->shut_down = true;
    co_return;
}

SpanBatch InMemorySpanExporter::spans() const {
    const std::lock_guard lock(state_->mutex);
    return state_->spans;
}

std::shared_ptr<const SpanData> InMemorySpanExporter::find(std::string_view name) const {
    const std::lock_guard lock(state_->mutex);
    const auto found = std::find_if(state_->spans.begin(), state_->spans.end(),
                                    [name](const auto& span) { return span->name == name; });
    return found == state_->spans.end() ? nullptr : *found;
}

std::shared_ptr<const Resource> InMemorySpanExporter::resource() const {
    const std::lock_guard lock(state_->mutex);
    return state_->resource;
}

void InMemorySpanExporter::clear() {
    const std::lock_guard lock(state_->mutex);
    state_->spans.clear();
}

bool InMemorySpanExporter::is_shut_down() const {
    const std::lock_guard lock(state_->mutex);
    return state_->shut_down;
}

struct InMemoryMetricExporter::State {
    mutable std::mutex mutex;
    std::shared_ptr<const MetricSnapshot> metrics;
    std::shared_ptr<const Resource> resource;
    std::size_t exports = 0;
    bool shut_down = false;
};

InMemoryMetricExporter::InMemoryMetricExporter() : state_(std::make_unique<State>()) {}
InMemoryMetricExporter::~InMemoryMetricExporter() = default;

Task<ExportResult> InMemoryMetricExporter::export_metrics(
    std::shared_ptr<const MetricSnapshot> metrics, std::shared_ptr<const Resource> resource) {
    const std::lock_guard lock(state_->mutex);
    state_->metrics = std::move(metrics);
    state_->resource = std::move(resource);
    ++state_->exports;
    co_return ExportResult();
}

Task<void> InMemoryMetricExporter::shutdown() {
    const std::lock_guard lock(state_->mutex);
    state_->shut_down = true;
    co_return;
}

std::shared_ptr<const MetricSnapshot> InMemoryMetricExporter::metrics() const {
    const std::lock_guard lock(state_->mutex);
    return state_->metrics;
}

std::shared_ptr<const Resource> InMemoryMetricExporter::resource() const {
    const std::lock_guard lock(state_->mutex);
    return state_->resource;
}

std::size_t InMemoryMetricExporter::exports() const {
    const std::lock_guard lock(state_->mutex);
    return state_->exports;
}

bool InMemoryMetricExporter::is_shut_down() const {
    const std::lock_guard lock(state_->mutex);
    return state_->shut_down;
}

}  // namespace cubepi
