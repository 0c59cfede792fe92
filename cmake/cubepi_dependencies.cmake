# The libraries that modules link to. For each library that a module may name in LINK_PUBLIC or LINK_PRIVATE, the table
# states how CubePi and its users find it: the package for CMake, the flags for pkg-config, the package of Debian 12 with its
# headers. A library that is not in the table is an error, so that every install is complete. The flags are not those of the
# library's own module: its macros and include paths would reach every user, although no public header needs them.

# The released program is one file that needs as few packages of a minimal Debian 12 as possible, which also makes it start faster.
option(CUBEPI_STATIC_DEPENDENCIES "Link Boost, SQLite, yaml-cpp and utf8proc from their archives" OFF)
if(CUBEPI_STATIC_DEPENDENCIES)
    set(Boost_USE_STATIC_LIBS ON)
    find_library(CUBEPI_SQLITE_ARCHIVE NAMES libsqlite3.a)
    find_library(CUBEPI_YAML_ARCHIVE NAMES libyaml-cpp.a)
    find_library(CUBEPI_UTF8PROC_ARCHIVE NAMES libutf8proc.a)
    mark_as_advanced(CUBEPI_SQLITE_ARCHIVE CUBEPI_YAML_ARCHIVE CUBEPI_UTF8PROC_ARCHIVE)
    if(CUBEPI_SQLITE_ARCHIVE)
        set(SQLite3_LIBRARY ${CUBEPI_SQLITE_ARCHIVE} CACHE FILEPATH "" FORCE)
    endif()
    if(CUBEPI_UTF8PROC_ARCHIVE)
        set(utf8proc_LIBRARY ${CUBEPI_UTF8PROC_ARCHIVE} CACHE FILEPATH "" FORCE)
    endif()
endif()

# library             | CMake package            | flags for pkg-config | package of Debian 12
set(CUBEPI_LIBRARY_TABLE
    "Boost::headers     | Boost 1.81               |                      | libboost1.81-dev"
    "Boost::json        | Boost 1.81 COMPONENTS json | -lboost_json -lboost_container | libboost-json1.81-dev"
    "Boost::url         | Boost 1.81 COMPONENTS url | -lboost_url          | libboost-url1.81-dev"
    "Threads::Threads   | Threads                  | -pthread             | libc6-dev"
    "CURL::libcurl      | CURL 7.86                | -lcurl               | libcurl4-openssl-dev"
    "OpenSSL::SSL       | OpenSSL                  | -lssl -lcrypto       | libssl-dev"
    "OpenSSL::Crypto    | OpenSSL                  | -lcrypto             | libssl-dev"
    "ZLIB::ZLIB         | ZLIB                     | -lz                  | zlib1g-dev"
    "SQLite::SQLite3    | SQLite3 3.35             | -lsqlite3            | libsqlite3-dev"
    "PostgreSQL::PostgreSQL | PostgreSQL 14        | -lpq                 | libpq-dev"
    "MariaDBClient::MariaDBClient | MariaDBClient  | -lmariadb            | libmariadb-dev"
    "simdjson::simdjson | simdjson                 | -lsimdjson           | libsimdjson-dev"
    "yaml-cpp           | yaml-cpp                 | -lyaml-cpp           | libyaml-cpp-dev"
    "utf8proc::utf8proc | utf8proc                 | -lutf8proc           | libutf8proc-dev"
    "date::date-tz      | date                     | -ldate-tz            | libhowardhinnant-date-dev"
)

# Returns the columns of the table for a library: "package", "pkgconfig" or "debian".
function(cubepi_library_column result column library)
    foreach(row IN LISTS CUBEPI_LIBRARY_TABLE)
        string(REGEX REPLACE " *\\| *" "|" row "${row}")
        string(REGEX MATCH "^([^|]*)\\|([^|]*)\\|([^|]*)\\|([^|]*)$" row "${row}")
        if(CMAKE_MATCH_1 STREQUAL library)
            set(package "${CMAKE_MATCH_2}")
            set(pkgconfig "${CMAKE_MATCH_3}")
            set(debian "${CMAKE_MATCH_4}")
            set(${result} "${${column}}" PARENT_SCOPE)
            return()
        endif()
    endforeach()
    message(FATAL_ERROR "${library} is not in the table of cmake/cubepi_dependencies.cmake: add it there, "
        "so that an installed CubePi can find it.")
endfunction()

# Finds the package of a library, unless the target exists, because a project that contains CubePi may bring the library itself.
function(cubepi_find_library library mode)
    if(TARGET ${library})
        return()
    endif()
    cubepi_library_column(package package ${library})
    string(REPLACE " " ";" package "${package}")
    find_package(${package} ${mode})
    if(library STREQUAL "SQLite::SQLite3" AND CUBEPI_SQLITE_ARCHIVE)
        target_link_libraries(SQLite::SQLite3 INTERFACE m ${CMAKE_DL_LIBS})
    elseif(library STREQUAL "yaml-cpp" AND CUBEPI_YAML_ARCHIVE)
        get_target_property(configurations yaml-cpp IMPORTED_CONFIGURATIONS)
        foreach(configuration IN LISTS configurations)
            set_target_properties(yaml-cpp PROPERTIES
                IMPORTED_LOCATION_${configuration} ${CUBEPI_YAML_ARCHIVE} IMPORTED_SONAME_${configuration} "")
        endforeach()
    endif()
endfunction()

set(CUBEPI_CORE_LIBRARIES Boost::headers Boost::json Threads::Threads)
foreach(library IN LISTS CUBEPI_CORE_LIBRARIES)
    cubepi_find_library(${library} REQUIRED)
endforeach()

# A build of everything needs all libraries, also for its tests. Otherwise cubepi_finish_modules() finds those of the modules that
# are built.
if(CUBEPI_BUILD_EVERYTHING)
    foreach(library IN ITEMS Boost::url CURL::libcurl OpenSSL::SSL ZLIB::ZLIB simdjson::simdjson yaml-cpp utf8proc::utf8proc date::date-tz)
        cubepi_find_library(${library} REQUIRED)
    endforeach()
    foreach(row IN ITEMS SQLITE:SQLite::SQLite3 POSTGRES:PostgreSQL::PostgreSQL MYSQL:MariaDBClient::MariaDBClient)
        string(REGEX MATCH "^([A-Z]+):(.*)$" row ${row})
        if(CUBEPI_WITH_${CMAKE_MATCH_1})
            cubepi_find_library(${CMAKE_MATCH_2} REQUIRED)
        endif()
    endforeach()
endif()
