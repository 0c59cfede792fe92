#include <cubepi/tracing/recorder/stream_writer.hpp>

#include <fcntl.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/support/blocked_signals.hpp>
#include <cubepi/core/support/fork_generation.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/tracing/export/private_directories.hpp>

namespace cubepi::detail {

namespace {

/// The longest wait; a larger limit would overflow when the time is added.
constexpr std::chrono::milliseconds longest{std::chrono::hours(24 * 365)};

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

}  // namespace cubepi::detail
