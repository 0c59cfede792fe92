#pragma once

#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/framework.hpp>
#include <bub/kernel/hook_walk.hpp>
#include <cubepi/core/log.hpp>

namespace bub {

struct Framework::Impl {
    explicit Impl(FrameworkOptions given);

    detail::PluginList plugins() const;
    void insert(Plugin plugin);
    /// Logs the event, and passes the text on to the operator. The fields have no content (cubepi/core/log.hpp).
    void warn(std::string_view event, std::initializer_list<cubepi::LogField> fields,
              std::string text) const;

    FrameworkOptions options;
    /// The initial value of a turn's state.
    Json workspace;
    bool has_store = false;  ///< a plugin provides a tape store

    // Read by turns on other executors.
    mutable std::mutex mutex;
    detail::PluginList list;
    std::shared_ptr<OutboundChannelRouter> router;
    std::optional<std::shared_ptr<TapeStore>> store;
    std::optional<std::shared_ptr<SteeringInbox>> inbox;
    std::optional<std::vector<std::string>> sidecars;
    std::optional<EnvironmentVariables> environment;

    std::vector<PluginStatus> status;
    /// Plugins in order of registration.
    std::vector<std::shared_ptr<const Plugin>> registered;
};

}  // namespace bub
