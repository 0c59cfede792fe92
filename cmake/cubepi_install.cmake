# An install contains the headers, the libraries, the program, and two ways to find them: find_package(cubepi COMPONENTS agent sqlite)
# and `pkg-config --cflags --libs cubepi-agent cubepi-sqlite`. The parts (COMPONENT) are those of the Debian packages: program
# and development.

include(CMakePackageConfigHelpers)
set(config_directory ${CMAKE_INSTALL_LIBDIR}/cmake/cubepi)
get_property(modules GLOBAL PROPERTY CUBEPI_MODULES_AVAILABLE)

# Public headers and the headers in detail/ that they include. tools/check-modules keeps them from including others.
file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src
    src/cubepi/*.hpp src/cubepi/*/*.hpp src/cubepi/*/detail/*.hpp src/bub/*.hpp src/bub/*/*.hpp src/bub/*/detail/*.hpp)
list(FILTER headers EXCLUDE REGEX "[/_]test[_.]|^bub/kernel/")
foreach(header IN LISTS headers)
    cmake_path(GET header PARENT_PATH directory)
    install(FILES ${PROJECT_SOURCE_DIR}/src/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${directory}
        COMPONENT development)
endforeach()
install(EXPORT cubepi-targets NAMESPACE cubepi:: DESTINATION ${config_directory} COMPONENT development)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/tools/cubepi-check-coroutines DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/tools/coroutine_lint.py DESTINATION ${CMAKE_INSTALL_DATADIR}/cubepi COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/examples/three_gateways.sh DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)
if(TARGET cubepi_app)
    install(TARGETS cubepi_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
    if(TARGET cubepi_grammars)
        install(FILES ${PROJECT_BINARY_DIR}/grammars/licenses DESTINATION ${CMAKE_INSTALL_DOCDIR}
            RENAME LICENSES-grammars COMPONENT program)
    endif()
    install(FILES ${PROJECT_BINARY_DIR}/src/app/cubepi.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
endif()

# Returns the libraries of a module that its users must find: a shared library contains its private libraries.
function(cubepi_libraries_of_users result module)
    get_target_property(type cubepi_${module} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
        get_property(links GLOBAL PROPERTY CUBEPI_MODULE_${module}_LINKS)
    else()
        get_property(links GLOBAL PROPERTY CUBEPI_MODULE_${module}_PUBLIC)
    endif()
    set(${result} ${links} PARENT_SCOPE)
endfunction()

# The dependencies of each module, for CMake.
set(CUBEPI_MODULE_TABLE "")
foreach(module IN LISTS modules)
    get_property(depends GLOBAL PROPERTY CUBEPI_MODULE_${module}_DEPENDS)
    cubepi_libraries_of_users(links ${module})
    set(packages)
    foreach(library IN LISTS links)
        cubepi_library_column(package package ${library})
        string(REPLACE " " "," package "${package}")
        list(APPEND packages ${package})
    endforeach()
    list(REMOVE_DUPLICATES packages)
    string(APPEND CUBEPI_MODULE_TABLE
        "set(_cubepi_depends_${module} \"${depends}\")\nset(_cubepi_packages_${module} \"${packages}\")\n")
endforeach()
set(CUBEPI_MODULES_BUILT "${modules}")
set(library_modules ${modules})
list(FILTER library_modules EXCLUDE REGEX "^bub")
string(APPEND CUBEPI_MODULE_TABLE "set(_cubepi_depends_cubepi \"${library_modules}\")\nset(_cubepi_packages_cubepi \"\")\n")

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/cubepi-config.cmake.in
    ${PROJECT_BINARY_DIR}/cubepi-config.cmake
    INSTALL_DESTINATION ${config_directory} PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cubepi-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cubepi-config.cmake ${PROJECT_BINARY_DIR}/cubepi-config-version.cmake
    ${PROJECT_SOURCE_DIR}/cmake/FindMariaDBClient.cmake ${PROJECT_SOURCE_DIR}/cmake/Findutf8proc.cmake ${PROJECT_SOURCE_DIR}/cmake/cubepi_coroutines.cmake
    DESTINATION ${config_directory} COMPONENT development)

# pkg-config: a module cubepi-NAME for each module; `cubepi` and `bub` require all of the library and all of the pipeline.
file(RELATIVE_PATH CUBEPI_PC_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
set(CUBEPI_PC_DEFINITIONS -DCUBEPI_FOUND_BY_PKG_CONFIG)   # core/detail/compiler_requirements.hpp
foreach(definition IN LISTS CUBEPI_CORE_DEFINITIONS)
    string(APPEND CUBEPI_PC_DEFINITIONS " -D${definition}")
endforeach()

function(cubepi_pkg_config_file name description)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "REQUIRES;LIBS;LIBS_PRIVATE")
    set(CUBEPI_PC_NAME ${name})
    set(CUBEPI_PC_DESCRIPTION "${description}")
    foreach(list IN ITEMS REQUIRES LIBS LIBS_PRIVATE)
        list(REMOVE_DUPLICATES arg_${list})
        list(JOIN arg_${list} " " CUBEPI_PC_${list})
    endforeach()
    configure_file(${PROJECT_SOURCE_DIR}/cmake/cubepi.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endfunction()

# Adds the flags of libraries to the list `result`.
function(cubepi_pkg_config_flags result)
    set(flags ${${result}})
    foreach(library IN LISTS ARGN)
        cubepi_library_column(column pkgconfig ${library})
        string(REPLACE " " ";" column "${column}")
        list(APPEND flags ${column})
    endforeach()
    set(${result} ${flags} PARENT_SCOPE)
endfunction()

foreach(module IN LISTS modules)
    get_property(depends GLOBAL PROPERTY CUBEPI_MODULE_${module}_DEPENDS)
    cubepi_libraries_of_users(links ${module})
    get_property(private GLOBAL PROPERTY CUBEPI_MODULE_${module}_PRIVATE)
    list(REMOVE_ITEM private "" ${links})   # what is left is private to a shared library
    list(TRANSFORM depends PREPEND cubepi- OUTPUT_VARIABLE requires)
    set(libraries -lcubepi_${module})
    set(libraries_private)
    cubepi_pkg_config_flags(libraries ${links})
    cubepi_pkg_config_flags(libraries_private ${private})
    cubepi_pkg_config_file(cubepi-${module} "The component ${module} of CubePi, a native agent runtime"
        REQUIRES ${requires} LIBS ${libraries} LIBS_PRIVATE ${libraries_private})
endforeach()
list(TRANSFORM library_modules PREPEND cubepi- OUTPUT_VARIABLE requires)
# A program that uses neither SQLite nor libcurl must not need them at run time only because it links everything.
cubepi_pkg_config_file(cubepi "${PROJECT_DESCRIPTION}" REQUIRES ${requires} LIBS -Wl,--as-needed)
set(pipeline_modules ${modules})
list(FILTER pipeline_modules INCLUDE REGEX "^bub")
if(pipeline_modules)
    list(TRANSFORM pipeline_modules PREPEND cubepi- OUTPUT_VARIABLE requires)
    cubepi_pkg_config_file(bub "The turn pipeline of CubePi" REQUIRES ${requires} cubepi LIBS -Wl,--as-needed)
endif()

if(PROJECT_IS_TOP_LEVEL AND NOT BUILD_SHARED_LIBS)
    include(cubepi_package)
endif()
