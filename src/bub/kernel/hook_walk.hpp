#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <bub/hooks.hpp>

// Calling the hooks of all plugins. A walk in which every hook completes synchronously is a plain loop; a coroutine is
// created only when the first hook is pending, and continues the walk. `call` must outlive the walk.

namespace bub::detail {

/// The plugins of a turn, highest precedence first; immutable while shared.
using PluginList = std::shared_ptr<const std::vector<std::shared_ptr<const Plugin>>>;

template <class R>
Task<R> rethrow_later(std::exception_ptr failure) {
    std::rethrow_exception(std::move(failure));
    co_return R();
}

/// Calls an isolated hook. An exception of the call itself is thrown by the task, as one of the hook's own task is.
template <class R, class Call>
MaybeTask<R> call_isolated(const Hook<R(Call)>& hook, Call& call) {
    try {
        return hook(call);
    } catch (...) {
        return MaybeTask<R>(rethrow_later<R>(std::current_exception()));
    }
}

template <class R, class Call>
Task<R> ask_rest(PluginList plugins, Hook<R(Call)> Plugin::* hook, Call& call, std::size_t next,
                 Task<R> waiting) {
    R given = co_await std::move(waiting);
    while (!given && next < plugins->size()) {
        const Hook<R(Call)>& callable = (*(*plugins)[next++]).*hook;
        if (!callable) continue;
        MaybeTask<R> outcome = callable(call);
        if (outcome.is_pending()) {
            given = co_await std::move(outcome).task();
        } else {
            given = std::move(outcome).value();
        }
    }
    co_return given;
}

/// Asks one plugin after the other; returns the first result that is not empty (a value, a stream).
template <class R, class Call>
MaybeTask<R> ask_first(const PluginList& plugins, Hook<R(Call)> Plugin::* hook, Call& call) {
    for (std::size_t i = 0; i < plugins->size(); ++i) {
        const Hook<R(Call)>& callable = (*(*plugins)[i]).*hook;
        if (!callable) continue;
        MaybeTask<R> outcome = callable(call);
        if (outcome.is_pending()) {
            Task<R> waiting = std::move(outcome).task();
            return MaybeTask<R>(ask_rest(plugins, hook, call, i + 1, std::move(waiting)));
        }
        R given = std::move(outcome).value();
        if (given) return MaybeTask<R>(std::move(given));
    }
    return MaybeTask<R>(R());
}

template <class R, class Call, class Take>
Task<Done> ask_all_rest(PluginList plugins, Hook<R(Call)> Plugin::* hook, Call& call, Take take,
                        std::size_t at, Task<R> waiting) {
    R first = co_await std::move(waiting);
    take(*(*plugins)[at], std::move(first));
    while (++at < plugins->size()) {
        const Plugin& plugin = *(*plugins)[at];
        const Hook<R(Call)>& callable = plugin.*hook;
        if (!callable) continue;
        MaybeTask<R> outcome = callable(call);
        if (outcome.is_pending()) {
            R given = co_await std::move(outcome).task();
            take(plugin, std::move(given));
        } else {
            take(plugin, std::move(outcome).value());
        }
    }
    co_return Done();
}

/// Asks every plugin and passes each result to `take(Plugin, R)`.
template <class R, class Call, class Take>
MaybeTask<Done> ask_all(const PluginList& plugins, Hook<R(Call)> Plugin::* hook, Call& call,
                        Take take) {
    for (std::size_t i = 0; i < plugins->size(); ++i) {
        const Plugin& plugin = *(*plugins)[i];
        const Hook<R(Call)>& callable = plugin.*hook;
        if (!callable) continue;
        MaybeTask<R> outcome = callable(call);
        if (outcome.is_pending()) {
            Task<R> waiting = std::move(outcome).task();
            return MaybeTask<Done>(
                ask_all_rest(plugins, hook, call, std::move(take), i, std::move(waiting)));
        }
        take(plugin, std::move(outcome).value());
    }
    return MaybeTask<Done>(Done());
}

}  // namespace bub::detail
