# Run by CPack on the files of the packages: Debian requires that man pages and changelogs are compressed.
file(GLOB_RECURSE files ${CPACK_TEMPORARY_DIRECTORY}/cubepi.1 ${CPACK_TEMPORARY_DIRECTORY}/changelog)
foreach(file IN LISTS files)
    execute_process(COMMAND gzip -9nf ${file} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
