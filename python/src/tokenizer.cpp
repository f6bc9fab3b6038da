// tril.Tokenizer: text to the ids of pieces and back.
#include "tril/text/tokenizer.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "gil.h"
#include "model.h"
#include "tril/io/atomic_file.h"
#include "tril/models/folder.h"
#include "tril/train/options.h"
#include "words.h"

namespace tril::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

TextSide side_of(bool target) { return target ? TextSide::target : TextSide::source; }

// From a model folder, or the file itself.
Tokenizer read_tokenizer(const std::string& path) {
  const bool is_folder =
      file_exists(path_in(path, kConfigFile)) || file_exists(path_in(path, kTokenizerFile));
  const std::string file = is_folder ? path_in(path, kTokenizerFile) : path;
  return Tokenizer::from_bytes(
      is_folder ? read_model_file(path, kTokenizerFile) : read_file(path, int64_t{1} << 30), file);
}

Tokenizer learn(const nb::typed<nb::iterable, std::string>& lines, int64_t vocab,
                const std::string& type, const std::string& normalization) {
  TokenizerOptions options;
  options.vocab = vocab;
  options.type = from_word<TokenizerType>("type", type);
  options.normalization = from_word<Normalization>("normalization", normalization);
  nb::iterator next = nb::iter(lines);
  WithoutGil unlocked;
  return Tokenizer::train(
      [&](std::string& line) {
        return unlocked.with([&] {
          if (next == nb::iterator::sentinel()) return false;
          line = nb::cast<std::string>(*next);
          ++next;
          return true;
        });
      },
      options);
}

}  // namespace

void bind_tokenizer(nb::module_& module) {
  nb::class_<Tokenizer>(module, "Tokenizer", "Text to the ids of subword pieces and back.")
      .def(nb::new_(&read_tokenizer), "path"_a)
      .def_static(
          "of_model", [](const Model& model) { return model.translator->tokenizer(); }, "model"_a)
      .def_static("train", &learn, "lines"_a, "vocab"_a = 8000, "type"_a = "bpe",
                  "normalization"_a = "identity", "Learns pieces from lines of text.")
      .def(
          "save",
          [](const Tokenizer& t, const std::string& path) {
            write_file_atomically(path, t.bytes());
          },
          "path"_a, "Writes the tokenizer.model.")
      .def(
          "encode",
          [](const Tokenizer& t, const std::string& text, bool target) {
            return t.encode(text, side_of(target));
          },
          "text"_a, "target"_a = false, "The ids of the text's pieces alone.")
      .def(
          "encode_source",
          [](const Tokenizer& t, const std::string& text, const std::string& from,
             const std::string& to) {
            return t.encode_source(text, {from, to});
          },
          "text"_a, "from_language"_a = "", "to_language"_a = "", "All that an encoder reads.")
      .def(
          "encode_target",
          [](const Tokenizer& t, const std::string& text, const std::string& from,
             const std::string& to) {
            return t.encode_target(text, {from, to});
          },
          "text"_a, "from_language"_a = "", "to_language"_a = "",
          "All that a decoder writes after START.")
      .def(
          "pieces",
          [](const Tokenizer& t, const std::string& text, bool target) {
            std::vector<std::string> pieces;
            for (const int32_t id : t.encode(text, side_of(target))) {
              pieces.push_back(t.piece(id, side_of(target)));
            }
            return pieces;
          },
          "text"_a, "target"_a = false, "The text's pieces, as in ['\u2581the', '\u2581dog', 's'].")
      .def(
          "decode",
          [](const Tokenizer& t, const std::vector<int32_t>& ids) { return t.decode(ids); },
          "ids"_a, "The text of ids; special tokens write nothing.")
      .def(
          "piece",
          [](const Tokenizer& t, int32_t id, bool target) { return t.piece(id, side_of(target)); },
          "id"_a, "target"_a = true)
      .def(
          "find",
          [](const Tokenizer& t, const std::string& piece, bool target) {
            return t.find(piece, side_of(target));
          },
          "piece"_a, "target"_a = true, "The id of a piece.")
      .def_prop_ro(
          "vocab", [](const Tokenizer& t) { return t.vocab(); }, "Ids are below this.")
      .def_prop_ro("end", &Tokenizer::end, "The id that ends a text.")
      .def_prop_ro("start",
                   [](const Tokenizer& t) -> std::optional<int32_t> {
                     if (!t.has_start()) return std::nullopt;
                     return t.start();
                   })
      .def_prop_ro("lossless", &Tokenizer::lossless)
      .def("__getstate__",
           [](const Tokenizer& t) { return nb::bytes(t.bytes().data(), t.bytes().size()); })
      .def("__setstate__", [](Tokenizer& t, const nb::bytes& bytes) {
        new (&t)
            Tokenizer(Tokenizer::from_bytes({bytes.c_str(), bytes.size()}, "a pickled tokenizer"));
      });
}

}  // namespace tril::python
