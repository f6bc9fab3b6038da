// Pages of the manual in mdoc, which man-db and mandoc show.
#pragma once

#include <string>
#include <vector>

#include "command_text.h"

namespace tril::app {

struct ManPage {
  std::string name;  // "tril-train", of section 1
  std::string text;
};

// tril(1), and after it a page for each command. `date` is that of the pages: "November 19, 2026".
std::vector<ManPage> man_pages(const ProgramText& program, const std::string& date);

}  // namespace tril::app
