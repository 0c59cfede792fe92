#pragma once

#include <string>

#include <cubepi/checkpoint/server/failure.hpp>

namespace cubepi::detail {

/// Makes a failure with the condition that its SQLSTATE means.
ServerFailure pg_failure(ServerFailureKind kind, const std::string& reason, std::string sqlstate);

ServerRemedy pg_remedy(const ServerFailure& failure);

}  // namespace cubepi::detail
