// Any bytes as a shortlist: either one whose every set is in order and below the vocabulary, or one
// tril::Error that names the file.
#include <algorithm>
#include <cstdint>
#include <string>

#include "scratch.h"
#include "tril/base/error.h"
#include "tril/decode/shortlist.h"
#include "tril/models/folder.h"

namespace {

using tril::fuzz::check;

void use(const tril::Shortlist& shortlist) {
  const int64_t sources = std::min<int64_t>(shortlist.source_vocab(), 64);
  const auto last = static_cast<int32_t>(shortlist.target_vocab() - 1);
  std::vector<int32_t> set;
  for (int32_t source = 0; source < sources; ++source) {
    const int32_t sentence[] = {source, 0, source};
    shortlist.choose(sentence, std::span(&last, 1), set);
    check(std::adjacent_find(set.begin(), set.end(), std::greater_equal<>()) == set.end());
    check(!set.empty() && set.front() >= 0 && set.back() == last);
  }
  shortlist.choose({}, {}, set);
  for (const int32_t token : set) check(shortlist.always(token));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string file = tril::fuzz::put(tril::kShortlistFile, tril::fuzz::view(data, size));
  try {
    use(tril::Shortlist::load(tril::fuzz::scratch()));
  } catch (const tril::Error& error) {
    check(error.code() == tril::ErrorCode::bad_format);
    check(std::string_view(error.what()).starts_with(file));
  }
  return 0;
}
