# The systemd units, made from a few texts: one worker, one with a configuration of its own for each instance
# (worker-orcd@), the engines of a failover pair and their holder, and sockets.
# For packages that are moved after they were installed; empty: the install prefix.
set(WORKER_UNIT_PREFIX "" CACHE PATH "Prefix of the paths inside the systemd units")
if(WORKER_UNIT_PREFIX)
  set(unit_prefix ${WORKER_UNIT_PREFIX})
else()
  set(unit_prefix ${CMAKE_INSTALL_PREFIX})
endif()
if(unit_prefix STREQUAL "/usr")
  set(unit_conf_dir /etc)
else()
  set(unit_conf_dir ${unit_prefix}/etc)
endif()
set(unit_bin_dir ${unit_prefix}/${CMAKE_INSTALL_BINDIR})
set(unit_doc_dir ${unit_prefix}/share/doc/worker-orcd)
file(READ systemd/confinement.conf unit_confinement)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS systemd/confinement.conf)

# orcd_unit(NAME SOURCE): SOURCE with the unit_ variables filled in becomes the unit NAME.
function(orcd_unit unit_name source)
  configure_file(systemd/${source} ${CMAKE_CURRENT_BINARY_DIR}/${unit_name} @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${unit_name} DESTINATION lib/systemd/system)
endfunction()

set(unit_purpose "One worker-orcd; worker-orcd@.service is for several.")
set(unit_description "worker-orcd: serves one GGUF model over HTTP")
set(unit_options "--config ${unit_conf_dir}/worker-orcd/worker-orcd.conf")
orcd_unit(worker-orcd.service worker.service.in)
set(unit_purpose "One of several worker-orcd: %i names it and its configuration.")
set(unit_description "worker-orcd %i: serves one GGUF model over HTTP")
set(unit_options "--config ${unit_conf_dir}/worker-orcd/%i.conf")
orcd_unit(worker-orcd@.service worker.service.in)

set(unit_purpose "The address of worker-orcd.service, if systemd is to keep it open across restarts.")
set(unit_description "worker-orcd, listening socket")
orcd_unit(worker-orcd.socket listener.socket.in)
set(unit_purpose "The address of worker-orcd@%i.service, if systemd is to keep it open across restarts.")
set(unit_description "worker-orcd %i, listening socket")
orcd_unit(worker-orcd@.socket listener.socket.in)

# Both engines of a pair have one configuration. %j is the last word of the unit's name before the @: the
# engine.
string(CONCAT unit_purpose "One engine of a failover pair (docs/failover.md): %i names the pair and its "
                           "configuration, %j is the engine.")
set(unit_description "worker-orcd %i, engine %j")
string(CONCAT unit_options "--config ${unit_conf_dir}/worker-orcd/%i.conf --failover-dir /run/worker-orcd-%i "
                           "--engine-id %j")
set(unit_after " worker-orcd-holder@%i.service")
string(CONCAT unit_more
  "# The engines share it. Without the second line the first of them to stop would take the others' lock.\n"
  "RuntimeDirectory=worker-orcd-%i\nRuntimeDirectoryPreserve=yes\nRuntimeDirectoryMode=0700\n"
  "# What is this engine's alone: WORKER_ORCD_SYSTEM_PORT=, where a probe wants to know it.\n"
  "EnvironmentFile=-${unit_conf_dir}/worker-orcd/%i-%j.env\n\n")
orcd_unit(worker-orcd-engine-0@.service worker.service.in)
orcd_unit(worker-orcd-engine-1@.service worker.service.in)
if(TARGET worker-orcd-holder)
  orcd_unit(worker-orcd-holder@.service holder.service.in)
endif()

install(FILES systemd/sysusers.conf DESTINATION lib/sysusers.d RENAME worker-orcd.conf)
install(FILES systemd/tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME worker-orcd.conf)
