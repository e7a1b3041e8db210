# Writes what version.sh says: as text, and as the source that the programs have it from. What would not
# change is left as it is, so that nothing is made anew of it.
# Usage: cmake -DSOURCES=FOLDER -DTEXT=FILE -DTEMPLATE=FILE -DSOURCE=FILE -P write_version.cmake
execute_process(COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/version.sh ${SOURCES} OUTPUT_VARIABLE version
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(CONFIGURE OUTPUT ${TEXT} CONTENT "${version}\n" @ONLY)
configure_file(${TEMPLATE} ${SOURCE} @ONLY)
