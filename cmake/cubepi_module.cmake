# A module is a directory of src/cubepi: one library, one test binary.
#
#   cubepi_module(net
#       SOURCES http_client.cpp sse.cpp         # relative to the module's directory
#       TESTS sse_test.cpp                      # GoogleTest; main() comes from gtest_main
#       DEPENDS core schema                     # other modules, by name; users of this module link to them too
#       LINK_PUBLIC Boost::url                  # libraries whose headers our public headers include
#       LINK_PRIVATE CURL::libcurl              # all other libraries (see cubepi_dependencies.cmake)
#       TEST_DEPENDS testing                    # modules that only the tests need
#       TEST_LINK OpenSSL::SSL                  # libraries that only the tests need
#       THREADED                                # its tests use several threads: they also run under tsan
#       DIR checkpoint                          # directory, if it differs from the module's name
#       ROOT bub)                               # parent directory in src/, if it is not cubepi
#
# defines the library `cubepi_net` (static, or shared with BUILD_SHARED_LIBS) and the test binary `cubepi_net_test`, which is one
# ctest entry `net`. cubepi_finish_modules() defines the alias `cubepi::net` and the install rules. A module without SOURCES is
# a header-only (INTERFACE) library. Headers are not listed: every *.hpp of the directory itself and of detail/ except
# tests is installed.
#
#   cubepi_test(abort SOURCES abort_test.cpp DEPENDS agent testing [LINK ...] [LABELS slow] [THREADED]
#               [TIMEOUT 300] [SHARDS 3] [NO_MAIN] [ENVIRONMENT A=b])
#
# defines the test binary `cubepi_abort_test` and its one ctest entry `abort`, for tests that cross modules. With SHARDS its tests
# are divided among that many entries, `abort_1` to `abort_3`, which can run at the same time.
#
#   cubepi_program(cubepi_app NAME cubepi SOURCES main.cpp DEPENDS agent [LINK ...])
#
# defines an executable with the project's compiler options.
#
#   cubepi_fuzzer(sse SOURCES sse_fuzz.cpp DEPENDS net CORPUS corpus/sse RUNS 90000)
#
# With CUBEPI_BUILD_FUZZ, defines a libFuzzer program `cubepi_fuzz_sse` for LLVMFuzzerTestOneInput, which tools/fuzz runs with
# RUNS inputs; otherwise a ctest entry `fuzz_sse` that passes every file of the corpus to the same function once. All
# executables are in <build>/bin.

# CubePi uses Boost.Asio header-only, with its default configuration, as most programs do: a macro that changes Asio's types or inline
# functions would break every program that links CubePi and other code that uses Asio. core/detail/asio_abi.hpp checks it.
#
# Asio keeps two free coroutine frames per thread. A larger number saves allocations, but all code of a program that includes Asio
# must then be compiled with the same number, which becomes a public definition of cubepi::core.
set(CUBEPI_ASIO_CACHE_SIZE "" CACHE STRING "Coroutine frames that Asio keeps per thread (empty: Asio's default)")
set(CUBEPI_CORE_DEFINITIONS)
if(CUBEPI_ASIO_CACHE_SIZE)
    list(APPEND CUBEPI_CORE_DEFINITIONS BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE=${CUBEPI_ASIO_CACHE_SIZE})
endif()

define_property(GLOBAL PROPERTY CUBEPI_MODULE_NAMES BRIEF_DOCS "modules in the order in which they were added")

# Precompiled headers: for libraries and programs or (with GoogleTest in it) for tests; with the headers of the lower modules
# only, or also with those of `agent`, or also with those of `bub`.
function(cubepi_make_pch target header)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "OPTIONS;LINK")
    if(TARGET ${target})
        return()
    endif()
    set(stamp ${PROJECT_BINARY_DIR}/${target}.cpp)
    if(NOT EXISTS ${stamp})
        file(WRITE ${stamp} "")
    endif()
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${stamp})
    cubepi_own_options(${target})
    target_compile_definitions(${target} PRIVATE ${CUBEPI_CORE_DEFINITIONS})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_options(${target} PRIVATE ${arg_OPTIONS})
    target_link_libraries(${target} PRIVATE ${CUBEPI_CORE_LIBRARIES} ${arg_LINK})
    set_target_properties(${target} PROPERTIES PCH_INSTANTIATE_TEMPLATES ON)
    # In brackets, because CMake would write an absolute path, which differs in each clone.
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake)
    target_precompile_headers(${target} PRIVATE <${header}>)
endfunction()

