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
#include <bub/tape/entry/encoding.hpp>
#include <bub/tape/file/descriptor.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_entry.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/schema/python_json.hpp>

namespace bub::detail {

/// A call of the log that is queued for the file.
struct DeliveryStep {
    /// Inspects the records and returns the one to write; nothing if there is none. Its exception is this step's
    /// failure.
    std::function<std::optional<JsonObject>(DeliveryRecords& records)> make;
    bool must_last = false;  ///< must be synced before the call returns

    // Set by the journal.
    bool over = false;
    std::exception_ptr failure = {};
};
using DeliveryStepPtr = std::shared_ptr<DeliveryStep>;

/// The file of a FileDeliveryLog.Steps take effect in the order of enqueue(); steps that are queued at the same time
/// are written and synced together.
class DeliveryJournal {
public:
    explicit DeliveryJournal(FileDeliveryLogOptions options);

    /// Thread-safe.
    void enqueue(DeliveryStepPtr step);
    /// Executes the queued steps including `step`, or waits until another thread has. Blocks. Throws the step's
    /// failure.
    void complete(const DeliveryStepPtr& step);
    /// Like complete(), without a step.
    void flush();
    /// Returns and clears the warnings for the operator.
    std::vector<std::string> take_warnings();

private:
    std::vector<DeliveryStepPtr> take_queue();
    void write(const std::vector<DeliveryStepPtr>& steps);
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

    std::mutex queue_mutex_;
    std::vector<DeliveryStepPtr> queue_;
    std::vector<std::string> warnings_;

