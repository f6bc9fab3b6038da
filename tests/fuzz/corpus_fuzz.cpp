// Any bytes as a TSV file, as a text, and as both sides of a pair of files; then as a segment that
// is scored against another. Every fault is an Error; what is kept is valid.
#include <cstdint>
#include <string>

#include "scratch.h"
#include "tril/base/error.h"
#include "tril/data/corpus.h"
#include "tril/text/bleu.h"
#include "tril/text/chrf.h"
#include "tril/text/utf8.h"

namespace {

using tril::fuzz::check;
using tril::fuzz::put;
using tril::fuzz::scratch;

void read(const tril::CorpusFiles& files) {
  try {
    const tril::Corpus corpus(
        files, {.max_line_bytes = 40, .spool_folder = scratch(), .memory_bytes = 100});
    check(corpus.size() > 0 && corpus.report().pairs == corpus.size());
    for (int64_t i = 0; i < corpus.size(); ++i) {
      for (const auto side : {corpus.source(i), corpus.target(i)}) {
        check(!tril::first_invalid_utf8(side) && side.find('\n') == side.npos && side.size() <= 40);
      }
      check(!corpus.target(i).empty());
    }
  } catch (const tril::Error& error) {
    check(error.code() != tril::ErrorCode::internal);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = tril::fuzz::view(data, size);
  const std::string_view left = bytes.substr(0, size / 2);
  const std::string_view right = bytes.substr(size / 2);
  const std::string whole = put("whole", bytes);
  read({.tsv = {whole}});
  read({.text = {whole}});
  read({.source = {put("left", left)}, .target = {put("right", right)}});
  try {
    tril::BleuStatistics bleu;
    tril::ChrfStatistics chrf{.word_orders = 2};
    bleu.add(left, right);
    chrf.add(left, right);
    check(tril::bleu(bleu).score >= 0.0 && tril::bleu(bleu).score <= 100.0 + 1e-9);
    check(tril::chrf(chrf).score >= 0.0 && tril::chrf(chrf).score <= 100.0 + 1e-9);
  } catch (const tril::Error& error) {
    check(error.code() == tril::ErrorCode::invalid_argument);
  }
  return 0;
}
