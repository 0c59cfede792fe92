#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <bub/hooks.hpp>

namespace bub::detail {

/// The plugins that a turn asks, highest precedence first; not changed while somebody holds it.
using PluginList = std::shared_ptr<const std::vector<std::shared_ptr<const Plugin>>>;

/// Asks plugin after plugin; the first that gives something (a value, a stream) is the answer.
template <class R, class Call>
Task<R> ask_first(PluginList plugins, Hook<R(Call)> Plugin::* hook, Call call) {
    for (const auto& plugin : *plugins) {
        const Hook<R(Call)>& callable = (*plugin).*hook;
        if (!callable) continue;
        HookOutcome<R> outcome = callable(call);
        if (!outcome.waits()) {
            R given = std::move(outcome).value();
            if (given) co_return given;
            continue;
        }
        R given = co_await std::move(outcome).task();
        if (given) co_return given;
    }
    co_return R();
}

/// Asks every plugin and gives each result to `take(Plugin, R)`.
template <class R, class Call, class Take>
Task<> ask_all(PluginList plugins, Hook<R(Call)> Plugin::* hook, Call call, Take take) {
    for (const auto& plugin : *plugins) {
        const Hook<R(Call)>& callable = (*plugin).*hook;
        if (!callable) continue;
        HookOutcome<R> outcome = callable(call);
        if (!outcome.waits()) {
            take(*plugin, std::move(outcome).value());
            continue;
        }
        R given = co_await std::move(outcome).task();
        take(*plugin, std::move(given));
    }
}

}  // namespace bub::detail
