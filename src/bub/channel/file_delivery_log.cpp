#include <bub/channel/file_delivery_log.hpp>

#include <utility>

#include <bub/channel/delivery/delivery_journal.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_entry.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>

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
