#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CUBEPI_UNDER_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CUBEPI_UNDER_SANITIZER 1
#endif
#endif
#ifndef CUBEPI_UNDER_SANITIZER
#define CUBEPI_UNDER_SANITIZER 0
#endif

namespace cubepi {

inline constexpr bool under_sanitizer = CUBEPI_UNDER_SANITIZER != 0;

/// The step between the rounds of a long test: sanitizers make code that throws many times slower.
inline constexpr int test_step = under_sanitizer ? 10 : 1;

}  // namespace cubepi
