# A shared library that contains or loads CubePi, and the program that loads it at run time. The program is linked to neither.
add_library(plugin MODULE ${CMAKE_CURRENT_LIST_DIR}/plugin.cpp ${CMAKE_CURRENT_LIST_DIR}/plugin_tool.cpp)
target_link_libraries(plugin PRIVATE cubepi::agent)
target_link_options(plugin PRIVATE LINKER:-z,defs)
set_target_properties(plugin PROPERTIES PREFIX "")
add_executable(plugin_host ${CMAKE_CURRENT_LIST_DIR}/plugin_host.cpp)
target_compile_features(plugin_host PRIVATE cxx_std_20)
target_link_libraries(plugin_host PRIVATE ${CMAKE_DL_LIBS})
