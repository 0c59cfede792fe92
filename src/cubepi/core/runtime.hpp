#pragma once

#include <memory>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/ids.hpp>
#include <cubepi/core/worker_pool.hpp>

namespace cubepi {

class HttpTransport;

/// Everything that is not deterministic comes in through here: time, ids, threads, network. Handed
/// down from the top as `std::shared_ptr<const Runtime>`; tests hand down one with a manual clock
/// and a transport in memory.
///
///     auto runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock).with_ids(ids));
///
/// The members are never null, except `transport`: null stands for the net room's own client.
class Runtime {
public:
    /// The machine's clock, random ids, and pools of its own that start no thread before they are
    /// used.
    Runtime();

    /// The one that is used where none is given. Built at first use, the same for the whole
    /// process.
    static std::shared_ptr<const Runtime> standard();

    std::shared_ptr<Clock> clock;
    std::shared_ptr<IdSource> ids;

    /// For blocking tools and stores.
    std::shared_ptr<WorkerPool> workers;

    /// For name resolution alone, so that names that hang starve nobody else.
    std::shared_ptr<WorkerPool> resolvers;

    std::shared_ptr<HttpTransport> transport;

    Runtime&& with_clock(std::shared_ptr<Clock> value) && {
        clock = std::move(value);
        return std::move(*this);
    }
    Runtime&& with_ids(std::shared_ptr<IdSource> value) && {
        ids = std::move(value);
        return std::move(*this);
    }
    Runtime&& with_workers(std::shared_ptr<WorkerPool> value) && {
        workers = std::move(value);
        return std::move(*this);
    }
    Runtime&& with_resolvers(std::shared_ptr<WorkerPool> value) && {
        resolvers = std::move(value);
        return std::move(*this);
    }
    Runtime&& with_transport(std::shared_ptr<HttpTransport> value) && {
        transport = std::move(value);
        return std::move(*this);
    }
};

}  // namespace cubepi
