// The files of the page at /, and the OpenAPI document, as they are embedded into the program.
#pragma once

#include <span>
#include <string_view>

namespace tril::serve {

struct Asset {
  std::string_view name;  // "main.js"
  std::string_view type;  // its Content-Type
  std::string_view bytes;
};

std::span<const Asset> assets();

}  // namespace tril::serve