    std::mutex file_mutex_;  // guards the following members
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

void DeliveryJournal::enqueue(DeliveryStepPtr step) {
    const std::lock_guard guard(queue_mutex_);
    queue_.push_back(std::move(step));
}

std::vector<DeliveryStepPtr> DeliveryJournal::take_queue() {
    const std::lock_guard guard(queue_mutex_);
    return std::exchange(queue_, {});
}

void DeliveryJournal::warn(std::string_view event, std::initializer_list<cubepi::LogField> fields,
                           std::string text) {
    if (options_.log) options_.log->write(cubepi::LogLevel::warning, event, fields);
    const std::lock_guard guard(queue_mutex_);
    warnings_.push_back(std::move(text));
}

std::vector<std::string> DeliveryJournal::take_warnings() {
    const std::lock_guard guard(queue_mutex_);
    return std::exchange(warnings_, {});
}

void DeliveryJournal::complete(const DeliveryStepPtr& step) {
    const std::lock_guard guard(file_mutex_);
    if (!step->over) write(take_queue());
    if (step->failure) std::rethrow_exception(step->failure);
}

void DeliveryJournal::flush() {
    const std::lock_guard guard(file_mutex_);
    write(take_queue());
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
    DeliveryRecords records(options_.remembered);
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
using detail::DeliveryRecords;
using detail::DeliveryStep;
using detail::DeliveryStepPtr;

namespace {

FileDeliveryLogOptions completed(FileDeliveryLogOptions options) {
    if (options.directory.empty())
        options.directory = default_tape_directory().parent_path() / "deliveries";
    if (!options.clock) options.clock = cubepi::Runtime::standard()->clock;
    if (!options.log) options.log = cubepi::Runtime::standard()->log;
    return options;
}

DeliveryStepPtr step_about(std::string what, std::vector<std::string> ids, bool must_last) {
    auto step = std::make_shared<DeliveryStep>();
    step->must_last = must_last;
    step->make = [what = std::move(what), ids = std::move(ids)](DeliveryRecords&) {
        return std::optional<JsonObject>(DeliveryRecords::about(what, ids));
    };
    return step;
}

DeliveryStepPtr failure_step(std::string id, std::string reason) {
    auto step = std::make_shared<DeliveryStep>();
    step->make = [id = std::move(id), reason = std::move(reason)](DeliveryRecords&) {
        const std::vector<std::string> ids(1, id);
        JsonObject record = DeliveryRecords::about("failed", ids);
        record["reason"] = reason;
        return std::optional<JsonObject>(std::move(record));
    };
    return step;
}

/// The caller no longer waits for an answer to be recorded, so it will not be sent.
DeliveryStepPtr withdrawal_step(std::shared_ptr<std::string> id) {
    auto step = std::make_shared<DeliveryStep>();
    step->make = [id = std::move(id)](DeliveryRecords&) {
        const std::vector<std::string> ids(1, *id);
        return std::optional<JsonObject>(DeliveryRecords::about("failed", ids));
    };
    return step;
}

void check_limit(const DeliveryRecords& records, std::size_t max_open) {
    if (records.open() < max_open) return;
    throw cubepi::Error(
        cubepi::ErrorCode::storage_full,
        "the delivery log holds " + std::to_string(records.open()) +
            " unfinished messages and answers; release or discard those that are held");
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

    std::string date() const { return tape_date(options.clock->wall()); }

    /// Enqueues the step when the task starts.
    static Task<> take(std::shared_ptr<State> state, cubepi::WorkerPool& thread,
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

Task<> FileDeliveryLog::take(detail::DeliveryStepPtr step) {
    return State::take(state_, thread_, std::move(step));
}

Task<std::optional<std::string>> FileDeliveryLog::receive(Envelope message) {
    auto id = std::make_shared<std::optional<std::string>>();
    auto step = std::make_shared<DeliveryStep>();
    step->must_last = true;
    step->make = [id, message = std::move(message), date = state_->date(),
                  most = state_->options.max_open](DeliveryRecords& records) {
        std::optional<JsonObject> record;
        if (records.knows(message)) return record;
        check_limit(records, most);
        *id = records.next_id();
        record = records.received(message, date);
        return record;
    };
    co_await take(std::move(step));
    co_return std::move(*id);
}

Task<> FileDeliveryLog::begin(std::vector<std::string> ids) {
    return take(step_about("begun", std::move(ids), true));
}

Task<> FileDeliveryLog::put_back(std::vector<std::string> ids) {
    return take(step_about("back", std::move(ids), false));
}

Task<> FileDeliveryLog::finish(std::vector<std::string> ids) {
    return take(step_about("done", std::move(ids), false));
}

Task<std::vector<StoredInbound>> FileDeliveryLog::unfinished() {
    auto found = std::make_shared<std::vector<StoredInbound>>();
    auto step = std::make_shared<DeliveryStep>();
    step->make = [found](DeliveryRecords& records) {
        *found = records.unfinished();
        return std::optional<JsonObject>();
    };
    co_await take(std::move(step));
    co_return std::move(*found);
}

Task<std::optional<KnownInbound>> FileDeliveryLog::find(std::string channel,
                                                        std::string inbound_id) {
    auto found = std::make_shared<std::optional<KnownInbound>>();
    auto step = std::make_shared<DeliveryStep>();
    step->make = [found, channel = std::move(channel),
                  id = std::move(inbound_id)](DeliveryRecords& records) {
        *found = records.find(channel, id);
        return std::optional<JsonObject>();
    };
    co_await take(std::move(step));
    co_return std::move(*found);
}

Task<> FileDeliveryLog::plan(std::vector<TurnOutput> outputs, std::vector<std::string> answers) {
    auto step = std::make_shared<DeliveryStep>();
    step->must_last = true;
    step->make = [outputs = std::move(outputs), answers = std::move(answers)](DeliveryRecords&) {
        return std::optional<JsonObject>(DeliveryRecords::planned(outputs, answers));
    };
    return take(std::move(step));
}

Task<std::string> FileDeliveryLog::intend(Envelope message, std::vector<std::string> answers) {
    TurnOutput output(std::move(message));
    return intend_output(std::move(output), std::move(answers));
}

Task<std::string> FileDeliveryLog::intend_output(TurnOutput output,
                                                 std::vector<std::string> answers) {
    auto id = std::make_shared<std::string>();
    auto step = std::make_shared<DeliveryStep>();
    step->must_last = true;
    step->make = [id, output = std::move(output), answers = std::move(answers),
                  date = state_->date(),
                  most = state_->options.max_open](DeliveryRecords& records) {
        check_limit(records, most);
        *id = records.next_id();
        return std::optional<JsonObject>(records.intended(output, answers, date));
    };
    const cubepi::Outcome<> written = co_await cubepi::outcome_of(take(std::move(step)));
    if (written.cancelled()) state_->journal.enqueue(withdrawal_step(id));
    written.rethrow();
    co_return std::move(*id);
}

Task<> FileDeliveryLog::wait(std::string id, bool waits) {
    std::vector<std::string> ids(1, std::move(id));
    // Without the first, the answer would only be marked.
    return take(step_about(waits ? "waiting" : "trying", std::move(ids), !waits));
}

Task<> FileDeliveryLog::resend(std::string id) {
    std::vector<std::string> ids(1, std::move(id));
    return take(step_about("again", std::move(ids), true));
}

Task<> FileDeliveryLog::sent(std::string id) {
    std::vector<std::string> ids(1, std::move(id));
    return take(step_about("sent", std::move(ids), false));
}

Task<> FileDeliveryLog::failed(std::string id, std::string reason) {
    return take(failure_step(std::move(id), std::move(reason)));
}

Task<std::vector<Delivery>> FileDeliveryLog::unsettled() {
    auto found = std::make_shared<std::vector<Delivery>>();
    auto step = std::make_shared<DeliveryStep>();
    step->make = [found](DeliveryRecords& records) {
        *found = records.unsettled();
        return std::optional<JsonObject>();
    };
    co_await take(std::move(step));
    co_return std::move(*found);
}

}  // namespace bub
