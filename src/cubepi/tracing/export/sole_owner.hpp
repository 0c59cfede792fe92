#pragma once

#include <memory>

namespace cubepi::detail {

/// Returns true if there is no other owner, and everything that earlier owners did has happened before.
template <class T>
bool is_sole_owner(const std::shared_ptr<T>& object) noexcept {
    if (object.use_count() != 1) return false;
    // use_count() does not synchronize with the threads that were owners; the release of this copy does.
    std::shared_ptr<T> copy = object;
    copy.reset();
    return true;
}

}  // namespace cubepi::detail
