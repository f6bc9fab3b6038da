# What belongs to the installed program besides itself (manual pages, completions, the unit of systemd), and, in preset
# package, the Debian packages of components program, library and development. scripts/packages.sh makes them.
if(NOT TRIL_PROGRAM OR NOT TRIL_INSTALL OR TRIL_FUZZ OR CMAKE_CROSSCOMPILING)
  return()
endif()

option(TRIL_PACKAGES "Set up CPack for Debian packages" OFF)

# The time that files get which are made for the packages: that of the commit, so that they are the same wherever and
# whenever they are built. Without git, or for a tree that is not a repository, that of the build.
set(tril_epoch "$ENV{SOURCE_DATE_EPOCH}")
if(tril_epoch STREQUAL "")
  execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} log -1 --format=%ct OUTPUT_VARIABLE tril_epoch
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(tril_at_that_time)
if(tril_epoch MATCHES "^[0-9]+$")
  set(tril_at_that_time ${CMAKE_COMMAND} -E env SOURCE_DATE_EPOCH=${tril_epoch})
endif()

# The program writes what describes it.
find_program(TRIL_GZIP gzip)
mark_as_advanced(TRIL_GZIP)
set(tril_described ${CMAKE_CURRENT_BINARY_DIR}/described)
set(tril_compress)
if(TRIL_GZIP)
  set(tril_compress COMMAND sh -c "exec \"$0\" -9n \"$1\"/*.1" ${TRIL_GZIP} ${tril_described}/man1)
endif()
set(tril_describe COMMAND ${tril_at_that_time} $<TARGET_FILE:tril_program> describe)
add_custom_command(
  OUTPUT ${tril_described}/done
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${tril_described}
  ${tril_describe} man -o ${tril_described}/man1
  ${tril_describe} bash -o ${tril_described}
  ${tril_describe} zsh -o ${tril_described}
  ${tril_describe} fish -o ${tril_described}
  ${tril_compress}
  COMMAND ${CMAKE_COMMAND} -E touch ${tril_described}/done
  DEPENDS tril_program
  COMMENT "Writing manual pages and completions" VERBATIM)
add_custom_target(tril_described ALL DEPENDS ${tril_described}/done)
install(DIRECTORY ${tril_described}/man1/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${tril_described}/tril DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
install(FILES ${tril_described}/tril.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
# Debian's zsh looks for what packages bring in a folder of its own.
set(tril_zsh site-functions)
if(TRIL_PACKAGES)
  set(tril_zsh vendor-completions)
endif()
install(FILES ${tril_described}/_tril DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${tril_zsh} COMPONENT program)

if(NOT TRIL_PACKAGES)
  return()
endif()
if(NOT tril_at_that_time)
  string(TIMESTAMP tril_epoch %s UTC)
endif()

# The service is there, but neither enabled nor started: it needs models and keys first.
install(FILES deploy/tril.service DESTINATION lib/systemd/system COMPONENT program)
install(FILES deploy/tril.env deploy/keys.example DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tril/examples
        COMPONENT program)
install(DIRECTORY deploy/nginx DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tril/examples COMPONENT program)

# What Debian wants of every package: its licence, and the history of the packaging.
set(TRIL_MAINTAINER "tril maintainers <maintainers@tril.invalid>" CACHE STRING "Who answers for the Debian packages")
set(TRIL_PACKAGE_REVISION 1 CACHE STRING "Revision of the Debian packages")
set(ENV{SOURCE_DATE_EPOCH} ${tril_epoch})
string(TIMESTAMP TRIL_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
unset(ENV{SOURCE_DATE_EPOCH})
configure_file(deploy/debian/changelog.in ${CMAKE_CURRENT_BINARY_DIR}/debian/changelog @ONLY)
configure_file(CHANGELOG.md ${CMAKE_CURRENT_BINARY_DIR}/debian/CHANGELOG.md COPYONLY)
foreach(name changelog CHANGELOG.md)
  execute_process(COMMAND ${TRIL_GZIP} -9nf ${CMAKE_CURRENT_BINARY_DIR}/debian/${name} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
set(package_program tril)
set(package_library libtril0)
set(package_development libtril-dev)
foreach(component program library development)
  set(folder ${CMAKE_INSTALL_DATADIR}/doc/${package_${component}})
  install(FILES deploy/debian/copyright DESTINATION ${folder} COMPONENT ${component})
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/debian/changelog.gz DESTINATION ${folder} RENAME changelog.Debian.gz
          COMPONENT ${component})
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/debian/CHANGELOG.md.gz DESTINATION ${folder} RENAME changelog.gz
          COMPONENT ${component})
endforeach()

# What each package holds is made of, asked of the build when it is installed.
set(tril_made_program $<TARGET_FILE:tril_program>)
set(tril_made_library $<TARGET_FILE:tril_shared>)
set(tril_made_development $<TARGET_FILE:tril_archive>)
set(tril_cudart "")
if(TRIL_CUDA_FOUND)
  set(tril_cudart ${CUDAToolkit_VERSION})
endif()
foreach(component program library development)
  set(name ${package_${component}})
  set(tril_sbom ${CMAKE_CURRENT_BINARY_DIR}/debian/${name}.spdx.json)
  install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" -E env SOURCE_DATE_EPOCH=${tril_epoch} CUDART=${tril_cudart}
    \"${PROJECT_SOURCE_DIR}/scripts/sbom.sh\" ${name} ${PROJECT_VERSION} \"${CMAKE_BINARY_DIR}\" \"${tril_made_${component}}\"
    \"$<TARGET_FILE:tril_shared>\" OUTPUT_FILE \"${tril_sbom}\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
  install(FILES ${tril_sbom} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_NAME tril)
set(CPACK_PACKAGE_CONTACT ${TRIL_MAINTAINER})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
    WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program library development)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${TRIL_PACKAGE_REVISION})
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME tril)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "Transformers whose training and decoding are one function, bit for bit
tril trains Transformers, translates with them, serves them over HTTP, shows
what happens inside them, and checks on any model that training and inference
compute the same function. It reads models of Hugging Face's transformers. It
needs a processor with AVX2.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libtril0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
    "Transformers that translate, shared library for C
libtril loads model folders that tril made or imported, translates with them,
scores, generates and tokenizes. What a text becomes does not depend on the
texts that are translated beside it, nor on the number of threads.")
# dpkg runs ldconfig by a trigger. CPack would write scripts that call it, unless it is given scripts of their names;
# files that do not exist are left out.
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/debian/triggers
    ${CMAKE_CURRENT_BINARY_DIR}/debian/none/postinst ${CMAKE_CURRENT_BINARY_DIR}/debian/none/postrm)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtril-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "libtril0 (= ${PROJECT_VERSION}-${TRIL_PACKAGE_REVISION}), libhwy-dev, libsentencepiece-dev, zlib1g-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "Transformers that translate, files to build programs in C and C++
The headers of both interfaces, the C++ library as a static archive, and the
files by which CMake and pkg-config find them.")
include(CPack)
