# The same program linked in both orders with a static library that compiles Asio with its defaults (header-only), and with
# one that compiles Asio separately. The libraries have flags of their own, as existing code of a user does.
find_package(Boost 1.81 REQUIRED)
find_package(Threads REQUIRED)
foreach(kind header_only separate)
    add_library(asio_library_${kind} STATIC ${CMAKE_CURRENT_LIST_DIR}/asio_library.cpp)
    target_compile_features(asio_library_${kind} PUBLIC cxx_std_20)
    target_compile_options(asio_library_${kind} PRIVATE -O1 -Wall -Wextra -Werror -fstack-protector-strong -D_GLIBCXX_ASSERTIONS)
    target_link_libraries(asio_library_${kind} PUBLIC Boost::headers Threads::Threads)
endforeach()
target_compile_definitions(asio_library_separate PRIVATE BOOST_ASIO_SEPARATE_COMPILATION)

# Compiled once: only the order of linking differs.
add_library(neighbor OBJECT ${CMAKE_CURRENT_LIST_DIR}/asio_neighbor.cpp)
target_link_libraries(neighbor PRIVATE cubepi::agent)
function(add_neighbor name)
    add_executable(${name} $<TARGET_OBJECTS:neighbor>)
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(${name} PRIVATE ${ARGN})
endfunction()
add_neighbor(neighbor_first asio_library_header_only cubepi::agent)
add_neighbor(neighbor_last cubepi::agent asio_library_header_only)
add_neighbor(neighbor_separate cubepi::agent asio_library_separate)
