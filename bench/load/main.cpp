#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>

#include "json_text.h"
#include "run.h"

namespace {

void write(const std::string& path, const std::string& text) {
  if (path.empty()) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  if (!(std::ofstream(path, std::ios::binary) << text)) {
    throw std::runtime_error("cannot write " + path);
  }
}

// What the report begins with: which run it was.
std::string about(const load::Options& options) {
  const bool open = options.rate > 0;
  return "\n  \"target\": " + load::json_quoted(options.target) +
         ",\n  \"loop\": " + (open ? "\"open\"" : "\"closed\"") + ",\n  \"" +
         (open ? "rate\": " + std::to_string(options.rate)
               : "clients\": " + std::to_string(options.clients)) +
         ",\n  \"seed\": " + std::to_string(options.seed);
}

int with_arguments(const std::vector<std::string>& arguments) {
  const load::Options options = load::parse_options(arguments);
  load::Report report = load::run(options);
  write(options.report, load::to_json(report, about(options)));
  if (options.golden.empty()) return 0;
  if (report.checked == 0) std::fputs("tril_load: nothing was answered\n", stderr);
  return report.checked > 0 && report.faultless() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0) {
      std::fputs(load::kHelp, stdout);
      return 0;
    }
  }
  try {
    return with_arguments({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tril_load: %s\n", error.what());
    return 2;
  }
}