# Compiles the inline functions of a precompiled header once, into an object that each program with files of that header links:
# a third of the code of a test. For tests only: static and shared libraries have to be complete by themselves. CMake does not know
# of this.
function(cubepi_make_pch_object pch)
    if(TARGET ${pch}_object)
        return()
    endif()
    # The object is a part of the precompiled header's interface, so its option is one of that target alone.
    target_compile_options(${pch} PRIVATE -fpch-codegen)
    get_target_property(directory ${pch} BINARY_DIR)
    string(APPEND directory /CMakeFiles/${pch}.dir)
    string(TOUPPER "CMAKE_CXX_FLAGS_${CMAKE_BUILD_TYPE}" flags)
    separate_arguments(flags NATIVE_COMMAND "${CMAKE_CXX_FLAGS} ${${flags}}")
    list(APPEND flags ${CUBEPI_TEST_OPTIONS})
    if(CUBEPI_SANITIZE)
        list(APPEND flags -fsanitize=${CUBEPI_SANITIZE} -fno-omit-frame-pointer)
    endif()
    add_custom_command(OUTPUT ${directory}/inline.o
        COMMAND ${CMAKE_CXX_COMPILER} ${flags} -fPIC -ffunction-sections
            -c ${directory}/cmake_pch.hxx.pch -o ${directory}/inline.o
        DEPENDS ${directory}/cmake_pch.hxx.pch COMMENT "Building the inline functions of ${pch}" VERBATIM)
    add_library(${pch}_object STATIC EXCLUDE_FROM_ALL ${directory}/inline.o)
    set_target_properties(${pch}_object PROPERTIES LINKER_LANGUAGE CXX)
    # Functions that nothing calls may need libraries that a test does not link.
    target_link_options(${pch}_object INTERFACE -Wl,--gc-sections)
endfunction()

# Sets `result` to true if one of the other modules is `module` or depends on it.
function(cubepi_depends_on result module)
    set(${result} FALSE PARENT_SCOPE)
    foreach(other IN LISTS ARGN)
        get_property(depends GLOBAL PROPERTY CUBEPI_MODULE_${other}_DEPENDS)
        if(NOT other STREQUAL module)
            cubepi_depends_on(found ${module} ${depends})
        endif()
        if(other STREQUAL module OR found)
            set(${result} TRUE PARENT_SCOPE)
            return()
        endif()
    endforeach()
endfunction()

# `kind` is test, library or program; then follow the modules that the target uses.
function(cubepi_use_pch target kind)
    if(NOT CUBEPI_PCH)
        return()
    endif()
    set(pch cubepi_pch)
    set(header pch)
    set(arguments)
    foreach(module IN ITEMS bub agent)
        cubepi_depends_on(found ${module} ${ARGN})
        if(found)
            string(APPEND pch _${module})
            string(APPEND header _${module})
            break()
        endif()
    endforeach()
    if(kind STREQUAL "test")
        string(APPEND pch _test)
        string(APPEND header _test)
        target_compile_options(${target} PRIVATE ${CUBEPI_TEST_OPTIONS})
        set(arguments OPTIONS ${CUBEPI_TEST_OPTIONS} LINK GTest::gtest GTest::gmock)
    endif()
    cubepi_make_pch(${pch} ${header}.hpp ${arguments})
    target_precompile_headers(${target} REUSE_FROM ${pch})
    if(kind STREQUAL "test" AND CUBEPI_PCH_OBJECTS)
        cubepi_make_pch_object(${pch})
        target_link_libraries(${target} PRIVATE ${pch}_object)
    endif()
endfunction()

