#include <cubepi/core/detail/asio_abi.hpp>

namespace cubepi::detail {

const char CUBEPI_ASIO_ABI = 0;

}  // namespace cubepi::detail
