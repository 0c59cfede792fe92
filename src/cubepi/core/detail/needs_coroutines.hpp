#pragma once

// Without this the first thing one sees is a page of errors from other headers.
#if !defined(__cpp_impl_coroutine)
#error "CubePi needs C++20 with coroutines: compile with -std=c++20 (g++ 12 or clang 16, or later)."
#endif
