#pragma once

#include <string>

#include <cubepi/checkpoint/server/failure.hpp>

namespace cubepi::detail {

/// Makes a failure from an error number of the server or of the client library.
ServerFailure my_failure(ServerFailureKind kind, const std::string& reason, unsigned error);

ServerRemedy my_remedy(const ServerFailure& failure);

}  // namespace cubepi::detail
