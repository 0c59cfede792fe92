#include <cubepi/core/runtime.hpp>

#include <algorithm>
#include <cstddef>
#include <thread>

namespace cubepi {

namespace {

constexpr std::size_t resolver_threads = 4;

std::size_t worker_threads() {
    return std::clamp<std::size_t>(std::size_t{4} * std::thread::hardware_concurrency(), 8, 64);
}

}  // namespace

Runtime::Runtime()
    : clock(std::make_shared<SystemClock>()),
      ids(std::make_shared<RandomIds>()),
      workers(std::make_shared<WorkerPool>(worker_threads(), "cubepi-worker")),
      resolvers(std::make_shared<WorkerPool>(resolver_threads, "cubepi-dns")) {}

std::shared_ptr<const Runtime> Runtime::standard() {
    static const std::shared_ptr<const Runtime> runtime = std::make_shared<const Runtime>();
    return runtime;
}

}  // namespace cubepi
