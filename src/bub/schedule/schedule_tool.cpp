#include <bub/schedule/schedule_tool.hpp>

#include <optional>
#include <utility>
#include <vector>

#include <bub/questions.hpp>
#include <bub/turn_state.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_schema.hpp>

namespace bub {

namespace {

using cubepi::Error;
using cubepi::ErrorCode;

enum class ScheduleAction : std::uint8_t { add, list, cancel };

struct ScheduleArgs {
    ScheduleAction action = ScheduleAction::list;
    std::optional<std::string> text;
    std::optional<std::string> at;
    std::optional<std::string> every;
    std::optional<std::string> cron;
    std::optional<std::string> zone;
    std::optional<MissedFirings> missed;
    std::optional<std::string> id;

    static void describe_fields(cubepi::FieldNotes& fields) {
        fields.describe(
            "text",
            "add: the message that you will receive in this conversation, with all that "
            "you need to know then.");
        fields.describe(
            "at",
            "add: once. +20m (or h, d), 09:00 (the next one), 2026-12-01 09:00, or with an "
            "offset, 2026-12-01T09:00+01:00.");
        fields.describe("every", "add: an interval such as 30m, 2h, 1d; at least 1m.");
        fields.describe(
            "cron",
            "add: minute, hour, day of the month, month, day of the week. 0 9 * * 1-5 is "
            "09:00 from Monday to Friday.");
        fields.describe(
            "zone",
            "add: the time zone of at and cron, such as Europe/Berlin. Default: that of "
            "the host.");
        fields.describe("missed",
                        "add: what happens to a firing that was missed. once (default): it follows "
                        "later. skip: nothing.");
        fields.describe("id", "cancel: of the schedule.");
    }
};

/// The turn of the tool.
struct Context {
    ScheduleToolOptions options;
    std::string session;
    JsonObject origin;
    bool was_begun_by_user = true;
    std::string schedule = {};  ///< that has begun the turn; empty: none has
    std::int64_t planned = 0;   ///< its firing
};

std::string line_of(const Schedule& one) {
    std::string line = one.id + ": " + describe(one.times);
    if (one.next) line += "; next " + instant_text(*one.next, one.times.zone);
    if (!one.problem.empty()) line += "; last time not sent: " + one.problem;
    if (one.configured) line += "; configured by the operator";
    return line + "\n  " + one.text;
}

std::string new_id(const cubepi::Runtime& runtime) {
    constexpr std::size_t digits = 10;
    return cubepi::detail::sha256_hex(runtime.ids->next()).substr(0, digits);
}

Task<std::string> add(std::shared_ptr<const Context> context, ScheduleArgs args) {
    if (!context->was_begun_by_user && !context->options.may_reschedule)
        throw Error(ErrorCode::permission_denied,
                    "a turn that a schedule has begun adds no schedules unless a rule of the "
                    "operator allows it (gateway.rules, allow: 'schedule: *'); the existing one "
                    "continues to fire");
    const ScheduleToolOptions& options = context->options;
    Schedule schedule;
    schedule.id = new_id(*options.runtime);
    schedule.session = context->session;
    schedule.text = args.text.value_or("");
    schedule.missed = args.missed.value_or(MissedFirings::once);
    schedule.origin = context->origin;
    schedule.created = co_await options.store->now();
    ScheduleRequest request;
    request.at = std::move(args.at);
    request.every = std::move(args.every);
    request.cron = std::move(args.cron);
    request.zone = args.zone.value_or(options.zone);
    schedule.times = schedule_times(request, schedule.created);
    schedule.next = first_firing(schedule.times, schedule.created);
    std::string text = "Added. " + line_of(schedule);
    (void)co_await options.store->add(std::move(schedule));
    co_return text;
}

Task<std::string> list(std::shared_ptr<const Context> context) {
    const std::vector<Schedule> all = co_await context->options.store->list(context->session);
    std::string text;
    for (const Schedule& one : all) text += (text.empty() ? "" : "\n") + line_of(one);
    co_return text.empty() ? std::string("(no schedules)") : text;
}

/// Ends a schedule whose turn this is. The turn may be repeated after a kill: the schedule is removed when it is over. Returns false if it has
/// fired since it was found.
Task<bool> end(std::shared_ptr<const Context> context, Schedule schedule) {
    const std::optional<std::int64_t> next = schedule.next;
    schedule.next.reset();
    schedule.last = context->planned;
    schedule.problem.clear();
    return context->options.store->advance(std::move(schedule), next);
}

Task<std::string> cancel(std::shared_ptr<const Context> context, std::string id) {
    std::optional<Schedule> found = co_await context->options.store->find(id);
    if (!found || found->session != context->session)
        throw Error(ErrorCode::not_found,
                    "this session has no such schedule; the action `list` "
                    "returns those that it has");
    if (found->configured)
        throw Error(ErrorCode::permission_denied,
                    "the schedule is part of the configuration of the operator");
    if (id != context->schedule) {
        (void)co_await context->options.store->remove(std::move(id));
        co_return "Cancelled.";
    }
    bool has_ended = co_await end(context, *found);
    while (!has_ended) {
        found = co_await context->options.store->find(id);
        if (!found) break;
        has_ended = co_await end(context, *found);
    }
    co_return "Cancelled.";
}

Task<std::string> call(std::shared_ptr<const Context> context, ScheduleArgs args) {
    switch (args.action) {
        case ScheduleAction::add: return add(std::move(context), std::move(args));
        case ScheduleAction::cancel: return cancel(std::move(context), args.id.value_or(""));
        default: return list(std::move(context));
    }
}

/// Returns the time for which the firing was planned; 0 if the message is none.
std::int64_t planned_of(const Envelope& message) {
    const JsonObject* const mark = cubepi::detail::object_member(message.rest, scheduled_key);
    return mark ? cubepi::detail::integer_member(*mark, "planned").value_or(0) : 0;
}

/// Ends the turn of a firing whose schedule was cancelled meanwhile.
Task<std::optional<std::string>> end_cancelled(std::shared_ptr<ScheduleStore> store, std::string id,
                                               std::int64_t planned, TurnState* state) {
    std::optional<std::string> answer;
    if (id.empty()) co_return answer;
    const std::optional<Schedule> found = co_await store->find(std::move(id));
    // It is removed when the turn that has cancelled it is over; this firing may have been accepted before.
    if (found && (found->next || found->last.value_or(planned) >= planned)) co_return answer;
    state->mark_silent();
    // The tape has neither the message nor an answer.
    state->mark_recorded();
    answer.emplace();
    co_return answer;
}

Task<EventStream> end_cancelled_stream(std::shared_ptr<ScheduleStore> store, std::string id,
                                       std::int64_t planned, TurnState* state) {
    Task<std::optional<std::string>> ending =
        end_cancelled(std::move(store), std::move(id), planned, state);
    const std::optional<std::string> answer = co_await std::move(ending);
    EventStream stream;
    if (answer) stream = EventStream::of_text(*answer);
    co_return stream;
}

}  // namespace

cubepi::AgentTool schedule_tool(ScheduleToolOptions options, const std::string& session_id,
                                const Envelope& message) {
    auto context = std::make_shared<Context>();
    context->options = std::move(options);
    context->session = session_id;
    context->origin = schedule_origin(message);
    // The results of a sub-agent that a scheduled turn has started.
    context->was_begun_by_user = !message.rest.contains(task_results_key);
    context->schedule = schedule_of(message);
    context->planned = planned_of(message);
    const std::shared_ptr<const Context> shared = std::move(context);
    return cubepi::tool<ScheduleArgs>(
               std::string(schedule_tool_name),
               "Adds, lists and cancels schedules: at these times you receive a message in this "
               "conversation, and your answer goes to its chat. For reminders and repeated tasks.",
               [shared](ScheduleArgs args) { return call(shared, std::move(args)); })
        .risk(cubepi::ToolRisk::read_only);
}

Plugin schedule_plugin(std::shared_ptr<ScheduleStore> store) {
    Plugin plugin;
    plugin.name = "schedules";
    plugin.run_model = [store](RunModelCall& call) {
        return end_cancelled(store, schedule_of(call.message), planned_of(call.message),
                             &call.state);
    };
    plugin.run_model_stream = [store](RunModelCall& call) {
        return end_cancelled_stream(store, schedule_of(call.message), planned_of(call.message),
                                    &call.state);
    };
    return plugin;
}

}  // namespace bub
