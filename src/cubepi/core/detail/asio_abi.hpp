#pragma once

#include <boost/asio/detail/config.hpp>
#include <boost/asio/detail/thread_info_base.hpp>
#include <boost/preprocessor/cat.hpp>
#include <boost/version.hpp>

// Boost.Asio is a header-only library here: this library and the program that uses it each compile a copy of Asio, and
// the linker keeps one copy of each function. That works if both copies agree, so CubePi compiles Asio with its default
// configuration and compares two properties with its user.

// At compile time: macros that change the layout of Asio's types or the body of its inline functions.
#if defined(BOOST_ASIO_NO_DEPRECATED) || defined(BOOST_ASIO_NO_TS_EXECUTORS) ||              \
    defined(BOOST_ASIO_USE_TS_EXECUTOR_AS_DEFAULT) || defined(BOOST_ASIO_DISABLE_THREADS) || \
    defined(BOOST_ASIO_DISABLE_EPOLL) || defined(BOOST_ASIO_HAS_IO_URING) ||                 \
    defined(BOOST_ASIO_NO_TYPEID) || defined(BOOST_ASIO_ENABLE_HANDLER_TRACKING) ||          \
    defined(BOOST_ASIO_CUSTOM_HANDLER_TRACKING)
#error \
    "CubePi is built with the default configuration of Boost.Asio: remove BOOST_ASIO_NO_DEPRECATED, BOOST_ASIO_ENABLE_HANDLER_TRACKING and other macros that change Asio's types (docs/guides/building.md)."
#endif

// At link time: the version of Boost and the size of Asio's per-thread caches. Every file that includes this header refers to a
// symbol that is named after both, and the library defines the one it was built with. On a mismatch the linker reports, for
// example, an undefined reference to cubepi::detail::asio_of_boost_108100_with_cache_2.
#define CUBEPI_ASIO_ABI                                       \
    BOOST_PP_CAT(BOOST_PP_CAT(asio_of_boost_, BOOST_VERSION), \
                 BOOST_PP_CAT(_with_cache_, BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE))

namespace cubepi::detail {

extern const char CUBEPI_ASIO_ABI;

[[gnu::used,
  gnu::retain]] inline const char* const BOOST_PP_CAT(uses_, CUBEPI_ASIO_ABI) = &CUBEPI_ASIO_ABI;

}  // namespace cubepi::detail
