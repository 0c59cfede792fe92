# Compiles a public header with flags that the library does not support. The compiler must fail, and its first error must be the
# sentence that names the flag.
set(refused
    "-std=c++17|CubePi needs C++20 with coroutines"
    "-std=c++20 -fno-exceptions|CubePi reports errors as exceptions: compile without -fno-exceptions."
    "-std=c++20 -fno-rtti|CubePi needs run-time type information: compile without -fno-rtti."
    "-std=c++20 -DBOOST_ASIO_NO_DEPRECATED|CubePi is built with the default configuration of Boost.Asio"
    "-std=c++20 -DBOOST_ASIO_ENABLE_HANDLER_TRACKING|CubePi is built with the default configuration of Boost.Asio"
    "-std=c++20 -DBOOST_ASIO_USE_TS_EXECUTOR_AS_DEFAULT|CubePi is built with the default configuration of Boost.Asio")
file(WRITE refused_flags.cpp "#include <cubepi/core/task.hpp>\n")
foreach(row IN LISTS refused)
    string(REPLACE "|" ";" row "${row}")
    list(GET row 0 flags)
    list(GET row 1 sentence)
    string(REPLACE " " ";" flags "${flags}")
    execute_process(
        COMMAND ${COMPILER} ${flags} -fsyntax-only -Wfatal-errors -fmessage-length=0 -I${SOURCE}/src refused_flags.cpp
        RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE printed)
    string(REGEX MATCH "error: [^\n]*" first_error "${printed}")
    string(FIND "${first_error}" "${sentence}" at)
    if(status EQUAL 0 OR at EQUAL -1)
        message(SEND_ERROR "${flags}: expected \"${sentence}\", the first error is \"${first_error}\"")
    endif()
endforeach()
