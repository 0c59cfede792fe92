#include "version.hpp"

namespace cubepi::app {

const char* version_text() noexcept { return "cubepi " CUBEPI_VERSION; }

}  // namespace cubepi::app
