# The libraries of Debian 12 that the project stands on. Boost and OpenSSL link statically where a
# static library exists, so that one binary runs on any host with a newer glibc.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.81 REQUIRED COMPONENTS json program_options log log_setup thread filesystem)
if(WORKER_TESTS)
  find_package(Boost 1.81 REQUIRED COMPONENTS unit_test_framework)
endif()
find_package(OpenSSL 3.0 REQUIRED)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(systemd REQUIRED IMPORTED_TARGET libsystemd)
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
find_library(UTF8PROC_LIBRARY NAMES libutf8proc.a utf8proc REQUIRED)
add_library(utf8proc INTERFACE)
target_include_directories(utf8proc INTERFACE ${UTF8PROC_INCLUDE_DIR})
target_compile_definitions(utf8proc INTERFACE UTF8PROC_STATIC)
target_link_libraries(utf8proc INTERFACE ${UTF8PROC_LIBRARY})

# The generator of pods reads YAML.
find_package(yaml-cpp 0.7 REQUIRED)
find_library(YAML_CPP_LIBRARY NAMES libyaml-cpp.a yaml-cpp REQUIRED)
add_library(orcd_yaml INTERFACE)
if(YAML_CPP_LIBRARY MATCHES "\\.a$")
  target_link_libraries(orcd_yaml INTERFACE ${YAML_CPP_LIBRARY})
else()
  target_link_libraries(orcd_yaml INTERFACE yaml-cpp)
endif()

# What decodes pictures and sounds, in a process of its own.
pkg_check_modules(jpeg REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(png REQUIRED IMPORTED_TARGET libpng16)
pkg_check_modules(webp REQUIRED IMPORTED_TARGET libwebp)
pkg_check_modules(mpg123 REQUIRED IMPORTED_TARGET libmpg123)
add_library(orcd_media_files INTERFACE)
target_link_libraries(orcd_media_files INTERFACE PkgConfig::jpeg PkgConfig::png PkgConfig::webp
                      PkgConfig::mpg123)

# Asio and Beast are compiled once, here, and not again in every source that includes them.
add_library(orcd_asio STATIC ${CMAKE_SOURCE_DIR}/cmake/asio_beast.cpp)
target_compile_definitions(orcd_asio PUBLIC BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION
                           BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_VISIBILITY)
target_link_libraries(orcd_asio PUBLIC Boost::headers OpenSSL::SSL OpenSSL::Crypto Threads::Threads)
# Asio's coroutine frames trip a false -Wmismatched-new-delete in g++ 12.
target_compile_options(orcd_asio PUBLIC $<$<CXX_COMPILER_ID:GNU>:-Wno-mismatched-new-delete>)
