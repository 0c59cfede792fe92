# Compiles refused.cpp, which must fail, and looks for each sentence of its "// says:" lines in what the compiler prints.
set(file ${CMAKE_CURRENT_LIST_DIR}/refused.cpp)
set(all_errors)
if(COMPILER MATCHES "clang")
    set(all_errors -ferror-limit=0)
endif()
execute_process(
    COMMAND ${COMPILER} -std=c++20 -fsyntax-only -fmessage-length=0 ${all_errors} -I${SOURCE}/src
        ${file}
    RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE printed)
if(status EQUAL 0)
    message(FATAL_ERROR "${file} compiles")
endif()
file(STRINGS ${file} lines REGEX "// says: ")
foreach(line IN LISTS lines)
    string(REGEX REPLACE "^.*// says: " "" sentence "${line}")
    string(FIND "${printed}" "${sentence}" at)
    if(at EQUAL -1)
        message(SEND_ERROR "the compiler does not say \"${sentence}\"; it says:\n${printed}")
    endif()
endforeach()
