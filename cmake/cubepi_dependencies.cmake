# What the rooms link to. The table says, for each library that a room may name in LINK_PUBLIC or
# LINK_PRIVATE, how an installed CubePi finds it again: the package for CMake, the module for pkg-config (or
# -l flags). cubepi_room() refuses a library that is not in the table, so that no install is left incomplete.

find_package(Boost 1.81 REQUIRED COMPONENTS json url)
find_package(Threads REQUIRED)
find_package(CURL 7.86 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(simdjson REQUIRED)
if(CUBEPI_WITH_SQLITE)
    find_package(SQLite3 3.35 REQUIRED)
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
    "SQLite::SQLite3    | SQLite3                  | sqlite3"
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
