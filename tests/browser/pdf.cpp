#include "browser/pdf.h"

#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace tril::testing {
namespace {

[[noreturn]] void bad_pdf(const std::string& what) { throw std::runtime_error("pdf: " + what); }

std::string unpacked(const std::string& packed) {
  std::string text(packed.size() * 40 + 4096, '\0');
  auto size = static_cast<uLongf>(text.size());
  if (uncompress(reinterpret_cast<Bytef*>(text.data()), &size,
                 reinterpret_cast<const Bytef*>(packed.data()),
                 static_cast<uLong>(packed.size())) != Z_OK) {
    bad_pdf("a stream does not unpack");
  }
  text.resize(size);
  return text;
}

// The stream of object `number`.
std::string stream_of(const std::string& bytes, const std::string& number) {
  const size_t object = bytes.find("\n" + number + " 0 obj\n");
  const size_t begin = bytes.find("stream\n", object);
  const size_t end = bytes.find("\nendstream", begin);
  if (object == std::string::npos || end == std::string::npos) bad_pdf("no object " + number);
  return unpacked(bytes.substr(begin + 7, end - begin - 7));
}

// Pages are windows on one long sheet: the second matrix says which part of it this one shows, and
// text has coordinates of the sheet.
double reach_of(const std::string& content) {
  const size_t box = content.find(" re\nW* n\nq\n");
  double left = 0.0, top = 0.0, width = 0.0, height = 0.0, scale = 0.0, moved = 0.0;
  const size_t line = content.rfind('\n', box) + 1;
  if (box == std::string::npos ||
      std::sscanf(content.c_str() + line, "%lf %lf %lf %lf", &left, &top, &width, &height) != 4 ||
      std::sscanf(content.c_str() + box + 11, "%lf 0 0 %*f %*f %lf cm", &scale, &moved) != 2) {
    bad_pdf("a page does not begin as expected");
  }
  const double begin = (top - moved) / scale;
  const double end = begin + height / scale;
  double last = begin;
  for (size_t at = content.find(" Tm\n"); at != std::string::npos;
       at = content.find(" Tm\n", at + 1)) {
    const size_t from = content.rfind('\n', at) + 1;
    double y = 0.0;
    if (std::sscanf(content.c_str() + from, "%*f %*f %*f %*f %*f %lf", &y) != 1) continue;
    if (y < end) last = std::max(last, y);
  }
  return (last - begin) / (end - begin);
}

}  // namespace

std::vector<PdfPage> pages_of_pdf(const std::string& bytes) {
  std::vector<PdfPage> pages;
  const std::string page = "/Type /Page\n";
  for (size_t at = bytes.find(page); at != std::string::npos; at = bytes.find(page, at + 1)) {
    const size_t contents = bytes.find("/Contents ", at);
    if (contents == std::string::npos) bad_pdf("a page without contents");
    const size_t digits = contents + 10;
    PdfPage& made = pages.emplace_back();
    made.content = stream_of(bytes, bytes.substr(digits, bytes.find(' ', digits) - digits));
    made.reach = reach_of(made.content);
  }
  return pages;
}

}  // namespace tril::testing
