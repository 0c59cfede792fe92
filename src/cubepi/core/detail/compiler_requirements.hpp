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
