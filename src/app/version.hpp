#pragma once

namespace cubepi::app {

/// "cubepi 0.1.0"
const char* version_text() noexcept;

}  // namespace cubepi::app
