#pragma once

#include <cubepi/tracing/tracer.hpp>

namespace cubepi::detail {

/// Returns the resource for the identity in the options, with the attributes that name this library.
Resource resource_of(const TracerOptions& options);

}  // namespace cubepi::detail
