# orcd_version says which build a program is of. That rises with each commit: it is looked for at each build,
# and where it is another, one source is compiled.
set(ORCD_VERSION_FILE ${CMAKE_BINARY_DIR}/version.txt)
set(version_source ${CMAKE_BINARY_DIR}/version.cpp)
add_custom_target(orcd_version_files BYPRODUCTS ${ORCD_VERSION_FILE} ${version_source} VERBATIM
  COMMENT "The version"
  COMMAND ${CMAKE_COMMAND} -DSOURCES=${CMAKE_SOURCE_DIR} -DTEXT=${ORCD_VERSION_FILE}
          -DTEMPLATE=${CMAKE_SOURCE_DIR}/app/version/version.cpp.in -DSOURCE=${version_source}
          -P ${CMAKE_SOURCE_DIR}/cmake/write_version.cmake)
add_library(orcd_version STATIC ${version_source})
target_include_directories(orcd_version PUBLIC ${CMAKE_SOURCE_DIR})
target_compile_options(orcd_version PRIVATE ${orcd_library_warnings})
add_dependencies(orcd_version orcd_version_files)
