# The grammars of programming languages, from which the program has the colors of code (D174): the library `cubepi_grammars`, and the
# table grammars.inc with the queries that assign colors, in its include directory. They are those of tools/grammars, which tools/setup
# fetches into the user's cache directory. Without them the target does not exist, and code is shown without these colors.

file(SHA256 ${PROJECT_SOURCE_DIR}/tools/grammars/package-lock.json grammars_digest)
string(SUBSTRING ${grammars_digest} 0 16 grammars_digest)
set(grammars_cache "$ENV{XDG_CACHE_HOME}")
if(NOT grammars_cache)
    set(grammars_cache "$ENV{HOME}/.cache")
endif()
string(APPEND grammars_cache /cubepi-grammars)
set(CUBEPI_GRAMMARS "" CACHE PATH "The grammars of tools/grammars (empty: where tools/setup installs them)")
set(grammars_directory "${CUBEPI_GRAMMARS}")
if(NOT grammars_directory)
    set(grammars_directory ${grammars_cache}/${grammars_digest})
endif()
# The build is configured again once tools/setup has installed them, or after another version.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/grammars/package-lock.json)
if(EXISTS ${grammars_cache})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${grammars_cache})
endif()

find_path(CUBEPI_TREE_SITTER_HEADERS tree_sitter/api.h)
find_library(CUBEPI_TREE_SITTER_ARCHIVE NAMES libtree-sitter.a)
mark_as_advanced(CUBEPI_TREE_SITTER_HEADERS CUBEPI_TREE_SITTER_ARCHIVE)
if(NOT CUBEPI_TREE_SITTER_HEADERS OR NOT CUBEPI_TREE_SITTER_ARCHIVE)
    message(STATUS "CubePi: no colors of code (needs libtree-sitter-dev)")
    return()
endif()
if(NOT EXISTS ${grammars_directory})
    message(STATUS "CubePi: no colors of code (tools/setup installs the grammars with npm)")
    return()
endif()

# name of the grammar | directory of its package | directory of its sources below it | queries of this and of other packages
set(grammars_table
    "bash|tree-sitter-bash||tree-sitter-bash/queries/highlights.scm"
    "c|tree-sitter-c||tree-sitter-c/queries/highlights.scm"
    "cpp|tree-sitter-cpp||tree-sitter-c/queries/highlights.scm tree-sitter-cpp/queries/highlights.scm"
    "css|tree-sitter-css||tree-sitter-css/queries/highlights.scm"
    "go|tree-sitter-go||tree-sitter-go/queries/highlights.scm"
    "html|tree-sitter-html||tree-sitter-html/queries/highlights.scm"
    "java|tree-sitter-java||tree-sitter-java/queries/highlights.scm"
    "javascript|tree-sitter-javascript||tree-sitter-javascript/queries/highlights.scm tree-sitter-javascript/queries/highlights-jsx.scm"
    "json|tree-sitter-json||tree-sitter-json/queries/highlights.scm"
    "python|tree-sitter-python||tree-sitter-python/queries/highlights.scm"
    "rust|tree-sitter-rust||tree-sitter-rust/queries/highlights.scm"
    "tsx|tree-sitter-typescript|/tsx|tree-sitter-javascript/queries/highlights.scm tree-sitter-javascript/queries/highlights-jsx.scm tree-sitter-typescript/queries/highlights.scm"
    "yaml|@tree-sitter-grammars/tree-sitter-yaml||@tree-sitter-grammars/tree-sitter-yaml/queries/highlights.scm"
)

# The grammars are C. The compiler is the C compiler of the C++ compiler.
if(NOT CMAKE_C_COMPILER)
    string(REPLACE "clang++" "clang" c_compiler "${CMAKE_CXX_COMPILER}")
    string(REGEX REPLACE "g\\+\\+([^/]*)$" "gcc\\1" c_compiler "${c_compiler}")
    if(EXISTS "${c_compiler}")
        set(CMAKE_C_COMPILER ${c_compiler})
    endif()
endif()
enable_language(C)
set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
foreach(config IN ITEMS DEBUG RELEASE RELWITHDEBINFO MINSIZEREL)
    set(CMAKE_C_FLAGS_${config} "-O1 -DNDEBUG")
endforeach()

set(grammars_output ${PROJECT_BINARY_DIR}/grammars)
set(grammars_declarations "")
set(grammars_rows "")
set(grammars_licenses "")
set(grammars_sources)
foreach(row IN LISTS grammars_table)
    string(REGEX MATCH "^([^|]*)\\|([^|]*)\\|([^|]*)\\|([^|]*)$" row "${row}")
    set(name ${CMAKE_MATCH_1})
    set(package ${CMAKE_MATCH_2})
    set(source ${grammars_directory}/${package}${CMAKE_MATCH_3}/src)
    string(REPLACE " " ";" queries "${CMAKE_MATCH_4}")
    set(files ${source}/parser.c)
    if(EXISTS ${source}/scanner.c)
        list(APPEND files ${source}/scanner.c)
        # Parsers are tables; scanners are written by hand.
        if(CUBEPI_SANITIZE MATCHES "address")
            set_source_files_properties(${source}/scanner.c PROPERTIES COMPILE_OPTIONS "-fsanitize=address")
        endif()
    endif()
    set_property(SOURCE ${files} PROPERTY INCLUDE_DIRECTORIES ${source})
    list(APPEND grammars_sources ${files})
    string(APPEND grammars_declarations "extern \"C\" const TSLanguage* tree_sitter_${name}();\n")
    set(query "")
    foreach(file IN LISTS queries)
        file(READ ${grammars_directory}/${file} text)
        string(APPEND query "${text}\n")
    endforeach()
    string(APPEND grammars_rows "    {\"${name}\", tree_sitter_${name}, R\"scm(${query})scm\"},\n")
    file(READ ${grammars_directory}/${package}/LICENSE text)
    string(APPEND grammars_licenses "${package}\n\n${text}\n\n")
endforeach()
# CONFIGURE, unlike WRITE, leaves a file with the same content as it is.
file(CONFIGURE OUTPUT ${grammars_output}/grammars.inc @ONLY
    CONTENT "@grammars_declarations@constexpr Grammar grammars[] = {\n@grammars_rows@};\n")
# For packages of the program (tools/package).
file(CONFIGURE OUTPUT ${grammars_output}/licenses @ONLY CONTENT "@grammars_licenses@")

add_library(cubepi_grammars STATIC ${grammars_sources})
# Code of others: without our warnings and sanitizers.
set_target_properties(cubepi_grammars PROPERTIES COMPILE_OPTIONS "-w;-fPIC" C_CLANG_TIDY "" EXPORT_COMPILE_COMMANDS OFF)
target_include_directories(cubepi_grammars INTERFACE ${grammars_output})
target_include_directories(cubepi_grammars SYSTEM INTERFACE ${CUBEPI_TREE_SITTER_HEADERS})
target_link_libraries(cubepi_grammars INTERFACE ${CUBEPI_TREE_SITTER_ARCHIVE})