# Flags for code of ours. -fPIC everywhere, programs included: a precompiled header fits only one kind of code,
# and users link our static libraries into their plugins.
function(cubepi_own_options target)
    target_compile_options(${target} PRIVATE -fPIC)
    set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
    if(NOT PROJECT_IS_TOP_LEVEL)
        return()
    endif()
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion)
    if(CUBEPI_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
endfunction()

# Full paths of the files of a directory; reports every missing file, not only the first.
function(cubepi_existing_files result directory)
    set(found)
    foreach(file IN LISTS ARGN)
        if(EXISTS ${directory}/${file})
            cmake_path(SET path NORMALIZE ${directory}/${file})
            list(APPEND found ${path})
        else()
            message(SEND_ERROR "${directory}/${file} is listed but does not exist")
        endif()
    endforeach()
    set(${result} ${found} PARENT_SCOPE)
endfunction()

function(cubepi_link_modules target visibility)
    foreach(module IN LISTS ARGN)
        # By name, because a test may need a module that is added later.
        target_link_libraries(${target} ${visibility} cubepi_${module})
    endforeach()
endfunction()

function(cubepi_module name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "THREADED" "DIR;ROOT;TIMEOUT"
        "SOURCES;HEADERS;TESTS;DEPENDS;LINK_PUBLIC;LINK_PRIVATE;TEST_DEPENDS;TEST_LINK;DEFINITIONS_PUBLIC")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "cubepi_module(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
    endif()
    if(NOT arg_DIR)
        set(arg_DIR ${name})
    endif()
    if(NOT arg_ROOT)
        set(arg_ROOT cubepi)
    endif()
    cmake_path(SET directory NORMALIZE ${PROJECT_SOURCE_DIR}/src/${arg_ROOT}/${arg_DIR})
    cubepi_existing_files(sources ${directory} ${arg_SOURCES})
    set(target cubepi_${name})
    if(name STREQUAL "core")
        list(APPEND arg_LINK_PUBLIC ${CUBEPI_CORE_LIBRARIES})
        list(APPEND arg_DEFINITIONS_PUBLIC ${CUBEPI_CORE_DEFINITIONS})
    endif()

    if(sources)
        set(visibility PUBLIC)
        add_library(${target} ${sources})
        cubepi_own_options(${target})
        # Sources of one target may define the same names in unnamed namespaces, whatever CMAKE_UNITY_BUILD a user sets.
        # Static and shared libraries have the same objects: CMake would define a macro and repeat -fPIC for a shared library.
        set_target_properties(${target} PROPERTIES UNITY_BUILD OFF DEFINE_SYMBOL "" POSITION_INDEPENDENT_CODE OFF
            VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
    else()
        set(visibility INTERFACE)
        add_library(${target} INTERFACE)
    endif()
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
    target_compile_features(${target} ${visibility} cxx_std_20)
    target_compile_definitions(${target} ${visibility} ${arg_DEFINITIONS_PUBLIC})
    target_include_directories(${target} ${visibility}
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    cubepi_link_modules(${target} ${visibility} ${arg_DEPENDS})
    if(sources)
        cubepi_use_pch(${target} library ${name} ${arg_DEPENDS})
    endif()

    set_property(GLOBAL APPEND PROPERTY CUBEPI_MODULE_NAMES ${name})
    set_property(GLOBAL PROPERTY CUBEPI_MODULE_${name}_DEPENDS ${arg_DEPENDS})
    # cubepi_finish_modules() finds and links these.
    set_property(GLOBAL PROPERTY CUBEPI_MODULE_${name}_PUBLIC ${arg_LINK_PUBLIC})
    set_property(GLOBAL PROPERTY CUBEPI_MODULE_${name}_PRIVATE ${arg_LINK_PRIVATE})
    set_property(GLOBAL PROPERTY CUBEPI_MODULE_${name}_LINKS ${arg_LINK_PUBLIC} ${arg_LINK_PRIVATE})

    if(arg_TESTS AND CUBEPI_BUILD_TESTS)
        set(flags)
        if(arg_THREADED)
            list(APPEND flags THREADED)
        endif()
        if(arg_TIMEOUT)
            list(APPEND flags TIMEOUT ${arg_TIMEOUT})
        endif()
        cubepi_test(${name} DIR ${directory} SOURCES ${arg_TESTS} DEPENDS ${name} ${arg_TEST_DEPENDS}
            LINK ${arg_TEST_LINK} LABELS module ${flags})
    endif()
endfunction()

# The functions that tests call for paths of the source tree and of the build.
function(cubepi_make_source_tree)
    if(TARGET cubepi_source_tree)
        return()
    endif()
    set(directory ${PROJECT_SOURCE_DIR}/tests/support)
    add_library(cubepi_source_tree STATIC ${directory}/source_tree.cpp)
    cubepi_own_options(cubepi_source_tree)
    target_compile_definitions(cubepi_source_tree PRIVATE
        CUBEPI_SOURCE_TREE="${PROJECT_SOURCE_DIR}" CUBEPI_BUILT_PROGRAMS="${PROJECT_BINARY_DIR}/bin")
    target_include_directories(cubepi_source_tree INTERFACE ${directory})
endfunction()

function(cubepi_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "THREADED;NO_MAIN" "DIR;TIMEOUT;SHARDS"
        "SOURCES;DEPENDS;LINK;LABELS;ENVIRONMENT")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "cubepi_test(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
    endif()
    if(NOT arg_DIR)
        set(arg_DIR ${CMAKE_CURRENT_SOURCE_DIR})
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 300)
    endif()
    cubepi_existing_files(sources ${arg_DIR} ${arg_SOURCES})
    set(target cubepi_${name}_test)
    add_executable(${target} ${sources})
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    cubepi_own_options(${target})
    cubepi_link_modules(${target} PRIVATE ${arg_DEPENDS})
    cubepi_make_source_tree()
    target_link_libraries(${target} PRIVATE ${arg_LINK} cubepi_source_tree GTest::gmock GTest::gtest)
    if(NOT arg_NO_MAIN)
        target_link_libraries(${target} PRIVATE GTest::gtest_main)
    endif()
    cubepi_use_pch(${target} test ${arg_DEPENDS})
    if(arg_THREADED)
        list(APPEND arg_LABELS threaded)
        cubepi_group(cubepi_threaded_tests ${target})
    endif()
    if(NOT arg_SHARDS)
        add_test(NAME ${name} COMMAND ${target} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
        cubepi_test_properties(${name} TIMEOUT ${arg_TIMEOUT} LABELS ${arg_LABELS} ENVIRONMENT ${arg_ENVIRONMENT})
        return()
    endif()
    foreach(shard RANGE 1 ${arg_SHARDS})
        math(EXPR index "${shard} - 1")
        add_test(NAME ${name}_${shard} COMMAND ${target} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
        cubepi_test_properties(${name}_${shard} TIMEOUT ${arg_TIMEOUT} LABELS ${arg_LABELS} ENVIRONMENT
            ${arg_ENVIRONMENT} GTEST_TOTAL_SHARDS=${arg_SHARDS} GTEST_SHARD_INDEX=${index})
    endforeach()
endfunction()

# Properties of every ctest entry: a time limit, the file for GoogleTest's counts, the sanitizers' settings.
function(cubepi_test_properties name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS;ENVIRONMENT")
    # Long ones begin first, also where no earlier run was measured, and the hundreds of scenarios, which are short, are left for the end:
    # no processor waits for a long one then.
    set_tests_properties(${name} PROPERTIES COST ${arg_TIMEOUT})
    if(CUBEPI_SANITIZE)
        math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}")
    endif()
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
    set(environment
        "GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/test-results/${name}.xml"
        "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1"
        "UBSAN_OPTIONS=print_stacktrace=1"
        # Tests fork processes that then start threads of their own.
        "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tools/tsan.supp:second_deadlock_stack=1:die_after_fork=0"
        "ASAN_SYMBOLIZER_PATH=/usr/lib/llvm-19/bin/llvm-symbolizer"
        "TSAN_SYMBOLIZER_PATH=/usr/lib/llvm-19/bin/llvm-symbolizer"
        ${arg_ENVIRONMENT})
    set_property(TEST ${name} PROPERTY ENVIRONMENT "${environment}")
    # A Node that tools/setup installed from npm takes precedence over the machine's own.
    set_property(TEST ${name} PROPERTY ENVIRONMENT_MODIFICATION
        PATH=path_list_prepend:${PROJECT_SOURCE_DIR}/build/tools/bin)
endfunction()

function(cubepi_program target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME" "SOURCES;DEPENDS;LINK")
    cubepi_existing_files(sources ${CMAKE_CURRENT_SOURCE_DIR} ${arg_SOURCES})
    add_executable(${target} ${sources})
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    if(BUILD_SHARED_LIBS)
        set_target_properties(${target} PROPERTIES INSTALL_RPATH $ORIGIN/../${CMAKE_INSTALL_LIBDIR})
    endif()
    cubepi_own_options(${target})
    if(arg_NAME)
        set_target_properties(${target} PROPERTIES OUTPUT_NAME ${arg_NAME})
    endif()
    cubepi_link_modules(${target} PRIVATE ${arg_DEPENDS})
    target_link_libraries(${target} PRIVATE ${arg_LINK})
    cubepi_use_pch(${target} program ${arg_DEPENDS})
endfunction()

function(cubepi_fuzzer name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "CORPUS;RUNS" "SOURCES;DEPENDS;LINK")
    cubepi_existing_files(sources ${CMAKE_CURRENT_SOURCE_DIR} ${arg_SOURCES})
    set(target cubepi_fuzz_${name})
    set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS})
    add_executable(${target} ${sources} ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_main.cpp)
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    cubepi_own_options(${target})
    cubepi_link_modules(${target} PRIVATE ${arg_DEPENDS})
    target_link_libraries(${target} PRIVATE ${arg_LINK})
    cubepi_use_pch(${target} program ${arg_DEPENDS})
    cubepi_group(cubepi_fuzzers ${target})
    file(APPEND ${PROJECT_BINARY_DIR}/fuzzers.txt "${target} ${corpus} ${arg_RUNS}\n")   # for tools/fuzz
    if(CUBEPI_BUILD_FUZZ)
        target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    else()
        add_test(NAME fuzz_${name} COMMAND ${target} ${corpus})
        cubepi_test_properties(fuzz_${name} TIMEOUT 300 LABELS fuzz)
    endif()
endfunction()

# A named set of targets, e.g. `cmake --build build/tsan --target cubepi_threaded_tests`.
function(cubepi_group group)
    if(NOT TARGET ${group})
        add_custom_target(${group})
    endif()
    add_dependencies(${group} ${ARGN})
endfunction()
