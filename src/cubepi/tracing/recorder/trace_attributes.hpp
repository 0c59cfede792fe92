#pragma once

#include <vector>

#include <cubepi/core/run_info.hpp>
#include <cubepi/tracing/span.hpp>

namespace cubepi::detail {

/// Returns the caller's tags and metadata as attributes: `cubepi.tags`, `cubepi.metadata.<key>`.
std::vector<Attribute> attributes_of(const TraceContext& context);

}  // namespace cubepi::detail
