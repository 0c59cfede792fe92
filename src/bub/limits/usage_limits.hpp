#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/turn_gate.hpp>
#include <bub/limits/usage_store.hpp>
#include <bub/schedule/schedule_times.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/usage.hpp>
#include <cubepi/provider/provider.hpp>

namespace bub {

/// The use of a user, a chat or all of them, with the limit that holds.
struct CounterReport {
    std::string counter = {};
    UsageAmounts used = {};
    UsageLimit limit = {};
};

/// The use of the current day.
struct UsageReport {
    LocalDay day = {};
    std::vector<CounterReport> used = {};  ///< in the order of UsageStore::list()
};

/// Limits what users, chats and all of them use in a day (D255): messages before their turns begin, tokens and money by the calls of models
/// that end. Created and destroyed on the executor of the channel manager, on which all members are used except metered().
class UsageLimits final : public TurnGate, public std::enable_shared_from_this<UsageLimits> {
public:
    /// `on_warning` receives problems that concern the operator. It may be empty, and is called on any thread. While `admits_outage`
    /// returns true, turns begin unchecked if the store cannot be used, and their messages are counted later.
    UsageLimits(UsageLimitOptions options, std::shared_ptr<UsageStore> store,
                std::shared_ptr<const cubepi::Runtime> runtime, cubepi::Executor executor,
                WarningHandler on_warning = {}, std::function<bool()> admits_outage = {});
    ~UsageLimits() override;
    UsageLimits(const UsageLimits&) = delete;
    UsageLimits& operator=(const UsageLimits&) = delete;

    Task<std::optional<std::string>> refuse(Envelope message) override;
    Task<> flush() override;

    /// Returns a model whose calls are charged to the sender of a message with this origin (asker_key). Thread-safe; so are the calls.
    cubepi::BoundModel metered(const cubepi::BoundModel& model, const JsonObject& origin) const;
    /// Returns at most `most` counters of the current day, as UsageStore::list() does.
    Task<UsageReport> report(std::size_t most, std::string search = {});

private:
    struct Pending;

    std::vector<LimitedCounter> counters_of(const std::string& channel, const std::string& chat,
                                            const std::string& user) const;
    UsageLimit limit_of(const std::string& counter) const;
    std::string refusal_text(const LimitedCounter& counter, UsageKind kind, std::int64_t end) const;
    Task<std::optional<std::string>> check(UsageAdmission turn);
    void admit_unchecked(const UsageAdmission& turn);
    void begin_write();
    Task<> attempt_ended();
    static Task<> write(std::shared_ptr<UsageLimits> self);
    static Task<> retry(std::weak_ptr<UsageLimits> limits,
                        std::shared_ptr<const cubepi::Runtime> runtime);
    Task<> store(UsageByCounter amounts);

    const UsageLimitOptions options_;
    const WarningHandler on_warning_;
    const std::function<bool()> admits_outage_;
    const std::shared_ptr<UsageStore> store_;
    const std::shared_ptr<const cubepi::Runtime> runtime_;
    const cubepi::Executor executor_;
    const std::shared_ptr<Pending> pending_;
    cubepi::AsyncEvent written_;  ///< pulsed after each attempt
    std::uint64_t attempts_ = 0;
    bool writing_ = false;
    std::exception_ptr failure_;  ///< of the last attempt
    bool fails_ = false;          ///< the operator was told
    bool retry_waits_ = false;
    bool unchecked_ = false;  ///< the operator was told that turns begin unchecked
    cubepi::BackgroundScope work_;
};

/// Receives the tokens and the cost (USD; absent: unknown) of a call. Must not throw.
using ChargeCall =
    std::function<void(const cubepi::Usage& usage, const std::optional<double>& cost)>;

/// Returns a model that passes its calls to `model`, and the usage of each to `charge` when it ends: also of one that fails or is dropped,
/// as far as the endpoint has reported it. Of a fallback chain, the model that has answered counts.
cubepi::BoundModel metered_model(const cubepi::BoundModel& model, ChargeCall charge);

}  // namespace bub
