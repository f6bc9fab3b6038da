// Any files of a folder are either a tokenizer that works, or one tril::Error.
//
// The input is the family in one line, then for each file a line "=== NAME" and its contents.
#include <cstddef>
#include <cstdint>

#include "fuzz/use_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(bytes), size);
  const auto take_until = [&](std::string_view mark) {
    const size_t at = std::min(rest.find(mark), rest.size());
    const std::string_view taken = rest.substr(0, at);
    rest.remove_prefix(std::min(at + mark.size(), rest.size()));
    return taken;
  };
  constexpr std::string_view kFile = "\n=== ";
  const std::string family(take_until(kFile));
  if (family.find('\n') != std::string::npos) return 0;
  tril::TokenizerFiles files;
  const auto names = tril::Tokenizer::file_names();
  while (!rest.empty()) {
    const std::string name(take_until("\n"));
    const std::string_view content = take_until(kFile);
    if (std::find(names.begin(), names.end(), name) != names.end()) files[name] = content;
  }
  tril::fuzz::try_files(std::move(files), family);
  return 0;
}
