#include <exception>
#include <memory>
#include <utility>

#include <bub/framework.hpp>
#include <bub/kernel/lifespans.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>

namespace bub {

Task<> detail::open_lifespans(Framework& framework, Lifespans& open) {
    const std::vector<std::shared_ptr<const Plugin>> plugins = framework.plugins();
    for (auto plugin = plugins.rbegin(); plugin != plugins.rend(); ++plugin) {
        const auto& provide = (*plugin)->provide_lifespan;
        if (!provide) continue;
        ProvideCall call{framework};
        std::shared_ptr<Lifespan> lifespan = co_await provide(call);
        if (!lifespan) continue;
        co_await lifespan->open();
        open.push_back(std::move(lifespan));
    }
}

Task<> detail::close_lifespans(Framework& framework, Lifespans open, std::exception_ptr failure) {
    for (auto lifespan = open.rbegin(); lifespan != open.rend(); ++lifespan) {
        Task<> closing = (*lifespan)->close(failure);
        const cubepi::Outcome<> closed = co_await cubepi::outcome_of(std::move(closing));
        const WarningHandler& warn = framework.options().on_warning;
        if (!closed && warn)
            warn("a plugin's lifespan did not close: " + describe(closed.failure()));
    }
}

namespace {

Task<> open_and_run(Framework& framework, detail::Lifespans& open, Task<> work) {
    co_await detail::open_lifespans(framework, open);
    co_await std::move(work);
}

}  // namespace

Task<> Framework::running(Task<> work) {
    detail::Lifespans open;
    Task<> running = open_and_run(*this, open, std::move(work));
    const cubepi::Outcome<> ran = co_await cubepi::outcome_of(std::move(running));
    co_await cubepi::shield();
    Task<> closing = detail::close_lifespans(*this, std::move(open), ran.failure());
    co_await std::move(closing);
    co_await cubepi::unshield();
    ran.rethrow();
}

}  // namespace bub
