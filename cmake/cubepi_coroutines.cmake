# For projects that use CubePi: cubepi_check_coroutines(TARGET) and the notice about g++ 12. Part of the installed package.

# Checks the sources of a target before they are compiled: code around co_await that g++ 12 miscompiles fails the build, with every
# compiler. Headers are checked if they are listed as sources of the target.
function(cubepi_check_coroutines target)
    find_package(Python3 QUIET COMPONENTS Interpreter)
    if(NOT Python3_Interpreter_FOUND)
        message(FATAL_ERROR "cubepi_check_coroutines(${target}) needs python3")
    endif()
    get_property(program GLOBAL PROPERTY CUBEPI_CHECK_COROUTINES_PROGRAM)
    get_target_property(directory ${target} SOURCE_DIR)
    set(sources "$<FILTER:$<TARGET_PROPERTY:${target},SOURCES>,INCLUDE,\\.(cc|cpp|cxx|c\\+\\+|cppm|h|hh|hpp|hxx|ipp)$>")
    set(stamp ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}_coroutines.stamp)
    add_custom_command(OUTPUT ${stamp}
        COMMAND ${Python3_EXECUTABLE} ${program} ${sources}
        COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
        DEPENDS ${sources} ${program}
        WORKING_DIRECTORY ${directory}
        COMMENT "Checking the coroutines of ${target} for g++ 12"
        COMMAND_EXPAND_LISTS VERBATIM)
    add_custom_target(${target}_coroutines DEPENDS ${stamp})
    add_dependencies(${target} ${target}_coroutines)
endfunction()

# Warns once per build directory if the compiler is g++ 12.
function(cubepi_warn_of_gcc12)
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13 OR CUBEPI_WARNED_OF_GCC12)
        return()
    endif()
    set(CUBEPI_WARNED_OF_GCC12 ON CACHE INTERNAL "the warning below is given once")
    message(WARNING "g++ ${CMAKE_CXX_COMPILER_VERSION} works with CubePi, but miscompiles some expressions that contain "
        "co_await: name option structs, lists and capturing lambdas first, then await. cubepi_check_coroutines(TARGET) "
        "finds such expressions when a target is built. See docs/guides/coroutines.md of CubePi.")
endfunction()
