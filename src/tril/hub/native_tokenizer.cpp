#include "tril/hub/native_tokenizer.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tril/base/error.h"
#include "tril/hub/json_text.h"
#include "tril/text/model_file.h"

namespace tril::hub {
namespace {

constexpr std::string_view kBlank = "\xE2\x96\x81";  // U+2581

using Files = std::map<std::string, std::string>;

// The names of the special tokens, which both kinds of folder have.
JsonObject special_tokens(std::string_view kind, const Tokenizer& tokenizer, int64_t max_length) {
  JsonObject json;
  json.set("tokenizer_class", kind)
      .set("model_max_length", max_length)
      .set("clean_up_tokenization_spaces", false)
      .set("bos_token", tokenizer.piece(Tokenizer::kStart))
      .set("eos_token", tokenizer.piece(Tokenizer::kEnd))
      .set("unk_token", tokenizer.piece(Tokenizer::kUnknown))
      .set("pad_token", tokenizer.piece(Tokenizer::kPad));
  return json;
}

std::string vocabulary(const Tokenizer& tokenizer) {
  JsonObject json;
  for (int32_t id = 0; id < tokenizer.pieces(); ++id) json.set(tokenizer.piece(id), id);
  return json.text();
}

// Where the characters of a piece begin, but for the first.
std::vector<size_t> inner_boundaries(std::string_view piece) {
  std::vector<size_t> boundaries;
  for (size_t i = 1; i < piece.size(); ++i) {
    if ((static_cast<unsigned char>(piece[i]) & 0xC0) != 0x80) boundaries.push_back(i);
  }
  return boundaries;
}

// SentencePiece merges two pieces whenever the result is one, the best first; tokenizer.json lists
// all pairs in this order.
std::string merges(const ModelFile& model) {
  std::unordered_map<std::string_view, size_t> ids;
  std::vector<size_t> order;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type != PieceType::normal) continue;
    ids.emplace(model.pieces[id].text, id);
    order.push_back(id);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return model.pieces[a].score > model.pieces[b].score;
  });
  std::vector<std::string> list;
  for (const size_t id : order) {
    const std::string_view piece = model.pieces[id].text;
    std::vector<std::pair<size_t, size_t>> pairs;
    for (const size_t at : inner_boundaries(piece)) {
      const auto left = ids.find(piece.substr(0, at)), right = ids.find(piece.substr(at));
      if (left != ids.end() && right != ids.end()) pairs.emplace_back(left->second, right->second);
    }
    std::sort(pairs.begin(), pairs.end());
    for (const auto& [left, right] : pairs) {
      list.push_back(
          json_list({json_quoted(model.pieces[left].text), json_quoted(model.pieces[right].text)}));
    }
  }
  return json_list(list);
}

std::string pieces_with_scores(const ModelFile& model) {
  std::vector<std::string> list;
  for (const ModelPiece& piece : model.pieces) {
    list.push_back(json_list({json_quoted(piece.text), concat(static_cast<double>(piece.score))}));
  }
  return json_list(list);
}

std::string model_json(const Tokenizer& tokenizer, const ModelFile& model) {
  JsonObject json;
  if (model.type == TokenizerType::bpe) {
    json.set("type", "BPE")
        .set("unk_token", tokenizer.piece(Tokenizer::kUnknown))
        .set("fuse_unk", true)
        .set("byte_fallback", true)
        .set_raw("vocab", vocabulary(tokenizer))
        .set_raw("merges", merges(model));
  } else {
    json.set("type", "Unigram")
        .set("unk_id", Tokenizer::kUnknown)
        .set_raw("vocab", pieces_with_scores(model))
        .set("byte_fallback", true);
  }
  return json.text();
}

std::string replace_json(std::string_view from, std::string_view to) {
  return JsonObject()
      .set("type", "Replace")
      .set_raw("pattern", JsonObject().set("String", from).text())
      .set("content", to)
      .text();
}

std::string template_json(const std::string& start) {
  const auto token =
      JsonObject()
          .set_raw("SpecialToken", JsonObject().set("id", start).set("type_id", 0).text())
          .text();
  const auto sequence = [](const char* id, int type) {
    return JsonObject()
        .set_raw("Sequence", JsonObject().set("id", id).set("type_id", type).text())
        .text();
  };
  const std::string described = JsonObject()
                                    .set("id", start)
                                    .set_raw("ids", json_list({json_of(Tokenizer::kStart)}))
                                    .set_raw("tokens", json_list({json_quoted(start)}))
                                    .text();
  return JsonObject()
      .set("type", "TemplateProcessing")
      .set_raw("single", json_list({token, sequence("A", 0)}))
      .set_raw("pair", json_list({token, sequence("A", 0), sequence("B", 1)}))
      .set_raw("special_tokens", JsonObject().set_raw(start, described).text())
      .text();
}

std::string added_tokens(const Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (const int32_t id :
       {Tokenizer::kPad, Tokenizer::kUnknown, Tokenizer::kStart, Tokenizer::kEnd}) {
    tokens.push_back(JsonObject()
                         .set("id", id)
                         .set("content", tokenizer.piece(id))
                         .set("single_word", false)
                         .set("lstrip", false)
                         .set("rstrip", false)
                         .set("normalized", false)
                         .set("special", true)
                         .text());
  }
  return json_list(tokens);
}

std::string sequence_of(std::string_view field, const std::vector<std::string>& parts) {
  return JsonObject().set("type", "Sequence").set_raw(field, json_list(parts)).text();
}

}  // namespace

Files marian_files(const Tokenizer& tokenizer, int64_t max_length) {
  return {{"source.spm", tokenizer.bytes()},
          {"target.spm", tokenizer.bytes()},
          {"vocab.json", vocabulary(tokenizer) + "\n"},
          {"tokenizer_config.json",
           special_tokens("MarianTokenizer", tokenizer, max_length).text() + "\n"}};
}

Files fast_files(const Tokenizer& tokenizer, int64_t max_length, const std::string& model) {
  const ModelFile file = parse_model_file(tokenizer.bytes(), model);
  require(file.keeps_text, ErrorCode::unsupported, model,
          ": its tokenizer changes the text (nfkc), which cannot be exported for a decoder-only "
          "model");
  const std::string mark(kBlank);
  const std::string normalizer = sequence_of(
      "normalizers",
      {JsonObject().set("type", "Prepend").set("prepend", mark).text(), replace_json(" ", mark)});
  const std::string decoder = sequence_of(
      "decoders", {replace_json(mark, " "), JsonObject().set("type", "ByteFallback").text(),
                   JsonObject().set("type", "Fuse").text(),
                   JsonObject()
                       .set("type", "Strip")
                       .set("content", " ")
                       .set("start", 1)
                       .set("stop", 0)
                       .text()});
  const std::string text =
      JsonObject()
          .set("version", "1.0")
          .set_raw("truncation", "null")
          .set_raw("padding", "null")
          .set_raw("added_tokens", added_tokens(tokenizer))
          .set_raw("normalizer", normalizer)
          .set_raw("pre_tokenizer", "null")
          .set_raw("post_processor", template_json(tokenizer.piece(Tokenizer::kStart)))
          .set_raw("decoder", decoder)
          .set_raw("model", model_json(tokenizer, file))
          .text();
  return {{"tokenizer.json", text + "\n"},
          {"tokenizer_config.json",
           special_tokens("PreTrainedTokenizerFast", tokenizer, max_length).text() + "\n"}};
}

}  // namespace tril::hub
