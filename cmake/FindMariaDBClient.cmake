# Finds MariaDB's client library (libmariadb) and defines MariaDBClient::MariaDBClient.
find_path(MariaDBClient_INCLUDE_DIR mysql.h PATH_SUFFIXES mariadb mysql)
find_library(MariaDBClient_LIBRARY NAMES mariadb)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MariaDBClient REQUIRED_VARS MariaDBClient_LIBRARY MariaDBClient_INCLUDE_DIR)
mark_as_advanced(MariaDBClient_LIBRARY MariaDBClient_INCLUDE_DIR)
if(MariaDBClient_FOUND AND NOT TARGET MariaDBClient::MariaDBClient)
    add_library(MariaDBClient::MariaDBClient UNKNOWN IMPORTED)
    set_target_properties(MariaDBClient::MariaDBClient PROPERTIES
        IMPORTED_LOCATION "${MariaDBClient_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${MariaDBClient_INCLUDE_DIR}")
endif()
