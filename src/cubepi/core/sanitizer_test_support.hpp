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

/// Under a sanitizer, where code that throws is up to 70 times slower, long tests do every tenth of their rounds.
inline constexpr int test_step = under_sanitizer ? 10 : 1;

}  // namespace cubepi
