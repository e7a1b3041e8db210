# Build options and the flags every target shares.
option(WORKER_TESTS "Build the tests" ON)
option(WORKER_BENCH "Build the benchmarks under bench/" OFF)
option(WORKER_FUZZ "Build the libFuzzer targets (clang only)" OFF)
option(WORKER_TOGETHER "Compile several sources at a time: a build takes half as long, a change longer" ON)
set(WORKER_SANITIZE "" CACHE STRING "Sanitizers for every target: address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# One set of warnings for all; bits must not depend on the compiler's freedom to contract a*b+c.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wpedantic> $<$<COMPILE_LANGUAGE:CXX>:-Werror>
                    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
# What is shipped is held to more than its tests; not with a sanitizer, behind whose checks g++ no longer sees
# that a value fits.
if(NOT WORKER_SANITIZE)
  foreach(warning shadow conversion sign-conversion)
    list(APPEND orcd_library_warnings $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-W${warning}>)
  endforeach()
endif()
# g++ 12 sees overlaps that cannot be in inlined std::string code at -O3.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
# Paths in binaries start at the project, so that two checkouts build the same bytes.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>)

if(WORKER_SANITIZE)
  add_compile_options(-fsanitize=${WORKER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${WORKER_SANITIZE})
  # With sanitizers g++ 12 takes an empty boost::optional for an uninitialized one.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  if(WORKER_SANITIZE MATCHES thread)
    # g++ warns of every fence in Asio's headers; what they order is also ordered by Asio's mutexes.
    add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-tsan>)
  endif()
endif()
if(WORKER_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "WORKER_FUZZ needs clang++ (preset 'fuzz')")
  endif()
  # Coverage for every target; fuzz executables add the fuzzer's main when they link.
  # Without the function-type check: clang 14 cannot emit it for coroutines.
  add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize=function)
endif()
