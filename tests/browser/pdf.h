// As much of a PDF as the tests of printing need: its pages, as Chromium writes them.
#pragma once

#include <string>
#include <vector>

namespace tril::testing {

struct PdfPage {
  std::string content;  // the drawing operators, unpacked
  // How far down the page its last line of text is, as a share of its height.
  double reach = 0.0;
};

// Raises std::runtime_error for anything but what Chromium (Skia) writes.
std::vector<PdfPage> pages_of_pdf(const std::string& bytes);

}  // namespace tril::testing
