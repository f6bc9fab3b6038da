# What every file of tril is compiled with.
add_library(tril_options INTERFACE)
target_compile_options(tril_options INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wshadow -Wconversion -Wno-sign-conversion -Wdouble-promotion
  # Fusing happens only where it is written: without this the compiler fuses even intrinsics.
  -ffp-contract=off -fno-math-errno -fno-trapping-math)
# AVX2 and AVX-512 on x86 (all that Highway counts as better than AVX-512 gives the same bits and
# costs compile time); a processor with neither gets a clear error from base/cpu.h.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_definitions(tril_options INTERFACE
    HWY_BASELINE_TARGETS=HWY_AVX2 HWY_DISABLED_TARGETS=0xFFLL)
endif()
