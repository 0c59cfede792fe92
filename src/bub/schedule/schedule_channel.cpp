#include <bub/schedule/schedule_channel.hpp>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub {

namespace {

/// A firing that is later was missed.
constexpr std::int64_t tolerated_lateness = 60;

/// The decision of this gateway about a firing.
enum class Admission : std::uint8_t {
    allowed,
    refused,    ///< the channel does not admit the sender
    elsewhere,  ///< the channel is not served here
};

}  // namespace

struct ScheduleChannel::State : std::enable_shared_from_this<ScheduleChannel::State> {
    State(ScheduleChannelOptions given, MessageHandler handle)
        : options(std::move(given)), handler(std::move(handle)) {}

    Task<> poll();
    Task<> fire_due();
    Task<> fire_one(Schedule schedule, std::int64_t now);
    Task<> fire(Schedule schedule, std::int64_t now);
    Task<> end_firing(Schedule schedule, std::int64_t now, std::string problem);
    Task<> remove_finished(Schedule schedule);
    Task<Admission> admission_of(Envelope message);
    Task<bool> waits(Schedule schedule);
    /// Reports a failure that lasts once.
    void warn(const std::exception_ptr& failure);

    const std::string name{channel_name};
    const ScheduleChannelOptions options;
    const MessageHandler handler;
    ChannelManager* manager = nullptr;
    std::unique_ptr<cubepi::BackgroundScope> work;
    std::set<std::string> in_progress;  ///< ids of schedules
    DuePlace place;                     ///< where the next poll begins
    bool is_draining = false;
    bool is_configured = false;
    std::string last_warning;
};

void ScheduleChannel::State::warn(const std::exception_ptr& failure) {
    std::string text = "schedules: " + cubepi::exception_text(failure);
    if (text == last_warning) return;
    options.runtime->log.write(cubepi::LogLevel::warning, "schedule.failed",
                               {{"error", cubepi::logged_error(failure)}});
    last_warning = std::move(text);
    if (options.on_warning) options.on_warning(last_warning);
}

Task<> ScheduleChannel::State::poll() {
    const std::shared_ptr<State> self = shared_from_this();
    while (!is_draining) {
        const cubepi::Outcome<> fired = co_await cubepi::outcome_of(fire_due());
        if (fired.cancelled()) fired.rethrow();
        if (!fired) warn(fired.failure());
        co_await options.runtime->clock->sleep_for(options.poll);
    }
}

Task<> ScheduleChannel::State::fire_due() {
    if (!is_configured) {
        std::vector<Schedule> configured = options.configured;
        const std::int64_t now = co_await options.store->now();
        for (Schedule& one : configured) {
            one.created = now;
            // One that fires once and is over is not added from scratch.
            const bool is_once = one.times.kind == ScheduleKind::at;
            one.next = next_firing(one.times, is_once ? now - tolerated_lateness : now);
        }
        co_await configure_schedules(options.store, std::move(configured));
        is_configured = true;
    }
    if (in_progress.size() >= detail::most_due) co_return;
    // Those whose channels are not served stay due, and must not hide the others.
    DuePlace after = std::exchange(place, DuePlace());
    DueSchedules due = co_await options.store->due(std::move(after));
    if (due.more) place = std::move(*due.more);
    for (Schedule& one : due.schedules) {
        // The admission of a message may take as long as a hook does.
        if (!in_progress.insert(one.id).second) continue;
        work->spawn(fire_one(std::move(one), due.now));
    }
}

Task<> ScheduleChannel::State::fire_one(Schedule schedule, std::int64_t now) {
    const std::shared_ptr<State> self = shared_from_this();
    const std::string id = schedule.id;
    Task<> firing = fire(std::move(schedule), now);
    const cubepi::Outcome<> fired = co_await cubepi::outcome_of(std::move(firing));
    in_progress.erase(id);
    if (fired.cancelled()) fired.rethrow();
    // It is due until the store has the next one, so the next poll tries it again.
    if (!fired) warn(fired.failure());
}

Task<> ScheduleChannel::State::fire(Schedule schedule, std::int64_t now) {
    if (!schedule.next) {
        co_await remove_finished(std::move(schedule));
        co_return;
    }
    const std::int64_t planned = *schedule.next;
    if (planned > now) {
        // The clock was an hour or more ahead when it fired last.
        schedule.last.reset();
        schedule.next = next_firing(schedule.times, now);
        (void)co_await options.store->advance(std::move(schedule), planned);
        co_return;
    }
    const bool is_late = planned < now - tolerated_lateness;
    if (is_late && schedule.missed == MissedFirings::skip) {
        co_await end_firing(std::move(schedule), now, "missed: no gateway was running");
        co_return;
    }
    Envelope message = firing_message(schedule, planned, is_late);
    const Admission admission = co_await admission_of(message);
    if (admission == Admission::elsewhere) co_return;
    if (admission == Admission::refused) {
        co_await end_firing(std::move(schedule), now, "its user is not admitted any more");
        co_return;
    }
    const bool is_waiting = co_await waits(schedule);
    if (is_waiting) {
        co_await end_firing(std::move(schedule), now,
                            "the firing before still waited for its turn");
        co_return;
    }
    if (is_draining) co_return;
    co_await handler(std::move(message));
    schedule.last = planned;
    co_await end_firing(std::move(schedule), now, std::string());
}

