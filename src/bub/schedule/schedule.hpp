#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/envelope.hpp>
#include <bub/schedule/schedule_times.hpp>

namespace bub {

/// The treatment of firings whose time has passed by more than a minute, because no gateway was running. Several that were missed are one.
enum class MissedFirings : std::uint8_t {
    once,  ///< it fires now, and its message says that it is late
    skip,
};

/// A message that the gateway sends to a session at certain times. A plain value, which is stored as JSON; instants are Unix seconds.
struct Schedule {
    std::string id = {};       ///< 1 to 64 of a-z, A-Z, 0-9, '-', '_' and '.'
    std::string session = {};  ///< the id of the session
    std::string text = {};
    ScheduleTimes times = {};
    MissedFirings missed = MissedFirings::once;
    JsonObject origin = {};   ///< schedule_origin()
    bool configured = false;  ///< by the configuration file
    std::int64_t created = 0;
    std::optional<std::int64_t> next = {};  ///< the planned firing; nothing: none follows
    std::optional<std::int64_t> last = {};  ///< the planned instant of the last accepted firing
    std::string problem = {};               ///< why the last firing was not accepted; empty: it was
};

inline constexpr std::size_t longest_schedule_text = 4'000;  ///< bytes
/// The number of schedules of one session that are not configured.
inline constexpr std::size_t max_session_schedules = 20;
/// The number of all schedules of a store.
inline constexpr std::size_t max_schedules = 10'000;

/// Throws Error(invalid_argument) for an id, a text or a session that a schedule may not have.
void check_schedule(const Schedule& schedule);

/// The key of Envelope::rest of a message that a schedule has sent: {id, planned}.
inline constexpr std::string_view scheduled_key = "schedule";
/// Returns the id of the schedule that has sent a message; empty: none has.
std::string schedule_of(const Envelope& message);

/// Returns the channel, the chat and the sender of a message, for those of a schedule: the rules for this sender hold in its turns (B26).
JsonObject schedule_origin(const Envelope& message);

/// Returns the Envelope::inbound_id of a firing. All gateways make the same one, so that one of them is accepted.
std::string firing_id(const Schedule& schedule, std::int64_t planned);
/// Returns the message of a firing: its first line says that a schedule has sent it. It is neither a command (B11) nor an answer (B24).
Envelope firing_message(const Schedule& schedule, std::int64_t planned, bool is_late);

/// A place in the order of DueSchedules: after the schedule with this id, and with this next firing. By default before all.
struct DuePlace {
    std::int64_t next = std::numeric_limits<std::int64_t>::min();  ///< as of a schedule without one
    std::string id = {};
};

struct DueSchedules {
    std::int64_t now = 0;  ///< by the clock of the store
    /// Those whose time has come, those whose last firing is an hour in the future, because the clock was set back, and those whose only
    /// firing was accepted; at most 1,000, earliest first.
    std::vector<Schedule> schedules = {};
    std::optional<DuePlace> more = {};  ///< where due() continues; nothing: there are no more
};

/// The schedules of one gateway, or of several that share a database. Thread-safe; called on any executor. Throws Error(storage),
/// Error(storage_full), and what PostgresCheckpointer throws.
class ScheduleStore {
public:
    virtual ~ScheduleStore() = default;
    /// The time by which schedules are due.
    virtual Task<std::int64_t> now() = 0;
    /// Adds a schedule; returns false if there is one with this id. Throws Error(limit).
    virtual Task<bool> add(Schedule schedule) = 0;
    /// Returns the schedules of a session; of all sessions if it is empty. In the order of their ids.
    virtual Task<std::vector<Schedule>> list(std::string session) = 0;
    virtual Task<std::optional<Schedule>> find(std::string id) = 0;
    /// Returns false if there is none.
    virtual Task<bool> remove(std::string id) = 0;
    virtual Task<DueSchedules> due(DuePlace after) = 0;
    /// Replaces a schedule, if its next firing is still the one at `planned`.
    virtual Task<bool> advance(Schedule schedule, std::optional<std::int64_t> planned) = 0;
};

/// Makes the configured schedules of a store those of the list. Those that did not change keep their next firing. One without a next
/// firing, whose only one is over, is not added.
Task<> configure_schedules(std::shared_ptr<ScheduleStore> store, std::vector<Schedule> configured);

namespace detail {
bool is_schedule_id(std::string_view id) noexcept;
/// Throws Error(limit) if a schedule cannot be added to these numbers of schedules.
void check_limits(const Schedule& schedule, std::size_t in_session, std::size_t in_all);
/// Returns true for a schedule that DueSchedules has at `now`.
bool is_due(const Schedule& schedule, std::int64_t now);
DuePlace place_of(const Schedule& schedule);
inline constexpr std::size_t most_due = 1'000;
inline constexpr std::int64_t clock_jump = 3600;  ///< seconds
}  // namespace detail

}  // namespace bub
