#include <bub/channel/file_delivery_log.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>

#include <bub/channel/delivery/delivery_records.hpp>
#include <bub/channel/delivery/step_queue.hpp>
#include <bub/tape/file/descriptor.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/support/encoding.hpp>
#include <bub/tape/tape_entry.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/schema/python_json.hpp>

namespace bub::detail {

/// The file of a FileDeliveryLog.
class DeliveryJournal final : public StepQueue<DeliveryStep> {
public:
    explicit DeliveryJournal(FileDeliveryLogOptions options);

    /// Returns and clears the warnings for the operator.
    std::vector<std::string> take_warnings();

private:
    void write(const std::vector<DeliveryStepPtr>& steps) override;
    void take_back();
    void open();
    void lock();
    void load(std::string_view text);
    void append(std::string_view lines, bool must_last);
    void compact_when_due();
    void compact();
    void sync_directory() const;
    /// Logs the event, and adds the text to the warnings.
    void warn(std::string_view event, std::initializer_list<cubepi::LogField> fields,
              std::string text);

    const FileDeliveryLogOptions options_;
    const std::filesystem::path path_;

    std::mutex warnings_mutex_;
    std::vector<std::string> warnings_;

    // Used in write().
    Descriptor lock_;
    Descriptor file_;
    std::optional<DeliveryRecords> records_;
    std::uint64_t size_ = 0;             // of acknowledged data
    std::uint64_t size_when_fresh_ = 0;  // after the last rewrite
    bool was_open_ = false;
    bool noted_damage_ = false;
};

namespace {

std::string line_of(const JsonObject& record) {
    std::string line;
    append_json_text(line, record);
    line += '\n';
    return line;
}

std::optional<JsonObject> read_record(std::string_view line) {
    try {
        Json json = cubepi::parse_lenient(line);
        if (JsonObject* record = json.if_object()) return std::move(*record);
    } catch (const cubepi::Error&) {
        return std::nullopt;
    }
    return std::nullopt;
}

}  // namespace

DeliveryJournal::DeliveryJournal(FileDeliveryLogOptions options)
    : options_(std::move(options)), path_(options_.directory / "deliveries.jsonl") {}

void DeliveryJournal::warn(std::string_view event, std::initializer_list<cubepi::LogField> fields,
                           std::string text) {
    if (options_.log) options_.log->write(cubepi::LogLevel::warning, event, fields);
    const std::lock_guard guard(warnings_mutex_);
    warnings_.push_back(std::move(text));
}

std::vector<std::string> DeliveryJournal::take_warnings() {
    const std::lock_guard guard(warnings_mutex_);
    return std::exchange(warnings_, {});
}

void DeliveryJournal::write(const std::vector<DeliveryStepPtr>& steps) {
    if (steps.empty()) return;
    std::exception_ptr failure;
    try {
        open();
        std::string lines;
        bool must_last = false;
        for (const DeliveryStepPtr& step : steps) {
            try {
                const std::optional<JsonObject> record = step->make(*records_);
                if (!record) continue;
                records_->apply(*record);
                lines += line_of(*record);
                must_last = must_last || step->must_last;
            } catch (...) {
                step->failure = std::current_exception();
            }
        }
        append(lines, must_last && options_.sync == DeliverySync::promises);
    } catch (...) {
        failure = std::current_exception();
        take_back();
    }
    for (const DeliveryStepPtr& step : steps) {
        if (failure) step->failure = failure;
        step->over = true;
    }
    if (!failure) compact_when_due();
}

/// Discards applied records that were not written: reloads the written ones.
void DeliveryJournal::take_back() {
    try {
        if (was_open_ && file_) file_.truncate(size_);
    } catch (...) {
        // open() will retry.
    }
    records_.reset();
    file_ = Descriptor();
}

void DeliveryJournal::lock() {
    if (lock_) return;
    std::error_code unknown;
    if (!std::filesystem::is_directory(options_.directory, unknown))
        make_private_directory(options_.directory);
    const std::filesystem::path path = options_.directory / "lock";
    Descriptor file = Descriptor::open(path, O_RDWR | O_CREAT);
    if (!try_lock(file)) {
        throw cubepi::Error(cubepi::ErrorCode::storage_locked,
                            "another process serves these channels (it holds " + path.string() +
                                "); end it first, or give this one a BUB_HOME of its own");
    }
    lock_ = std::move(file);
}

void DeliveryJournal::open() {
    if (records_) return;
    lock();
    file_ = Descriptor::open(path_, O_RDWR | O_CREAT | O_APPEND);
    // A failed write may have left whole lines, which were not acknowledged.
    if (was_open_ && file_.size() > size_) file_.truncate(size_);
    std::string text = file_.read_all();
    const std::size_t whole = text.rfind('\n') + 1;  // npos + 1 is 0
    if (whole < text.size()) {
        file_.truncate(whole);
        text.resize(whole);
    }
    load(text);
    size_ = size_when_fresh_ = whole;
    was_open_ = true;
    if (whole > 0) return;
    append(line_of(records_->head()), options_.sync == DeliverySync::promises);
    sync_directory();
}

void DeliveryJournal::load(std::string_view text) {
    DeliveryRecords records(options_.remembered, options_.max_open);
    std::size_t damaged = 0;
    const std::string_view everything = text;
    while (!text.empty()) {
        const std::size_t feed = text.find('\n');
        const std::optional<JsonObject> record = read_record(text.substr(0, feed));
        if (!record || !records.apply(*record)) ++damaged;
        text.remove_prefix(feed + 1);
    }
    if (damaged > 0 && !std::exchange(noted_damage_, true)) {
        // The next rewrite of the file would drop them.
        const std::filesystem::path copy = options_.directory / "deliveries.damaged";
        replace_file(copy, everything, false);
        warn("delivery_log.damaged", {{"lines", damaged}},
             std::to_string(damaged) + " lines of " + path_.string() +
                 " cannot be read, and messages may be missing; a copy is in " + copy.string());
    }
    records_.emplace(std::move(records));
}

void DeliveryJournal::append(std::string_view lines, bool must_last) {
    if (lines.empty()) return;
    file_.write(lines);
    if (must_last) file_.sync();
    size_ += lines.size();
}

void DeliveryJournal::compact_when_due() {
    const std::uint64_t due = std::max<std::uint64_t>(options_.compact_bytes, 2 * size_when_fresh_);
    if (size_ <= due) return;
    try {
        compact();
    } catch (...) {
        // Continue with the long file; the next attempt is at twice the size.
        size_when_fresh_ = size_;
        warn("delivery_log.compaction_failed",
             {{"error", cubepi::logged_error(std::current_exception())}},
             "the delivery log could not be shortened: " + describe(std::current_exception()));
    }
}

void DeliveryJournal::compact() {
    std::string text;
    for (const JsonObject& record : records_->all()) text += line_of(record);
    replace_file(path_, text, options_.sync == DeliverySync::promises);
    // From here on the old file has no name.
    records_.reset();
    file_ = Descriptor();
    was_open_ = false;
    sync_directory();
    open();
}

void DeliveryJournal::sync_directory() const {
    if (options_.sync != DeliverySync::promises) return;
    sync_directory_of(path_);
    // The directory itself may be new.
    sync_directory_of(std::filesystem::absolute(options_.directory));
}

}  // namespace bub::detail

