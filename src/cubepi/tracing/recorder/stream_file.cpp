#include <cubepi/tracing/recorder/stream_file.hpp>

#include <fcntl.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/support/blocked_signals.hpp>
#include <cubepi/core/support/fork_generation.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/tracing/export/span_json.hpp>

namespace cubepi::detail {

namespace {

/// The longest wait; a larger limit would overflow when the time is added.
constexpr std::chrono::milliseconds longest{std::chrono::hours(24 * 365)};

constexpr std::size_t preview_size = 80;

/// The run id is the caller's: it must not lead out of the directory.
std::string file_name(const std::string& run_id) {
    std::string name;
    for (const char c : run_id) {
        const bool safe = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
        name.push_back(safe ? c : '_');
    }
    return name + ".stream.jsonl";
}

const ToolCall* call_at(const AssistantMessage& message, std::int32_t index) {
    const auto at = static_cast<std::size_t>(index);
    if (index < 0 || at >= message.content.size()) return nullptr;
    return std::get_if<ToolCall>(&message.content[at]);
}

}  // namespace

/// Used on the writer's thread.
class StreamWriter::File {
public:
    explicit File(std::filesystem::path path) : path_(std::move(path)) {}

    /// Returns false if the line is lost. `reason`: why, when that happens first.
    bool append(std::string_view line, std::string& reason) {
        if (failed_) return false;
        if (!fd_ && !open()) return fail("open", reason);
        return write_all(fd_.get(), line) || fail("write to", reason);
    }

private:
    bool open() {
        // O_NONBLOCK, because opening a pipe that no process reads would never return.
        constexpr int flags = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK;
        fd_ = open_file(path_.c_str(), flags, 0600);
        if (!fd_ && errno == ENOENT) {
            make_private_directories(path_.parent_path());
            fd_ = open_file(path_.c_str(), flags, 0600);
        }
        return static_cast<bool>(fd_);
    }
    bool fail(const char* what, std::string& reason) {
        failed_ = true;
        reason = std::string("cannot ") + what + " " + path_.string() + ": " + errno_text(errno);
        return false;
    }

    const std::filesystem::path path_;
    UniqueFd fd_;
    bool failed_ = false;
};

struct StreamWriter::State {
    struct Line {
        std::shared_ptr<File> file;
        std::string text;
    };

    explicit State(std::shared_ptr<LossReport> report) : losses(std::move(report)) {}

    void run();
    void write(std::vector<Line> taken);

