#pragma once

#include <memory>

#include <cubepi/core/clock.hpp>

namespace cubepi::detail {

/// Sets the clock of Runtime::standard(), for tests of whole programs. Called before anything uses that runtime.
void set_standard_clock(std::shared_ptr<Clock> clock);

}  // namespace cubepi::detail
