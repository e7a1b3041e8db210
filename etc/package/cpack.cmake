# Read by CPack when it makes a package. The version is that of the programs, whose build may have seen
# commits that CMake did not when it configured.
file(STRINGS ${CPACK_ORCD_VERSION_FILE} CPACK_PACKAGE_VERSION LIMIT_COUNT 1)
