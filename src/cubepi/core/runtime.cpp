#include <cubepi/core/runtime.hpp>

#include <algorithm>
#include <cstddef>
#include <thread>
#include <utility>

#include <cubepi/core/detail/asio_abi.hpp>
#include <cubepi/core/version.hpp>

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

namespace {

const std::shared_ptr<Runtime>& standard_runtime() {
    static const std::shared_ptr<Runtime> runtime = std::make_shared<Runtime>();
    return runtime;
}

}  // namespace

std::shared_ptr<const Runtime> Runtime::standard() { return standard_runtime(); }

void Runtime::set_standard_log(Logger log) { standard_runtime()->log = std::move(log); }

std::string_view version() noexcept { return CUBEPI_VERSION; }

void detail::set_standard_clock(std::shared_ptr<Clock> clock) {
    standard_runtime()->clock = std::move(clock);
}

}  // namespace cubepi

namespace cubepi::detail {

const char CUBEPI_ASIO_ABI = 0;

}  // namespace cubepi::detail
