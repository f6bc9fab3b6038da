# Headers that many files include, compiled once: this makes a build from scratch much faster. The
# presets for people use them. The preset fuzz does not, nor do other projects that include tril:
# there every file is compiled with its own includes alone, so that a missing one is noticed.
option(TRIL_PRECOMPILE "Precompile headers that many files include" OFF)

set(TRIL_STANDARD_HEADERS <algorithm> <array> <bit> <cmath> <cstdint> <cstring> <deque> <functional> <limits> <map>
    <memory> <optional> <span> <string> <string_view> <utility> <vector>)

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
