#include <bub/channel/shards/foreign_envelope.hpp>

#include <utility>

#include <cubepi/core/task_scope.hpp>

namespace bub::detail {

namespace {

using Bytes = std::optional<std::string>;
using Fetch = std::function<Task<Bytes>()>;

// Coroutines, so that the functions themselves are called on their executor.

Task<Bytes> call_fetch(Fetch fetch) { co_return co_await fetch(); }

Task<> open_lifespan(std::shared_ptr<Lifespan> lifespan) { co_await lifespan->open(); }

Task<> close_lifespan(std::shared_ptr<Lifespan> lifespan, std::exception_ptr error) {
    co_await lifespan->close(std::move(error));
}

class ForeignLifespan final : public Lifespan {
public:
    ForeignLifespan(cubepi::Executor home, std::shared_ptr<Lifespan> lifespan)
        : home_(std::move(home)), lifespan_(std::move(lifespan)) {}

    Task<> open() override { return cubepi::run_on(home_, open_lifespan(lifespan_)); }
    Task<> close(std::exception_ptr error) override {
        return cubepi::run_on(home_, close_lifespan(lifespan_, std::move(error)));
    }

private:
    const cubepi::Executor home_;
    const std::shared_ptr<Lifespan> lifespan_;
};

}  // namespace

void keep_on(const cubepi::Executor& home, Envelope& message) {
    for (MediaItem& item : message.media) {
        if (!item.fetch) continue;
        item.fetch = [home, fetch = std::move(item.fetch)] {
            return cubepi::run_on(home, call_fetch(fetch));
        };
    }
    if (message.lifespan)
        message.lifespan = std::make_shared<ForeignLifespan>(home, std::move(message.lifespan));
}

}  // namespace bub::detail
