// The version of tril: of its headers where this is read, and of the library where it is compiled.
// CMake writes this file from project(VERSION) in CMakeLists.txt; the version is changed there.
#pragma once

#define TRIL_VERSION_MAJOR 0
#define TRIL_VERSION_MINOR 1
#define TRIL_VERSION_PATCH 0
// 10203 for 1.2.3, for the preprocessor: #if TRIL_VERSION_NUMBER >= 10203
#define TRIL_VERSION_NUMBER \
  (TRIL_VERSION_MAJOR * 10000 + TRIL_VERSION_MINOR * 100 + TRIL_VERSION_PATCH)

namespace tril {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace tril
