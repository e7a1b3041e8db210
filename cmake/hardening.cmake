# A fault of memory ends the program rather than being used: canaries behind arrays on the stack, no step over
# a stack's guard page, copies of the C library that check sizes which the compiler knows, tables of the
# loader that are read-only from the start, no stack that can be executed. Code lies at addresses drawn anew,
# as Debian's compiler has it by itself. Without -fcf-protection: Debian 12's startup code has no such marks,
# so that no program would be held to them. test/integration/build_files/test_hardening.py reads the programs.
#
# Sanitizers see more, and their runtimes take the same calls.
if(NOT WORKER_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong>
                      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fstack-clash-protection>)
  # The C library's checks need an optimizing compiler.
  set(checked $<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release,RelWithDebInfo,MinSizeRel>>)
  add_compile_options($<${checked}:-U_FORTIFY_SOURCE> $<${checked}:-D_FORTIFY_SOURCE=3>)
  add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
endif()