/// Records the end of the planned firing, and plans the next one.
Task<> ScheduleChannel::State::end_firing(Schedule schedule, std::int64_t now,
                                          std::string problem) {
    const std::int64_t planned = schedule.next.value_or(now);
    const std::string id = schedule.id;
    const std::string session = schedule.session;
    schedule.problem = problem;
    // Missed firings are not made up for.
    schedule.next = next_firing(schedule.times, std::max(now, planned));
    if (schedule.times.kind == ScheduleKind::at) schedule.next.reset();
    const bool is_first = co_await options.store->advance(std::move(schedule), planned);
    // Each gateway finds a firing that is due. It is one event.
    if (!is_first) co_return;
    const auto level = problem.empty() ? cubepi::LogLevel::info : cubepi::LogLevel::warning;
    options.runtime->log.write(
        level, problem.empty() ? "schedule.fired" : "schedule.firing_failed",
        {{"schedule", id}, {"session", session}, {"planned", planned}, {"reason", problem}});
}

/// Removes a schedule that has fired for the last time, when its message is finished: until then it can be cancelled.
Task<> ScheduleChannel::State::remove_finished(Schedule schedule) {
    const bool is_waiting = co_await waits(schedule);
    if (!is_waiting) (void)co_await options.store->remove(std::move(schedule.id));
}

Task<Admission> ScheduleChannel::State::admission_of(Envelope message) {
    const std::vector<std::shared_ptr<Channel>> channels = co_await manager->enabled_channels();
    const auto found = std::find_if(channels.begin(), channels.end(), [&message](const auto& one) {
        return one->name() == message.channel && one->role() != ChannelRole::lifecycle;
    });
    if (found == channels.end()) co_return Admission::elsewhere;
    const std::shared_ptr<Channel>& channel = *found;
    std::string session = message.session_id.value_or("");
    TurnSnapshot none;
    const std::optional<AdmitDecision> decision =
        co_await channel->admit_message(std::move(session), message, std::move(none));
    const bool is_refused = decision && decision->action == AdmitAction::drop;
    co_return is_refused ? Admission::refused : Admission::allowed;
}

/// Returns true if the last firing was accepted and its turn has not begun.
Task<bool> ScheduleChannel::State::waits(Schedule schedule) {
    if (!schedule.last) co_return false;
    std::string channel = Envelope(std::move(schedule.origin)).channel.value_or("");
    Task<std::optional<FoundMessage>> finding =
        manager->find_message(std::move(channel), firing_id(schedule, *schedule.last));
    const std::optional<FoundMessage> found = co_await std::move(finding);
    const bool waits = found && (found->progress == MessageProgress::pending ||
                                 found->progress == MessageProgress::held);
    // One that does not fire again has to be there while its turn may be repeated.
    const bool runs = found && found->progress == MessageProgress::running;
    co_return waits || (runs && !schedule.next);
}

ScheduleChannel::ScheduleChannel(ScheduleChannelOptions options, MessageHandler handler)
    : state_(std::make_shared<State>(std::move(options), std::move(handler))) {}

ScheduleChannel::~ScheduleChannel() = default;

void ScheduleChannel::connect(ChannelManager& manager) { state_->manager = &manager; }

const std::string& ScheduleChannel::name() const noexcept { return state_->name; }

Task<> ScheduleChannel::start(std::stop_token stopping) {
    (void)stopping;
    if (!state_->manager)
        throw cubepi::Error(cubepi::ErrorCode::invalid_state,
                            "ScheduleChannel::connect() was not called");
    const cubepi::Executor executor = co_await cubepi::this_executor;
    state_->work = std::make_unique<cubepi::BackgroundScope>(
        executor,
        [state = state_.get()](const std::exception_ptr& failure) { state->warn(failure); });
    state_->work->spawn(state_->poll());
}

void ScheduleChannel::drain() noexcept { state_->is_draining = true; }

Task<> ScheduleChannel::stop() {
    if (!state_->work) co_return;
    co_await state_->work->close();
}

}  // namespace bub
