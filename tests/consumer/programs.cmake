# The programs of a user. CubePi is available as cubepi::agent, cubepi::testing and, unless ONLY_AGENT is set, all its other components.
add_executable(offline ${CMAKE_CURRENT_LIST_DIR}/offline.cpp)
target_link_libraries(offline PRIVATE cubepi::agent cubepi::testing)
cubepi_check_coroutines(offline)
include(${CMAKE_CURRENT_LIST_DIR}/plugin.cmake)

# Not built by default: it fails, because g++ 12 miscompiles the expression.
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/wrong.cpp "cubepi::Task<> wrong() {\n    co_await f({1});\n}\n")
add_library(wrong OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/wrong.cpp)
cubepi_check_coroutines(wrong)

if(ONLY_AGENT)
    return()
endif()
add_executable(weather ${CMAKE_CURRENT_LIST_DIR}/weather.cpp)
target_link_libraries(weather PRIVATE cubepi::cubepi)
add_executable(own_loop ${CMAKE_CURRENT_LIST_DIR}/own_loop.cpp)
target_link_libraries(own_loop PRIVATE cubepi::cubepi)
add_executable(editor_agent ${CMAKE_CURRENT_LIST_DIR}/../../examples/editor_agent.cpp)
target_link_libraries(editor_agent PRIVATE cubepi::acp cubepi::provider)
include(${CMAKE_CURRENT_LIST_DIR}/asio_neighbor.cmake)
