#pragma once

#include <bub/envelope.hpp>

namespace bub::detail {

/// Makes the functions of a message that moves to another thread (its lifespan, and those that fetch its media) run on `home`, the
/// executor that they belong to.
void keep_on(const cubepi::Executor& home, Envelope& message);

}  // namespace bub::detail