    const std::shared_ptr<LossReport> losses;
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Line> waiting;
    std::size_t bytes = 0;       // of `waiting`
    std::uint64_t added = 0;     // lines
    std::uint64_t finished = 0;  // lines that are written or lost
    bool closing = false;
    bool ended = false;      // the thread
    bool abandoned = false;  // by close()
};

/// Writes what waits until the writer is closed.
void StreamWriter::State::run() {
    std::unique_lock lock(mutex);
    for (;;) {
        changed.wait(lock, [this] { return closing || !waiting.empty(); });
        if (waiting.empty() || abandoned) break;
        std::vector<Line> taken = std::exchange(waiting, {});
        bytes = 0;
        const std::size_t count = taken.size();
        lock.unlock();
        write(std::move(taken));
        lock.lock();
        finished += count;
        changed.notify_all();
    }
    ended = true;
    changed.notify_all();
}

void StreamWriter::State::write(std::vector<Line> taken) {
    for (Line& line : taken) {
        std::string reason;
        if (!line.file->append(line.text, reason)) losses->add(Loss::stream_line, reason);
        line.file.reset();  // closes the file after its last line
    }
}

StreamWriter::StreamWriter(std::filesystem::path directory, std::shared_ptr<LossReport> losses)
    : directory_(std::move(directory)),
      state_(std::make_shared<State>(std::move(losses))),
      process_(fork_generation()) {}

StreamWriter::~StreamWriter() {
    if (process_ == fork_generation()) {
        (void)close(std::chrono::seconds(5));
        return;
    }
    // In a child of fork() the thread does not exist: it cannot be joined or detached, and to destroy the condition that it waits
    // for would wait for it. This copy of both lasts as long as the process.
    static auto* const unusable = new std::vector<std::pair<std::shared_ptr<State>, std::thread>>();
    unusable->emplace_back(state_, std::move(thread_));
}

std::shared_ptr<StreamWriter::File> StreamWriter::open(const std::string& name) const {
    return std::make_shared<File>(directory_ / name);
}

/// Starts the thread unless it was started. Called with the mutex.
bool StreamWriter::start() noexcept {
    if (thread_.joinable()) return true;
    try {
        const BlockedSignals blocked;
        thread_ = std::thread([state = state_] {
            pthread_setname_np(pthread_self(), "cubepi-streams");
            state->run();
        });
    } catch (...) {
        return false;
    }
    return true;
}

void StreamWriter::write(std::shared_ptr<File> file, std::string line) noexcept {
    const char* reason = "the disk is too slow";
    try {
        if (process_ != fork_generation()) return state_->losses->add(Loss::stream_line, "fork");
        const std::size_t size = line.size();
        const std::lock_guard lock(state_->mutex);
        if (state_->closing) {
            reason = "the tracer has ended";
        } else if (!start()) {
            reason = "the system has no thread left";
        } else if (size <= max_waiting_bytes - state_->bytes) {
            state_->waiting.push_back({std::move(file), std::move(line)});
            state_->bytes += size;
            ++state_->added;
            state_->changed.notify_all();
            return;
        }
    } catch (...) {
        reason = "memory is exhausted";
    }
    state_->losses->add(Loss::stream_line, reason);
}

bool StreamWriter::flush(std::chrono::milliseconds limit) {
    if (process_ != fork_generation()) return false;
    std::unique_lock lock(state_->mutex);
    const std::uint64_t end = state_->added;
    return state_->changed.wait_for(lock, std::min(limit, longest),
                                    [this, end] { return state_->finished >= end; });
}

bool StreamWriter::close(std::chrono::milliseconds limit) {
    if (process_ != fork_generation()) return false;
    std::unique_lock lock(state_->mutex);
    state_->closing = true;
    state_->changed.notify_all();
    if (!thread_.joinable()) return !state_->abandoned;
    const bool in_time =
        state_->changed.wait_for(lock, std::min(limit, longest), [this] { return state_->ended; });
    std::thread thread = std::move(thread_);
    if (in_time) {
        lock.unlock();
        thread.join();
        return true;
    }
    state_->abandoned = true;
    const std::uint64_t lost = state_->added - state_->finished;
    lock.unlock();
    thread.detach();
    state_->losses->add(Loss::stream_line, "the disk does not answer", lost);
    return false;
}

StreamFile::StreamFile(StreamWriter& writer, const std::string& run_id,
                       const ContentFilter& content, Time start)
    : writer_(writer), content_(content), start_(start), file_(writer.open(file_name(run_id))) {}

void StreamFile::write(const StreamEvent& event, Time now) {
    switch (event.type) {
        case StreamEventType::text_delta:
        case StreamEventType::thinking_delta: {
            JsonObject line = line_of(to_string(event.type).data(), now);
            line["chars"] = event.delta.size();
            write_line(std::move(line));
            break;
        }
        case StreamEventType::toolcall_start:
            write_call_start(event, line_of("toolcall_start", now));
            break;
        case StreamEventType::toolcall_delta: {
            JsonObject line = line_of("toolcall_delta", now);
            std::size_t& size = argument_sizes_[event.content_index];
            size += event.delta.size();
            line["ci"] = event.content_index;
            line["chars"] = event.delta.size();
            line["accumulated"] = size;
            // A piece of a value cannot be redacted.
            if (!content_.redacts()) add_preview(line, "preview", event.delta);
            write_line(std::move(line));
            break;
        }
        case StreamEventType::toolcall_end:
            write_call_end(event, line_of("toolcall_end", now));
            break;
        default: break;
    }
}

JsonObject StreamFile::line_of(const char* type, Time now) const {
    const double seconds = std::chrono::duration<double>(now - start_).count();
    return JsonObject{{"t", std::round(seconds * 1000) / 1000}, {"type", type}};
}

void StreamFile::write_call_start(const StreamEvent& event, JsonObject line) {
    argument_sizes_[event.content_index] = 0;
    const AssistantMessage message = event.partial.get();
    const ToolCall* call = call_at(message, event.content_index);
    line["ci"] = event.content_index;
    line["id"] = call ? std::string_view(call->id) : std::string_view();
    line["name"] = call ? std::string_view(call->name) : std::string_view();
    write_line(std::move(line));
}

void StreamFile::write_call_end(const StreamEvent& event, JsonObject line) {
    const AssistantMessage message = event.partial.get();
    const ToolCall* call = call_at(message, event.content_index);
    line["ci"] = event.content_index;
    line["id"] = call ? std::string_view(call->id) : std::string_view();
    line["name"] = call ? std::string_view(call->name) : std::string_view();
    line["args_chars"] = argument_sizes_[event.content_index];
    std::optional<Json> arguments;
    if (call) arguments = content_.value("gen_ai.tool.call.arguments", call->arguments);
    if (arguments) add_preview(line, "args_preview", json_text(*arguments));
    write_line(std::move(line));
}

void StreamFile::add_preview(JsonObject& line, const char* key, std::string_view text) const {
    if (!content_.enabled()) return;
    const std::string_view begin = text.substr(0, preview_size);
    line[key] = replace_broken_utf8(begin.substr(0, complete_utf8_prefix(begin)));
}

void StreamFile::write_line(JsonObject line) {
    if (content_.enabled()) {
        std::optional<Json> recorded = content_.whole("cubepi.stream", Json(std::move(line)));
        if (!recorded || !recorded->is_object()) return;
        line = std::move(recorded->get_object());
    }
    writer_.write(file_, json_text(line) + "\n");
}

}  // namespace cubepi::detail
