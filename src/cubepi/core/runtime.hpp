#pragma once

#include <memory>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/ids.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/offload.hpp>

namespace cubepi {

class HttpTransport;
class ProcessLauncher;

/// The sources of everything nondeterministic: time, ids, threads, network, child processes. Passed from the top as
/// `std::shared_ptr<const Runtime>`; tests pass one with a manual clock and an in-memory transport.
///
///     auto runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock).with_ids(ids));
///
/// The members are never null, except `transport` and `processes`: null selects the own implementation of the modules net and
/// process.
class Runtime {
public:
    /// Uses the system clock, random ids, and new pools that start threads on first use.
    Runtime();

    /// Returns the default runtime. Created at first use; one per process.
    static std::shared_ptr<const Runtime> standard();
    /// Sets the log of the default runtime. Called at the start of the program, while no other thread uses the runtime.
    static void set_standard_log(Logger log);

    std::shared_ptr<Clock> clock;
    std::shared_ptr<IdSource> ids;

    /// For blocking tools and stores.
    std::shared_ptr<WorkerPool> workers;

    /// For name resolution only, so that names that do not resolve cannot starve other work.
    std::shared_ptr<WorkerPool> resolvers;

    std::shared_ptr<HttpTransport> transport;
    std::shared_ptr<ProcessLauncher> processes;

    /// The log for operators: failures of the network and of stores, notices of runs. Off by default.
    Logger log;

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
    Runtime&& with_transport(std::shared_ptr<HttpTransport> value) && {
        transport = std::move(value);
        return std::move(*this);
    }
    Runtime&& with_processes(std::shared_ptr<ProcessLauncher> value) && {
        processes = std::move(value);
        return std::move(*this);
    }
    Runtime&& with_log(Logger value) && {
        log = std::move(value);
        return std::move(*this);
    }
};

namespace detail {

/// Sets the clock of Runtime::standard(), for tests of whole programs. Called before anything uses that runtime.
void set_standard_clock(std::shared_ptr<Clock> clock);

}  // namespace detail

}  // namespace cubepi
