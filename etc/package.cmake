# What a package has besides what the compiler makes: manual pages and completions out of --help, a list of
# parts (SPDX) and licences out of the link commands; and the Debian package of CPack. Where Python, Ninja or
# Debian's package database are missing they are left out, which is said.
find_program(ORCD_DOCUMENT_PYTHON NAMES python3)
find_program(ORCD_DPKG NAMES dpkg-query)
set(package_dir ${CMAKE_CURRENT_BINARY_DIR}/package)
set(documented "")
foreach(program worker-orcd worker-orcd-inspect worker-orcd-holder worker-orcd-pod trillim-quantize inference)
  if(TARGET ${program})
    list(APPEND documented ${program})
  endif()
endforeach()
# A sanitizer's programs take a while to say --help, and are not installed.
if(ORCD_DOCUMENT_PYTHON AND documented AND NOT WORKER_SANITIZE AND NOT WORKER_FUZZ)
  set(files "")
  list(TRANSFORM documented PREPEND "$<TARGET_FILE:" OUTPUT_VARIABLE files)
  list(TRANSFORM files APPEND ">")
  set(writer ${CMAKE_CURRENT_SOURCE_DIR}/package/write_documents.py)
  add_custom_command(OUTPUT ${package_dir}/documents.stamp
    COMMAND ${ORCD_DOCUMENT_PYTHON} -B ${writer} ${package_dir} ${files}
    COMMAND ${CMAKE_COMMAND} -E touch ${package_dir}/documents.stamp
    DEPENDS ${writer} ${documented} VERBATIM COMMENT "Manual pages and completions out of --help")
  add_custom_target(documents ALL DEPENDS ${package_dir}/documents.stamp)
  install(DIRECTORY ${package_dir}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL
          FILES_MATCHING PATTERN "*.1.gz")
  foreach(program ${documented})
    install(FILES ${package_dir}/${program}.bash DESTINATION share/bash-completion/completions
            RENAME ${program} OPTIONAL)
    install(FILES ${package_dir}/_${program} DESTINATION share/zsh/vendor-completions OPTIONAL)
  endforeach()
else()
  message(STATUS "no manual pages or completions: they need python3 and a build without sanitizers")
endif()
if(TARGET documents AND ORCD_DPKG AND CMAKE_GENERATOR STREQUAL "Ninja")
  set(inside "")
  foreach(file ${ORCD_PAGE_LIBRARIES})
    list(APPEND inside --inside ${file})
  endforeach()
  set(writer ${CMAKE_CURRENT_SOURCE_DIR}/package/write_sbom.py)
  add_custom_command(OUTPUT ${package_dir}/worker-orcd.spdx.json
    COMMAND ${ORCD_DOCUMENT_PYTHON} -B ${writer} --ninja ${CMAKE_BINARY_DIR}
            --version-file ${ORCD_VERSION_FILE} --out-dir ${package_dir} ${inside} ${documented}
    DEPENDS ${writer} ${documented} ${ORCD_VERSION_FILE} VERBATIM
    COMMENT "The list of parts and their licences")
  add_custom_target(parts ALL DEPENDS ${package_dir}/worker-orcd.spdx.json)
  install(FILES ${package_dir}/worker-orcd.spdx.json ${package_dir}/copyright
          ${package_dir}/third-party-notices.gz DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
else()
  message(STATUS "no list of parts: it needs python3, Ninja and Debian's package database")
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME worker-orcd)
set(CPACK_PACKAGE_VENDOR "worker-orcd")
set(CPACK_PACKAGE_CONTACT "worker-orcd maintainers <maintainers@worker-orcd.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "serves one GGUF model from the memory of one GPU over HTTP")
string(CONCAT CPACK_DEBIAN_PACKAGE_DESCRIPTION
  "worker-orcd streams the tokens of one GGUF language model to OpenAI's\n"
  "clients or to anything that reads Server-Sent Events. It is built to run as\n"
  "a systemd service.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Creates the account when the package is set up. What is needed at run time only with a GPU is suggested: the
# package installs, and --version works, on a host without a driver.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "nvidia-persistenced")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/package/conffiles
    ${CMAKE_CURRENT_SOURCE_DIR}/package/postinst ${CMAKE_CURRENT_SOURCE_DIR}/package/prerm
    ${CMAKE_CURRENT_SOURCE_DIR}/package/postrm)
set(CPACK_ORCD_VERSION_FILE ${ORCD_VERSION_FILE})
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_SOURCE_DIR}/package/cpack.cmake)
include(CPack)
