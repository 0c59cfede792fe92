#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <bub/channel/telegram/telegram_api.hpp>

namespace bub::telegram {

/// The kinds of updates that the channel asks for.
JsonArray wanted_updates();

/// Asks for updates and passes them on, one after the other in the order of their ids. An update is confirmed by the request that
/// follows its acceptance. Used on one executor.
class UpdatePoll {
public:
    /// Returns false if the update must be delivered again later.
    using Accept = std::function<Task<bool>(Json update)>;
    /// Called with a description when updates cannot be received, and with an empty text when they arrive again.
    using OnTrouble = std::function<void(std::string)>;

    UpdatePoll(std::shared_ptr<const TelegramApi> api, cubepi::Clock& clock, Accept accept,
               OnTrouble on_trouble)
        : api_(std::move(api)),
          clock_(clock),
          accept_(std::move(accept)),
          on_trouble_(std::move(on_trouble)) {}

    /// Runs until it is cancelled.
    Task<> run();
    /// Confirms the updates that were accepted last. Does not throw.
    Task<> confirm();

private:
    Task<Json> fetch() const;
    Task<bool> accept_all(Json updates);
    Task<> back_off(std::exception_ptr failure);
    std::chrono::nanoseconds delay_after(const std::exception_ptr& failure);
    void report(std::string trouble);

    const std::shared_ptr<const TelegramApi> api_;
    cubepi::Clock& clock_;
    const Accept accept_;
    const OnTrouble on_trouble_;
    std::int64_t offset_ =
        0;  ///< the first update that is not accepted; 0: the first that is not confirmed
    std::int64_t batch_ = 100;
    int failures_ = 0;
    std::string trouble_;
};

}  // namespace bub::telegram
