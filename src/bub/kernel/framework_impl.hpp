#pragma once

#include <exception>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/framework.hpp>
#include <cubepi/core/log.hpp>

namespace bub {

namespace detail {

/// The plugins of a turn, highest precedence first; immutable while shared.
using PluginList = std::shared_ptr<const std::vector<std::shared_ptr<const Plugin>>>;

/// Asks one plugin after the other; returns the first result that is not empty (a value, a stream). `call` must outlive
/// the task.
template <class R, class Call>
Task<R> first_result(PluginList plugins, Hook<R(Call)> Plugin::* hook, Call& call) {
    for (const auto& plugin : *plugins) {
        if (!((*plugin).*hook)) continue;
        R result = co_await ((*plugin).*hook)(call);
        if (result) co_return result;
    }
    co_return R();
}

/// Asks every plugin and passes each result to `take(Plugin, R)`. `call` must outlive the task.
template <class R, class Call, class Take>
Task<> all_results(PluginList plugins, Hook<R(Call)> Plugin::* hook, Call& call, Take take) {
    for (const auto& plugin : *plugins) {
        if (!((*plugin).*hook)) continue;
        R result = co_await ((*plugin).*hook)(call);
        take(*plugin, std::move(result));
    }
}

using Lifespans = std::vector<std::shared_ptr<Lifespan>>;

/// Opens the lifespans of the plugins (provide_lifespan), oldest plugin first, and adds each to `open` when it is open. Rethrows the
/// exception of one that does not open.
Task<> open_lifespans(Framework& framework, Lifespans& open);
/// Closes them in reverse order. Failures are reported to on_warning. Must not be cancelled.
Task<> close_lifespans(Framework& framework, Lifespans open, std::exception_ptr failure);

}  // namespace detail

struct Framework::Impl {
    explicit Impl(FrameworkOptions given);

    detail::PluginList plugins() const;
    void insert(Plugin plugin);
    /// Logs the event, and passes the text on to the operator. The fields have no content (cubepi/core/log.hpp).
    void warn(std::string_view event, std::initializer_list<cubepi::LogField> fields,
              std::string text) const;

    /// Returns one of the values that the plugins are asked for once; nothing if they have not been asked.
    template <class T>
    std::optional<T> known(const std::optional<T>& value) const {
        const std::lock_guard lock(mutex);
        return value;
    }
    /// Stores the plugins' answer, unless another turn was faster; returns the stored one.
    template <class T>
    T keep(std::optional<T>& value, T answer) {
        const std::lock_guard lock(mutex);
        if (!value) value = std::move(answer);
        return *value;
    }

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