namespace bub {

using detail::DeliveryJournal;
using detail::DeliveryStepPtr;

namespace {

FileDeliveryLogOptions completed(FileDeliveryLogOptions options) {
    if (options.directory.empty())
        options.directory = default_tape_directory().parent_path() / "deliveries";
    if (!options.clock) options.clock = cubepi::Runtime::standard()->clock;
    if (!options.log) options.log = cubepi::Runtime::standard()->log;
    return options;
}

}  // namespace

struct FileDeliveryLog::State {
    explicit State(FileDeliveryLogOptions given)
        : options(completed(std::move(given))), journal(options) {}
    ~State() {
        try {
            journal.flush();
        } catch (...) {
            // No caller waits for it.
        }
    }

    /// Enqueues the step when the task starts. Outlives a log that is destroyed meanwhile.
    static Task<> perform(std::shared_ptr<State> state, cubepi::WorkerPool& thread,
                          DeliveryStepPtr step) {
        state->journal.enqueue(step);
        auto work = [state, step] { state->journal.complete(step); };
        co_await cubepi::offload(thread, std::move(work));
        for (std::string& text : state->journal.take_warnings()) {
            if (state->options.on_warning) state->options.on_warning(std::move(text));
        }
    }

    const FileDeliveryLogOptions options;
    DeliveryJournal journal;
};

FileDeliveryLog::FileDeliveryLog(FileDeliveryLogOptions options)
    : state_(std::make_shared<State>(std::move(options))), thread_(1, "cubepi-deliver") {}
FileDeliveryLog::~FileDeliveryLog() = default;

Task<std::vector<Envelope>> FileDeliveryLog::finished() {
    auto found = std::make_shared<std::vector<Envelope>>();
    auto step = std::make_shared<detail::DeliveryStep>();
    step->make = [found](detail::DeliveryRecords& records) {
        *found = records.finished();
        return std::optional<JsonObject>();
    };
    co_await perform(std::move(step));
    co_return std::move(*found);
}

std::string FileDeliveryLog::date() const { return tape_date(state_->options.clock->wall()); }

void FileDeliveryLog::perform_later(detail::DeliveryStepPtr step) {
    state_->journal.enqueue(std::move(step));
}

Task<> FileDeliveryLog::perform(detail::DeliveryStepPtr step) {
    return State::perform(state_, thread_, std::move(step));
}

}  // namespace bub
