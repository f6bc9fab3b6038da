# Compiler options of every file of tril. Warnings are errors where tril is tested, but not where people build it to
# use it, in preset release or inside other projects: their compilers may have more warnings.
option(TRIL_WERROR "Warnings are errors" ${PROJECT_IS_TOP_LEVEL})
add_library(tril_options INTERFACE)
target_compile_options(tril_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  # clang 14 warns about double{x}, although the promotion is explicit.
  $<$<CXX_COMPILER_ID:GNU>:-Wdouble-promotion>
  # GCC takes a reference that a function of a temporary returns for one to that temporary.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-dangling-reference>
  # The bits do not depend on the options of a surrounding project: no fast-math, and fusing only
  # where the source says so (without this the compiler fuses even intrinsics).
  -fno-fast-math -ffp-contract=off -fno-math-errno -fno-trapping-math)
if(TRIL_WERROR)
  target_compile_options(tril_options INTERFACE -Werror)
endif()
# Without a build type the compiler does not optimise, and kernels would be fifty times slower.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND NOT CMAKE_CXX_FLAGS MATCHES "-O")
  target_compile_options(tril_options INTERFACE -O3)
endif()
# No path of the build is in what packages hold (cmake/packages.cmake).
if(TRIL_PACKAGES)
  set(tril_no_paths "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=/usr/src/tril")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${tril_no_paths}>" "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${tril_no_paths}>")
endif()
# AVX2 and AVX-512 on x86 (Highway's further AVX-512 targets give the same bits and cost compile
# time); a processor with neither gets a clear error from base/cpu.h.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_definitions(tril_options INTERFACE
    HWY_BASELINE_TARGETS=HWY_AVX2 HWY_DISABLED_TARGETS=0xFFLL)
endif()
