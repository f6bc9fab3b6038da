// The files that the server gives to browsers: those of page/ and openapi.json, embedded in the
// library at build time (tril_embed_files in cmake/page.cmake). Constants: any thread may read
// them. Internal to serve/.
//
// page.html is the page at `/`; it names the others as /assets/NAME. The page works under a policy
// without inline scripts and styles, and needs no file from anywhere else.
#pragma once

#include <span>
#include <string_view>

namespace tril::serve {

struct Asset {
  std::string_view name;   // "main.js"
  std::string_view type;   // its Content-Type: "text/javascript; charset=utf-8"
  std::string_view bytes;  // as in the file; may hold zeros
};

// In the order in which CMakeLists.txt names them; each name is there once.
std::span<const Asset> assets();

}  // namespace tril::serve
