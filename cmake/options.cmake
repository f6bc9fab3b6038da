# What every file of tril is compiled with. Warnings are errors where tril itself is built, not inside
# other people's projects, whose compilers may know more of them.
add_library(tril_options INTERFACE)
target_compile_options(tril_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  # clang 14 takes double{x}, which says what it does, for a promotion nobody asked for.
  $<$<CXX_COMPILER_ID:GNU>:-Wdouble-promotion>
  # Whatever a project around this one says, the bits are these: no fast-math, and fusing only where
  # it is written (without this the compiler fuses even intrinsics).
  -fno-fast-math -ffp-contract=off -fno-math-errno -fno-trapping-math)
if(PROJECT_IS_TOP_LEVEL)
  target_compile_options(tril_options INTERFACE -Werror)
endif()
# Without a build type a compiler does not optimise, and kernels would be fifty times slower.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND NOT CMAKE_CXX_FLAGS MATCHES "-O")
  target_compile_options(tril_options INTERFACE -O3)
endif()
# AVX2 and AVX-512 on x86 (all that Highway counts as better than AVX-512 gives the same bits and
# costs compile time); a processor with neither gets a clear error from base/cpu.h.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_definitions(tril_options INTERFACE
    HWY_BASELINE_TARGETS=HWY_AVX2 HWY_DISABLED_TARGETS=0xFFLL)
endif()
