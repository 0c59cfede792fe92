# Debian packages by CPack, `make deb`: cubepi (the program, its man page, the documents) and libcubepi-dev (headers, static libraries).

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cubepi)
set(CPACK_PACKAGE_VENDOR "the CubePi for C++ authors")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "native agent runtime: C++20 library and command line program")
# A packager sets -DCPACK_DEBIAN_PACKAGE_MAINTAINER='Name <address>'.
if(NOT CPACK_DEBIAN_PACKAGE_MAINTAINER)
    set(CPACK_DEBIAN_PACKAGE_MAINTAINER "the CubePi for C++ authors <cubepi@packages.invalid>")
endif()
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL development)
if(TARGET cubepi_app)
    list(APPEND CPACK_COMPONENTS_ALL program)
endif()

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME cubepi)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "The program answers questions about the files of a directory, edits files and
runs commands after approval, and serves Telegram and HTTP as a gateway.")

# The headers need Boost, and check-coroutines Python. The other -dev packages are those of single components: a program that links
# cubepi::agent needs none of them.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libcubepi-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS)
set(core_packages)
foreach(library IN LISTS CUBEPI_CORE_LIBRARIES)
    cubepi_library_column(debian debian ${library})
    list(APPEND core_packages ${debian})
endforeach()
set(component_packages)
foreach(module IN LISTS modules)
    get_property(links GLOBAL PROPERTY CUBEPI_MODULE_${module}_LINKS)
    foreach(library IN LISTS links)
        cubepi_library_column(debian debian ${library})
        list(APPEND component_packages ${debian})
    endforeach()
endforeach()
list(REMOVE_DUPLICATES component_packages)
list(REMOVE_ITEM component_packages "" ${core_packages})
list(JOIN core_packages ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", python3")
list(JOIN component_packages ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "Headers and static libraries for programs that run agents: a model with tools,
a stored history, and the loop that runs until the model has answered.")

# What Debian's policy requires of each package and a plain install does not contain.
file(COPY_FILE ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_BINARY_DIR}/copyright ONLY_IF_DIFFERENT)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/changelog @ONLY CONTENT [[
@CPACK_PACKAGE_NAME@ (@PROJECT_VERSION@) unstable; urgency=medium

  * Built from the sources of this version.

 -- @CPACK_DEBIAN_PACKAGE_MAINTAINER@  Sun, 01 Nov 2026 00:00:00 +0000
]])
foreach(row IN ITEMS program:cubepi development:libcubepi-dev)
    string(REGEX MATCH "^(.*):(.*)$" row ${row})
    install(FILES ${PROJECT_BINARY_DIR}/copyright ${PROJECT_BINARY_DIR}/changelog
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CMAKE_MATCH_2} COMPONENT ${CMAKE_MATCH_1} EXCLUDE_FROM_ALL)
endforeach()
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/cubepi_compress.cmake)
include(CPack)
