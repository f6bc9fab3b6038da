# tril_embed_page(TARGET FOLDER): puts the page's files into a source of TARGET at build time.
function(tril_embed_page target folder)
  file(GLOB parts CONFIGURE_DEPENDS ${folder}/*.js ${folder}/*.css ${folder}/*.html)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}_page.cpp)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -D FOLDER=${CMAKE_CURRENT_SOURCE_DIR}/${folder} -D OUTPUT=${source}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_page.cmake
    DEPENDS ${parts} ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_page.cmake
    COMMENT "Embedding ${folder}" VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
