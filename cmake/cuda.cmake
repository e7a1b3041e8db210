# Whether the CUDA side is built: -DWORKER_CUDA=ON|OFF, else .llorch.toml ([build] cuda, auto_detect_cuda),
# else whether a CUDA compiler is found (M0-W-1700, M0-W-1701).
include(CheckLanguage)
include(${CMAKE_CURRENT_LIST_DIR}/llorch.cmake)
read_llorch(${CMAKE_SOURCE_DIR}/.llorch.toml)
if(llorch_cuda STREQUAL "true")
  set(cuda_default ON)
elseif(llorch_cuda STREQUAL "false" OR llorch_auto STREQUAL "false" OR WORKER_SANITIZE OR WORKER_FUZZ)
  set(cuda_default OFF)
else()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(cuda_default ON)
  else()
    set(cuda_default OFF)
  endif()
endif()
option(WORKER_CUDA "Build the CUDA kernels and the cuda backend" ${cuda_default})
set(WORKER_CUDA_ARCHS "90a" CACHE STRING "CUDA architectures, separated by semicolons")
# For one run, and not for the next one in the same folder, which may be for a GPU.
if(DEFINED ENV{ORCD_CUDA_ARCHS})
  set(WORKER_CUDA_ARCHS "$ENV{ORCD_CUDA_ARCHS}")
endif()

if(WORKER_CUDA)
  # The warpgroup instructions of Hopper are in the architecture's own set only, and no other card can run
  # PTX of that set: without it the worker is a fifth smaller.
  list(TRANSFORM WORKER_CUDA_ARCHS REPLACE "^90a?$" "90a-real" OUTPUT_VARIABLE cuda_archs)
  set(CMAKE_CUDA_ARCHITECTURES ${cuda_archs})
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc 12 and later have C++20; orcd_device_code() gives the flag.
  unset(CMAKE_CUDA_STANDARD)
  find_package(CUDAToolkit 13.0 REQUIRED)
endif()
option(WORKER_LIBRARY "Build the C library, libworker_cuda.so; without CUDA it computes on the CPU only"
       ${WORKER_CUDA})
if(WORKER_CUDA OR WORKER_LIBRARY)
  # The libraries go into the shared library of the C API as well; hidden, so that calls between them
  # stay as direct as in an executable.
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
endif()
message(STATUS "CUDA backend: ${WORKER_CUDA}")

# How the .cu files of a target are compiled.
function(orcd_device_code name)
  set_target_properties(${name} PROPERTIES CUDA_STANDARD_REQUIRED OFF)
  target_compile_options(${name} PRIVATE -std=c++20 --Werror=all-warnings -Xcompiler=-Wall,-Wextra)
endfunction()
