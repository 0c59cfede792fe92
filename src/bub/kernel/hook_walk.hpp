#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <bub/hooks.hpp>

namespace bub::detail {

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

}  // namespace bub::detail
