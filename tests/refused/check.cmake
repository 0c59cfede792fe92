# Compiles refused.cpp, which must fail, and looks for each sentence of its "// says:" lines in what the compiler prints;
# "// says with clang:" and "// says with g++:" are for one of the compilers.
set(file ${CMAKE_CURRENT_LIST_DIR}/refused.cpp)
set(all_errors)
set(own "says with g\\+\\+")
if(COMPILER MATCHES "clang")
    set(own "says with clang")
    set(all_errors -ferror-limit=0)
endif()
execute_process(
    COMMAND ${COMPILER} -std=c++20 -fsyntax-only -fmessage-length=0 ${all_errors} -I${SOURCE}/src
        ${file}
    RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE printed)
if(status EQUAL 0)
    message(FATAL_ERROR "${file} compiles")
endif()
# g++ quotes with typographic marks in some locales.
string(REPLACE "‘" "'" printed "${printed}")
string(REPLACE "’" "'" printed "${printed}")
file(STRINGS ${file} lines REGEX "// (says|${own}): ")
foreach(line IN LISTS lines)
    string(REGEX REPLACE "^.*// (says|${own}): " "" sentence "${line}")
    string(FIND "${printed}" "${sentence}" at)
    if(at EQUAL -1)
        message(SEND_ERROR "the compiler does not say \"${sentence}\"; it says:\n${printed}")
    endif()
endforeach()
