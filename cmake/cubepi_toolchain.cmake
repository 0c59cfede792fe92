# Compiler settings of our own targets. A project that includes CubePi is not affected:
# warnings, sanitizers, ccache and linker choice apply when CubePi is the top-level project.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
    message(FATAL_ERROR "CubePi needs g++ 12 or newer, or clang 16 or newer: "
        "this is g++ ${CMAKE_CXX_COMPILER_VERSION}. On Debian 12, run tools/setup and then `cmake --preset dev`.")
endif()

include(cubepi_coroutines)
set_property(GLOBAL PROPERTY CUBEPI_CHECK_COROUTINES_PROGRAM ${PROJECT_SOURCE_DIR}/tools/cubepi-check-coroutines)
cubepi_warn_of_gcc12()

if(NOT PROJECT_IS_TOP_LEVEL)
    return()
endif()

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# With ccache, clones share what they have compiled.
if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    find_program(CUBEPI_CCACHE ccache)
    mark_as_advanced(CUBEPI_CCACHE)
    if(CUBEPI_CCACHE)
        set(CMAKE_CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/compile.sh)
    endif()
endif()

# lld links several times faster than ld. g++ needs the path of Debian's versioned lld.
find_program(CUBEPI_LLD ld.lld PATHS /usr/lib/llvm-19/bin)
mark_as_advanced(CUBEPI_LLD)
if(CUBEPI_LLD)
    cmake_path(GET CUBEPI_LLD PARENT_PATH lld_directory)
    add_link_options(-fuse-ld=lld)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        add_link_options(-B${lld_directory})
    endif()
    # Every start runs the initialisers of all files. Stored contiguously, they need a few pages of the program instead
    # of most of it (4 MB less memory for `cubepi --version`); the other three make it smaller.
    string(JOIN "," lean -Wl -z keep-text-section-prefix -z pack-relative-relocs --gc-sections --icf=safe)
    add_link_options("$<$<CONFIG:Release>:${lean}>")
endif()

if(CUBEPI_SANITIZE)
    add_compile_options(-fsanitize=${CUBEPI_SANITIZE} -fno-omit-frame-pointer)
    if(CUBEPI_SANITIZE MATCHES "undefined")
        add_compile_options(-fno-sanitize-recover=undefined)
    endif()
    add_link_options(-fsanitize=${CUBEPI_SANITIZE})
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options(-fcolor-diagnostics)
    if(CUBEPI_PCH)
        # Without the time stamp a precompiled header from the cache equals a new one.
        add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
        # See cubepi_make_pch_object().
        if(CMAKE_GENERATOR STREQUAL "Ninja" AND CUBEPI_LLD)
            set(CUBEPI_PCH_OBJECTS ON)
        endif()
    endif()
endif()
