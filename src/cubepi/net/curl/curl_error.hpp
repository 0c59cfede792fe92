#pragma once

#include <exception>

#include <cubepi/net/network_error.hpp>

#include <curl/curl.h>

namespace cubepi::detail {

struct TransferPlan;

/// Returns the typed error of a transfer that libcurl ended with `code`. Never contains a path, a header or a password.
std::exception_ptr transfer_error(CURL* easy, CURLcode code, const char* detail,
                                  const TransferPlan& plan);

/// Returns the error of an exchange that the server ended without a status line.
std::exception_ptr no_answer(const TransferPlan& plan);

NetworkError headers_too_large(const TransferPlan& plan);

}  // namespace cubepi::detail
