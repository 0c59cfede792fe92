#pragma once

#include <string>
#include <string_view>

#include <cubepi/checkpoint/server/failure.hpp>

namespace cubepi::detail {

/// Returns the condition that an SQLSTATE means.
ServerCondition condition_of(std::string_view sqlstate);

/// Makes a failure with the condition that its SQLSTATE means.
ServerFailure pg_failure(ServerFailureKind kind, const std::string& reason, std::string sqlstate);

ServerRemedy pg_remedy(const ServerFailure& failure);

}  // namespace cubepi::detail
