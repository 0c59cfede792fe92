#pragma once

// Without these checks the user would see many errors from other headers, or a program that crashes.
#if !defined(__cpp_impl_coroutine)
#error "CubePi needs C++20 with coroutines: compile with -std=c++20 (g++ 12 or clang 16, or later)."
#endif
#if !defined(__cpp_exceptions)
#error "CubePi reports errors as exceptions: compile without -fno-exceptions."
#endif
// The library finds optional interfaces by dynamic_cast and catches exceptions by type across libraries.
#if !defined(__cpp_rtti)
#error "CubePi needs run-time type information: compile without -fno-rtti."
#endif
// CMake reports this once, when it finds CubePi; pkg-config cannot.
#if defined(CUBEPI_FOUND_BY_PKG_CONFIG) && !defined(CUBEPI_NO_GCC12_NOTICE) && \
    !defined(__clang__) && defined(__GNUC__) && __GNUC__ < 13
#pragma message( \
    "g++ 12 works with CubePi, but miscompiles some expressions that contain co_await: check your files with cubepi-check-coroutines (docs/guides/coroutines.md). -DCUBEPI_NO_GCC12_NOTICE removes this notice.")
#endif
