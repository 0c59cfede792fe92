# The libraries that modules link to. For each library that a module may name in LINK_PUBLIC or LINK_PRIVATE, the table
# states how an installed CubePi finds it: the package for CMake, the module for pkg-config (or -l flags). cubepi_module()
# rejects a library that is not in the table, so that every install is complete.

# The released program is one file that needs as few packages of a minimal Debian 12 as possible, which also makes it start faster.
option(CUBEPI_STATIC_DEPENDENCIES "Link Boost, SQLite and yaml-cpp from their archives" OFF)
if(CUBEPI_STATIC_DEPENDENCIES)
    set(Boost_USE_STATIC_LIBS ON)
    find_library(CUBEPI_SQLITE_ARCHIVE NAMES libsqlite3.a)
    find_library(CUBEPI_YAML_ARCHIVE NAMES libyaml-cpp.a)
    mark_as_advanced(CUBEPI_SQLITE_ARCHIVE CUBEPI_YAML_ARCHIVE)
    if(CUBEPI_SQLITE_ARCHIVE)
        set(SQLite3_LIBRARY ${CUBEPI_SQLITE_ARCHIVE} CACHE FILEPATH "" FORCE)
    endif()
endif()

find_package(Boost 1.81 REQUIRED COMPONENTS json url)
find_package(Threads REQUIRED)
find_package(CURL 7.86 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(simdjson REQUIRED)
if(CUBEPI_WITH_SQLITE)
    find_package(SQLite3 3.35 REQUIRED)
    if(CUBEPI_SQLITE_ARCHIVE)
        target_link_libraries(SQLite::SQLite3 INTERFACE m ${CMAKE_DL_LIBS})
    endif()
endif()
if(CUBEPI_WITH_POSTGRES)
    find_package(PostgreSQL 14 REQUIRED)   # libpq with pipeline mode
endif()
if(CUBEPI_WITH_MYSQL)
    list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})   # FindMariaDBClient.cmake
    find_package(MariaDBClient REQUIRED)
endif()
if(NOT CUBEPI_MODULES)   # src/bub and the program
    find_package(yaml-cpp REQUIRED)
    if(CUBEPI_YAML_ARCHIVE)
        get_target_property(configurations yaml-cpp IMPORTED_CONFIGURATIONS)
        foreach(configuration IN LISTS configurations)
            set_target_properties(yaml-cpp PROPERTIES
                IMPORTED_LOCATION_${configuration} ${CUBEPI_YAML_ARCHIVE} IMPORTED_SONAME_${configuration} "")
        endforeach()
    endif()
endif()

# library               CMake package              pkg-config module or flags
set(CUBEPI_LIBRARY_TABLE
    "Boost::headers     | Boost 1.81               | "
    "Boost::json        | Boost 1.81 COMPONENTS json url | -lboost_json -lboost_container"
    "Boost::url         | Boost 1.81 COMPONENTS json url | -lboost_url"
    "Threads::Threads   | Threads                  | -pthread"
    "CURL::libcurl      | CURL                     | libcurl"
    "OpenSSL::SSL       | OpenSSL                  | openssl"
    "OpenSSL::Crypto    | OpenSSL                  | libcrypto"
    "ZLIB::ZLIB         | ZLIB                     | zlib"
    "SQLite::SQLite3    | SQLite3                  | sqlite3"
    "PostgreSQL::PostgreSQL | PostgreSQL 14         | libpq"
    "MariaDBClient::MariaDBClient | MariaDBClient   | libmariadb"
    "simdjson::simdjson | simdjson                 | simdjson"
    "yaml-cpp           | yaml-cpp                 | yaml-cpp"
)

function(cubepi_find_library library package pkgconfig)
    foreach(row IN LISTS CUBEPI_LIBRARY_TABLE)
        if(row MATCHES "^${library} *\\| *([^|]*[^| ]) *\\| *(.*)$")
            set(${package} "${CMAKE_MATCH_1}" PARENT_SCOPE)
            set(${pkgconfig} "${CMAKE_MATCH_2}" PARENT_SCOPE)
            return()
        endif()
    endforeach()
    message(FATAL_ERROR "${library} is not in the table of cmake/cubepi_dependencies.cmake: add it there, "
        "so that an installed CubePi can find it.")
endfunction()
