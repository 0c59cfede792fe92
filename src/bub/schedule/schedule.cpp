#include <bub/schedule/schedule.hpp>

#include <algorithm>
#include <map>
#include <utility>

#include <bub/questions.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub {

using cubepi::Error;
using cubepi::ErrorCode;

namespace {

constexpr std::size_t longest_id = 64;
constexpr std::size_t longest_session = 1'024;

bool is_id_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

bool is_same(const Schedule& a, const Schedule& b) {
    // Intervals count from the instant at which a schedule was first configured.
    ScheduleTimes times = b.times;
    if (times.kind == ScheduleKind::every) times.start = a.times.start;
    return a.session == b.session && a.text == b.text && a.times == times && a.missed == b.missed &&
           a.origin == b.origin;
}

}  // namespace

void check_schedule(const Schedule& schedule) {
    if (!detail::is_schedule_id(schedule.id))
        throw Error(ErrorCode::invalid_argument,
                    "the id of a schedule has 1 to 64 letters, digits, '-', '_' or '.'");
    if (schedule.text.empty() || schedule.text.size() > longest_schedule_text)
        throw Error(
            ErrorCode::invalid_argument,
            "the text of a schedule has 1 to " + std::to_string(longest_schedule_text) + " bytes");
    if (schedule.session.empty() || schedule.session.size() > longest_session)
        throw Error(ErrorCode::invalid_argument, "a schedule has a session, of at most " +
                                                     std::to_string(longest_session) + " bytes");
}

std::string schedule_of(const Envelope& message) {
    const JsonObject* const mark = cubepi::detail::object_member(message.rest, scheduled_key);
    return mark ? cubepi::detail::text_member(*mark, "id") : std::string();
}

JsonObject schedule_origin(const Envelope& message) {
    Envelope origin;
    origin.channel = message.channel;
    origin.chat_id = message.chat_id;
    origin.output_channel = message.output_channel;
    origin.context = message.context;
    for (const std::string_view key : {date_key, arrived_key, redelivered_key})
        origin.context.erase(key);
    return to_json(origin);
}

std::string firing_id(const Schedule& schedule, std::int64_t planned) {
    return "schedule-" + schedule.id + "-" + std::to_string(planned);
}

Envelope firing_message(const Schedule& schedule, std::int64_t planned, bool is_late) {
    std::string text = "[Scheduled message, not typed now. Schedule " + schedule.id + ": " +
                       describe(schedule.times) + "; planned for " +
                       instant_text(planned, schedule.times.zone);
    if (is_late) text += "; late, because the gateway was not running then";
    Envelope message{JsonObject(schedule.origin)};
    message.content = text + "]\n" + schedule.text;
    message.session_id = schedule.session;
    message.inbound_id = firing_id(schedule, planned);
    message.is_active = true;
    message.from_operator = false;
    message.rest[scheduled_key] = JsonObject{{"id", schedule.id}, {"planned", planned}};
    // Neither merged with messages of the user, nor an answer to a question.
    message.rest[task_results_key] = true;
    message.rest[before_question_key] = true;
    return message;
}

Task<> configure_schedules(std::shared_ptr<ScheduleStore> store, std::vector<Schedule> configured) {
    std::map<std::string, Schedule> wanted;
    for (Schedule& one : configured) {
        const std::string id = one.id;
        wanted.insert_or_assign(id, std::move(one));
    }
    const std::vector<Schedule> stored = co_await store->list(std::string());
    for (const Schedule& one : stored) {
        if (!one.configured) continue;
        const auto same = wanted.find(one.id);
        if (same != wanted.end() && is_same(one, same->second)) {
            wanted.erase(same);
            continue;
        }
        std::string id = one.id;
        (void)co_await store->remove(std::move(id));
    }
    // Another gateway may have added it just now.
    for (auto& [id, one] : wanted) {
        if (!one.next) continue;
        Task<bool> adding = store->add(std::move(one));
        (void)co_await std::move(adding);
    }
}

namespace detail {

bool is_schedule_id(std::string_view id) noexcept {
    return !id.empty() && id.size() <= longest_id &&
           std::all_of(id.begin(), id.end(), is_id_character);
}

void check_limits(const Schedule& schedule, std::size_t in_session, std::size_t in_all) {
    if (schedule.configured) return;
    if (in_session >= max_session_schedules)
        throw Error(ErrorCode::limit, "this session has " + std::to_string(in_session) +
                                          " schedules, which is the limit; cancel one first");
    if (in_all >= max_schedules)
        throw Error(ErrorCode::limit,
                    "the gateway has " + std::to_string(in_all) + " schedules, which is the limit");
}

bool is_due(const Schedule& schedule, std::int64_t now) {
    if (!schedule.next) return schedule.last && schedule.problem.empty();
    return *schedule.next <= now || (schedule.last && *schedule.last > now + clock_jump);
}

DuePlace place_of(const Schedule& schedule) {
    DuePlace place;
    if (schedule.next) place.next = *schedule.next;
    place.id = schedule.id;
    return place;
}

}  // namespace detail

}  // namespace bub
