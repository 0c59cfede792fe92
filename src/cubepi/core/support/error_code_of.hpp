#pragma once

#include <exception>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

/// Returns the code of an Error; `unknown` for other exceptions and for null.
inline ErrorCode error_code_of(const std::exception_ptr& failure) {
    try {
        if (failure) std::rethrow_exception(failure);
    } catch (const Error& error) {
        return error.code();
    } catch (...) {
        // An exception of another library.
    }
    return ErrorCode::unknown;
}

}  // namespace cubepi::detail
