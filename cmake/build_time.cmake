# What makes a build from scratch faster; none of it changes what is computed. The presets for people
# use it. The preset fuzz does not, nor do other projects that include tril: there every file is
# compiled alone with its own includes, so that a missing one is noticed.
option(TRIL_PRECOMPILE "Precompile headers that many files include" OFF)
# Templates and inline functions of headers are then instantiated once for several files. Whoever
# works on one file for a while is faster with -D TRIL_TOGETHER=0.
set(TRIL_TOGETHER 0 CACHE STRING "Compile this many files of a folder in one go; 0: each alone")
if(TRIL_TOGETHER GREATER 0)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE ${TRIL_TOGETHER})
  # GCC takes the files for headers.
  target_compile_options(tril_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
# A kernel that nobody can run need not be optimised, which takes most of nvcc's time.
option(TRIL_CUDA_FAST_COMPILE "Leave CUDA kernels unoptimised if this machine has no NVIDIA GPU" OFF)
if(EXISTS /dev/nvidiactl OR EXISTS /dev/dxg)
  set(TRIL_CUDA_FAST_COMPILE OFF)
endif()

set(TRIL_STANDARD_HEADERS <algorithm> <array> <bit> <cmath> <cstdint> <cstring> <deque> <functional> <limits> <map>
    <memory> <optional> <span> <string> <string_view> <utility> <vector>)

# tril_cuda_together(RESULT NAME FILE...): the files to compile, where those other than attention's may stand in one
# generated file NAME. CMake does this for C++ only; optimised, one file would keep one core busy for minutes.
function(tril_cuda_together result name)
  set(alone ${ARGN})
  set(together)
  if(TRIL_CUDA_FAST_COMPILE AND TRIL_TOGETHER GREATER 0)
    list(FILTER alone INCLUDE REGEX attention)
    foreach(file ${ARGN})
      if(NOT file IN_LIST alone)
        string(APPEND together "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${file}\"\n")
      endif()
    endforeach()
    file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name} CONTENT "${together}")
    list(APPEND alone ${CMAKE_CURRENT_BINARY_DIR}/${name})
  endif()
  set(${result} ${alone} PARENT_SCOPE)
endfunction()

# tril_precompile(TARGET HEADER...): precompiles headers for a target and those that reuse them.
function(tril_precompile target)
  if(TRIL_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# tril_reuse_precompiled(TARGET OWNER): takes those of another target, which must be compiled with the same options.
function(tril_reuse_precompiled target owner)
  if(TRIL_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# The owner of the standard headers, compiled as the folders of the library are.
if(TRIL_PRECOMPILE)
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/tril_standard.cpp CONTENT "")
  add_library(tril_standard OBJECT ${CMAKE_CURRENT_BINARY_DIR}/tril_standard.cpp)
  set_target_properties(tril_standard PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(tril_standard PRIVATE tril_options)
  tril_precompile(tril_standard ${TRIL_STANDARD_HEADERS})
endif()
