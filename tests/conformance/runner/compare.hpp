#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>

namespace conformance {

/// Puts the same placeholder where the pointers of `ignore` go (README.md, section 4).
void blank_out(cubepi::Json& value, const std::vector<std::string>& ignore);

/// Removes what a pointer names, if it is there; the empty pointer makes the value null.
void remove_at(cubepi::Json& value, std::string_view pointer);

/// "/json/pointer: want X, got Y" for each difference. Objects are equal whatever their order, numbers by value.
std::vector<std::string> differences(const cubepi::Json& want, const cubepi::Json& got,
                                     const std::string& at = {});

bool same_json(const cubepi::Json& a, const cubepi::Json& b);

}  // namespace conformance
