# tril_embed_page(TARGET FOLDER FILE...): puts the page's files into a source of TARGET at build
# time. They are named one by one, because a pattern would be evaluated again at every build.
function(tril_embed_page target folder)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/ OUTPUT_VARIABLE parts)
  file(GLOB there RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/${folder} ${folder}/*.js ${folder}/*.css ${folder}/*.html)
  list(REMOVE_ITEM there ${ARGN})
  if(there)
    message(FATAL_ERROR "${folder} has files that are not named in CMakeLists.txt: ${there}")
  endif()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}_page.cpp)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -D FOLDER=${CMAKE_CURRENT_SOURCE_DIR}/${folder} -D OUTPUT=${source}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_page.cmake
    DEPENDS ${parts} ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_page.cmake
    COMMENT "Embedding ${folder}" VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()

# tril_embed_files(TARGET FOLDER FILE...): puts files, byte for byte, into a source of TARGET at build
# time, which implements src/tril/serve/assets.h. FILE is relative to FOLDER; "../openapi.json" lies
# beside it. As above they are named one by one, and none of the folder may be missing.
function(tril_embed_files target folder)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/ OUTPUT_VARIABLE parts)
  file(GLOB there RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/${folder} ${folder}/*)
  list(REMOVE_ITEM there ${ARGN})
  if(there)
    message(FATAL_ERROR "${folder} has files that are not named in CMakeLists.txt: ${there}")
  endif()
  foreach(part ${parts})
    if(NOT EXISTS ${part})
      message(FATAL_ERROR "CMakeLists.txt names ${part}, which does not exist")
    endif()
  endforeach()
  string(REPLACE ";" "|" joined "${parts}")
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}_files.cpp)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -D "FILES=${joined}" -D OUTPUT=${source}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_files.cmake
    DEPENDS ${parts} ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_files.cmake
    COMMENT "Embedding ${folder}" VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
