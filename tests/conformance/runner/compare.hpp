#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>

namespace conformance {

/// Replaces the values at the pointers of `ignore` by the same placeholder (README.md, section 4).
void blank_out(cubepi::Json& value, const std::vector<std::string>& ignore);

/// Removes the value at a pointer, if it exists; the empty pointer sets the value to null.
void remove_at(cubepi::Json& value, std::string_view pointer);

/// "/json/pointer: want X, got Y" for each difference. Objects are equal whatever their order, numbers by value.
std::vector<std::string> differences(const cubepi::Json& want, const cubepi::Json& got,
                                     const std::string& at = {});

bool same_json(const cubepi::Json& a, const cubepi::Json& b);

}  // namespace conformance
