# What others link, and what `cmake --install` puts where: the shared library for C, the C++ library as one archive, the
# headers, and the files by which CMake and pkg-config find them. Components: program, library, development.
option(TRIL_INSTALL "Build the libraries for others, and the rules to install them" ${PROJECT_IS_TOP_LEVEL})
if(NOT TRIL_INSTALL OR TRIL_FUZZ)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(cmake/public_headers.cmake)

# For C: libtril.so.0 exports the functions of tril/c.h and nothing else. Everything is linked in but the libraries of the
# system. It is never unloaded, because its engine's threads may outlive dlclose().
add_library(tril_shared SHARED $<TARGET_OBJECTS:tril_c>)
add_library(tril::c ALIAS tril_shared)
target_link_libraries(tril_shared PRIVATE tril_translate)
target_include_directories(tril_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set(tril_exports ${PROJECT_SOURCE_DIR}/src/tril/c/exports.map)
target_link_options(tril_shared PRIVATE -Wl,--version-script=${tril_exports} -Wl,-z,nodelete -Wl,-z,noexecstack)
if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  target_link_options(tril_shared PRIVATE -Wl,--no-undefined)
endif()
set_target_properties(tril_shared PROPERTIES OUTPUT_NAME tril VERSION ${PROJECT_VERSION} SOVERSION 0
                      LINKER_LANGUAGE CXX LINK_DEPENDS ${tril_exports} EXPORT_NAME c)

# For C++: the objects of every folder in one archive, and, where CUDA was built, those of its static runtime, so that no
# CUDA is needed to link it.
get_property(tril_folders GLOBAL PROPERTY TRIL_FOLDERS)
list(TRANSFORM tril_folders PREPEND tril_ OUTPUT_VARIABLE tril_parts)
if(TRIL_CUDA_FOUND)
  list(APPEND tril_parts tril_kernels_cuda tril_device_cuda)
endif()
list(TRANSFORM tril_parts REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE tril_objects)
add_library(tril_archive STATIC ${tril_objects})
set_target_properties(tril_archive PROPERTIES OUTPUT_NAME tril LINKER_LANGUAGE CXX EXPORT_NAME tril)
target_compile_features(tril_archive INTERFACE cxx_std_20)
target_include_directories(tril_archive INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(tril_archive INTERFACE $<INSTALL_INTERFACE:tril::dependencies>)
set(tril_definitions)
if(TRIL_CUDA_FOUND)
  set(tril_definitions TRIL_CUDA_BUILT) # base/build.h
  target_compile_definitions(tril_archive INTERFACE TRIL_CUDA_BUILT)
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/tril_archive.mri
       CONTENT "OPEN $<TARGET_FILE:tril_archive>\nADDLIB ${CUDA_cudart_static_LIBRARY}\nSAVE\nEND\n")
  add_custom_command(TARGET tril_archive POST_BUILD VERBATIM
                     COMMAND sh -c "\"$0\" -M <\"$1\"" ${CMAKE_AR} ${CMAKE_CURRENT_BINARY_DIR}/tril_archive.mri)
endif()

install(TARGETS tril_shared EXPORT tril_c
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(TARGETS tril_archive EXPORT tril_cpp
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
foreach(header tril/c.h ${TRIL_PUBLIC_HEADERS})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES src/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT development)
endforeach()
set(tril_cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tril)
foreach(language c cpp)
  install(EXPORT tril_${language} NAMESPACE tril:: DESTINATION ${tril_cmake_folder} FILE tril-${language}.cmake
          COMPONENT development)
endforeach()
configure_package_config_file(cmake/trilConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/trilConfig.cmake
                              INSTALL_DESTINATION ${tril_cmake_folder})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/trilConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/trilConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/trilConfigVersion.cmake
        DESTINATION ${tril_cmake_folder} COMPONENT development)

# Relative to where they lie, so that an installed tree can be moved.
file(RELATIVE_PATH tril_prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" tril_prefix_from_pc "${tril_prefix_from_pc}")
list(TRANSFORM tril_definitions PREPEND " -D" OUTPUT_VARIABLE tril_pc_definitions)
list(JOIN tril_pc_definitions "" tril_pc_definitions)
foreach(name tril tril-cpp)
  configure_file(cmake/${name}.pc.in ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
          COMPONENT development)
endforeach()

if(TRIL_PROGRAM)
  install(TARGETS tril_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()
