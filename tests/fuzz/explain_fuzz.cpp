// Any text up to the first line feed as a sentence, the rest as its translation: either a page
// whose numbers are valid JSON that nothing in the texts can end early, or one tril::Error.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "scratch.h"
#include "tiny_translator.h"
#include "tril/base/error.h"
#include "tril/explain/explain.h"

namespace {

using tril::fuzz::check;

void check_page(const std::string& page, std::string_view sentence) {
  constexpr std::string_view kOpen = "<script type=\"application/json\" id=\"data\">";
  const size_t open = page.find(kOpen);
  check(open != page.npos);
  const size_t begin = open + kOpen.size();
  const size_t end = page.find("</script>", begin);
  check(end != page.npos);
  // A page ends as its template does: nothing in the data closed its element.
  check(page.find("<script", begin) > end && page.find("<!--", begin) > end);
  const auto data = nlohmann::json::parse(page.substr(begin, end - begin), nullptr, false);
  check(data.is_object() && data.at("sentence") == sentence);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const tril::Translator translator = tril::fuzz::tiny_translator();
  const std::string_view text = tril::fuzz::view(bytes, size);
  const size_t end = text.find('\n');
  const std::string_view sentence = text.substr(0, end);
  tril::ExplainOptions options{.search = {.beam = 2, .max_tokens = 3}, .candidates = 2};
  options.threads = 1;
  if (end != text.npos) options.target = std::string(text.substr(end + 1));
  try {
    check_page(tril::explain_page(tril::explain(translator, sentence, options)), sentence);
  } catch (const tril::Error& error) {
    check(error.code() == tril::ErrorCode::invalid_argument);
  }
  return 0;
}
