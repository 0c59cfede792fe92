#pragma once

#include <cstdio>
#include <cstdlib>

/// Stops the fuzzer when `condition` is false, in every kind of build.
#define CUBEPI_FUZZ_CHECK(condition)                                                     \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                                \
        }                                                                                \
    } while (false)
