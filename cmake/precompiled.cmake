# Most of what the compiler reads in a source is headers of the standard library and of Boost. Those that many
# include are parsed once. Sources still include what they use: clang-tidy reads them without this.
option(WORKER_PRECOMPILED "Parse common headers once for many sources" ON)

set(orcd_standard_headers <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <cstddef> <cstdint>
    <cstring> <functional> <limits> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream>
    <stdexcept> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>)
set(orcd_json_headers ${orcd_standard_headers} <boost/json.hpp>)
set(orcd_asio_headers ${orcd_json_headers} <boost/asio/awaitable.hpp> <boost/asio/co_spawn.hpp>
    <boost/asio/io_context.hpp> <boost/asio/ip/tcp.hpp> <boost/asio/post.hpp> <boost/asio/ssl/context.hpp>
    <boost/asio/steady_timer.hpp> <boost/asio/use_awaitable.hpp> <boost/beast/core/tcp_stream.hpp>
    <boost/beast/http.hpp> <boost/beast/ssl/ssl_stream.hpp>)
set(orcd_test_headers ${orcd_json_headers} <boost/test/data/monomorphic.hpp> <boost/test/data/test_case.hpp>
    <boost/test/unit_test.hpp>)

# orcd_precompiled(KIND LINK...): orcd_KIND_headers for targets that link what LINK... links; a compiler takes
# precompiled headers only under the definitions that they were parsed with. `test` is for executables.
function(orcd_precompiled kind)
  if(WORKER_PRECOMPILED)
    set(source ${CMAKE_SOURCE_DIR}/cmake/precompiled.cpp)
    if(kind STREQUAL test)
      add_executable(orcd_precompiled_test EXCLUDE_FROM_ALL ${source})
      target_compile_options(orcd_precompiled_test PRIVATE ${orcd_test_options})
    else()
      add_library(orcd_precompiled_${kind} OBJECT EXCLUDE_FROM_ALL ${source})
    endif()
    target_link_libraries(orcd_precompiled_${kind} PRIVATE ${ARGN})
    target_precompile_headers(orcd_precompiled_${kind} PRIVATE ${orcd_${kind}_headers})
  endif()
endfunction()

# orcd_precompile(KIND TARGET...): the targets start from the headers of KIND.
function(orcd_precompile kind)
  if(WORKER_PRECOMPILED)
    foreach(target IN LISTS ARGN)
      target_precompile_headers(${target} REUSE_FROM orcd_precompiled_${kind})
      # g++ 12 does not take such headers for the system's, and warns of what it inlines of std::string.
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds>
                             $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow>
                             $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overread>)
    endforeach()
  endif()
endfunction()

orcd_precompiled(standard Boost::headers)
orcd_precompiled(json Boost::json)
orcd_precompiled(asio orcd_asio Boost::json)
if(WORKER_TESTS)
  orcd_precompiled(test Boost::json Boost::unit_test_framework)
endif()
