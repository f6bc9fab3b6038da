// Tokenizers of Hugging Face folders: ids and texts as transformers has them, for small folders of
// every kind that tests/tokenizers/make_fixtures.py wrote.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/testing.h"
#include "tril/io/json.h"
#include "tril/text/tokenizer.h"

namespace tril::hub_tokenizer_test {
namespace {

using testing::raised_by;
using Tokens = std::vector<int32_t>;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::filesystem::path fixtures() { return TRIL_TOKENIZERS_FOLDER; }

struct Case {
  std::string line;
  Tokens source, target;
  std::string text;
};

struct Fixture {
  std::string name{};
  TokenizerFiles files{};
  TokenizerSettings settings{};
  LanguagePair languages{};
  std::vector<Case> cases{};

  Tokenizer tokenizer() const { return Tokenizer::from_files(files, settings, name); }
  // After one replacement in a file.
  testing::Raised error_with(const std::string& file, const std::string& from,
                             const std::string& to) const {
    TokenizerFiles changed = files;
    std::string& content = changed.at(file);
    const size_t at = content.find(from);
    if (at == std::string::npos) throw std::runtime_error("nothing to replace: " + from);
    content.replace(at, from.size(), to);
    return raised_by([&] { Tokenizer::from_files(changed, settings, "folder"); });
  }
};

Tokens ids_of(const JsonValue& array) {
  Tokens ids;
  for (const JsonValue& item : array.items) ids.push_back(static_cast<int32_t>(item.integer));
  return ids;
}

Fixture fixture(const std::string& name) {
  Fixture made{name};
  for (const std::string_view file : Tokenizer::file_names()) {
    const auto path = fixtures() / name / file;
    if (std::filesystem::exists(path)) made.files.emplace(file, read(path));
  }
  const JsonValue json = parse_json(read(fixtures() / name / "cases.json"), name);
  made.settings.family = json.find("family")->text;
  const JsonValue& languages = *json.find("languages");
  if (!languages.items.empty()) made.languages = {languages.items[0].text, languages.items[1].text};
  for (const JsonValue& one : json.find("cases")->items) {
    made.cases.push_back(
        {one.items[0].text, ids_of(one.items[1]), ids_of(one.items[2]), one.items[3].text});
  }
  return made;
}

std::vector<Fixture> all_fixtures() {
  std::vector<Fixture> all;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures())) {
    all.push_back(fixture(entry.path().filename().string()));
  }
  return all;
}

void expect_cases(const Fixture& one, const Tokenizer& tokenizer) {
  for (const Case& c : one.cases) {
    const std::string what = one.name + ": " + c.line;
    EXPECT_EQ(tokenizer.encode_source(c.line, one.languages), c.source) << what;
    EXPECT_EQ(tokenizer.encode_target(c.line, one.languages), c.target) << what;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(c.line, TextSide::target)), c.text) << what;
  }
}

TEST(HubTokenizer, GivesTheIdsAndTextsOfTransformers) {
  const std::vector<Fixture> all = all_fixtures();
  EXPECT_EQ(all.size(), 12u);
  for (const Fixture& one : all) {
    EXPECT_EQ(one.cases.size(), 12u);
    expect_cases(one, one.tokenizer());
  }
}

TEST(HubTokenizer, ComesBackFromItsBytes) {
  for (const Fixture& one : all_fixtures()) {
    const Tokenizer tokenizer = one.tokenizer();
    const Tokenizer again = Tokenizer::from_bytes(tokenizer.bytes(), "tokenizer.model");
    expect_cases(one, again);
    EXPECT_EQ(again.bytes(), tokenizer.bytes());
    EXPECT_EQ(again.files(), one.files);
  }
}

TEST(HubTokenizer, EveryPieceHasATextAndAnId) {
  for (const Fixture& one : all_fixtures()) {
    const Tokenizer tokenizer = one.tokenizer();
    Tokens all;
    for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.vocab()); ++id) {
      EXPECT_FALSE(tokenizer.piece(id).empty()) << one.name << " " << id;
      all.push_back(id);
    }
    tokenizer.decode(all);
    for (const int32_t end : tokenizer.ends()) {
      EXPECT_EQ(tokenizer.find(tokenizer.piece(end)), end) << one.name;
    }
  }
}

TEST(HubTokenizer, KnowsItsSpecialTokens) {
  const Tokenizer marian = fixture("marian").tokenizer();
  EXPECT_EQ(marian.end(), 0);
  EXPECT_EQ(marian.unknown(), 1);
  EXPECT_EQ(marian.piece(*marian.pad()), "<pad>");
  EXPECT_FALSE(marian.has_start());
  EXPECT_EQ(raised_by([&] { (void)marian.start(); }).code, ErrorCode::unsupported);
  EXPECT_FALSE(marian.lossless());

  Fixture with_start = fixture("marian");
  with_start.settings.start = *marian.pad();
  with_start.settings.ends = {0, 1};
  const Tokenizer started = with_start.tokenizer();
  EXPECT_EQ(started.start(), *marian.pad());
  EXPECT_EQ(started.ends(), (Tokens{0, 1}));
  with_start.settings.start = 100'000;
  EXPECT_EQ(raised_by([&] { with_start.tokenizer(); }).code, ErrorCode::bad_format);

  const Tokenizer t5 = fixture("t5_spm").tokenizer();
  EXPECT_EQ(t5.find("<extra_id_0>"), t5.pieces() - 1);
  EXPECT_EQ(t5.find("<extra_id_99>"), t5.pieces() - 100);

  const Tokenizer llama = fixture("llama").tokenizer();
  EXPECT_EQ(llama.piece(llama.start()), "<s>");
  EXPECT_EQ(llama.piece(llama.end()), "</s>");
  EXPECT_TRUE(fixture("gpt2_files").tokenizer().lossless());
  const std::vector<int32_t> forbidden = llama.unwritable();
  const auto forbids = [&](std::string_view piece) {
    return std::binary_search(forbidden.begin(), forbidden.end(), *llama.find(piece));
  };
  EXPECT_TRUE(forbids("<s>"));
  EXPECT_TRUE(forbids("<0x0A>"));
  EXPECT_FALSE(forbids("</s>"));
  EXPECT_FALSE(forbids("<0x41>"));
}

TEST(HubTokenizer, PutsLanguagesWhereTheModelReadsThem) {
  const Tokenizer nllb = fixture("nllb").tokenizer();
  ASSERT_EQ(nllb.languages().size(), 3u);
  EXPECT_EQ(nllb.languages()[0].code, "eng_Latn");
  const int32_t hindi = nllb.languages()[2].token;
  EXPECT_EQ(nllb.encode_source("the", {"hin_Deva", "eng_Latn"}).front(), hindi);
  EXPECT_EQ(nllb.target_prefix({"", "hin_Deva"}), Tokens{hindi});
  // The folder names defaults.
  EXPECT_EQ(nllb.encode_source("the").front(), nllb.languages()[0].token);
  EXPECT_EQ(raised_by([&] {
              nllb.encode_source("the", {"xxx_Latn", ""});
            }).text,
            "no language xxx_Latn in the model, which has eng_Latn, fra_Latn, hin_Deva");

  const Tokenizer mbart = fixture("mbart25").tokenizer();
  EXPECT_EQ(mbart.piece(mbart.start({"", "de_DE"})), "de_DE");
  EXPECT_EQ(mbart.piece(mbart.encode_source("the", {"hi_IN", "de_DE"}).back()), "hi_IN");
  EXPECT_TRUE(mbart.target_prefix({"", "de_DE"}).empty());

  const Tokenizer m2m100 = fixture("m2m100").tokenizer();
  EXPECT_EQ(m2m100.languages().size(), 100u);
  EXPECT_EQ(raised_by([&] { m2m100.encode_source("the"); }).text,
            "the model has 100 languages: name the one to translate from");

  const Tokenizer marian = fixture("marian").tokenizer();
  EXPECT_EQ(marian.encode_source("the", {"", "fra"}), marian.encode_source(">>fra<<the"));
  const Tokenizer t5 = fixture("t5").tokenizer();
  EXPECT_EQ(raised_by([&] {
              t5.encode_source("the", {"en", ""});
            }).text,
            "the language en was named, but the model has none to choose");
}

TEST(HubTokenizer, LeavesTheRowsThatPadAModelAlone) {
  Fixture one = fixture("t5");
  const int64_t pieces = one.tokenizer().pieces();
  one.settings.source_vocab = one.settings.target_vocab = pieces + 28;
  const Tokenizer tokenizer = one.tokenizer();
  EXPECT_EQ(tokenizer.vocab(), pieces + 28);
  EXPECT_EQ(tokenizer.vocab(TextSide::source), pieces + 28);
  EXPECT_EQ(tokenizer.pieces(), pieces);
  const auto padding = static_cast<int32_t>(pieces);
  Tokens ids = tokenizer.encode("the theory");
  const std::string text = tokenizer.decode(ids);
  ids.insert(ids.begin() + 1, padding);
  EXPECT_EQ(tokenizer.decode(ids), text);
  EXPECT_EQ(tokenizer.piece(padding), "<padding>");
  const Tokens forbidden = tokenizer.unwritable();
  EXPECT_TRUE(std::binary_search(forbidden.begin(), forbidden.end(), padding + 27));
  EXPECT_EQ(raised_by([&] { tokenizer.decode(Tokens{padding + 28}); }).code,
            ErrorCode::invalid_argument);
  one.settings.target_vocab = pieces - 4;
  EXPECT_EQ(raised_by([&] { one.tokenizer(); }).text,
            concat("t5: the tokenizer has ", pieces, " pieces, the model only ", pieces - 4,
                   " rows for them"));
}

// As facebook/bart-large-cnn, which has no row for <mask>.
TEST(HubTokenizer, SpecialTokensMayHaveNoRow) {
  Fixture one = fixture("t5");
  const int64_t pieces = one.tokenizer().pieces();
  one.settings.source_vocab = one.settings.target_vocab = pieces - 1;
  const Tokenizer tokenizer = one.tokenizer();
  EXPECT_EQ(tokenizer.pieces(), pieces - 1);
  EXPECT_EQ(tokenizer.vocab(), pieces - 1);
  EXPECT_EQ(tokenizer.encode("the theory"), fixture("t5").tokenizer().encode("the theory"));
  for (const int32_t id : tokenizer.unwritable()) EXPECT_LT(id, pieces - 1);
  const auto raised = raised_by([&] { tokenizer.encode_source("the <extra_id_0>"); });
  EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
  EXPECT_EQ(raised.text, "the text holds <extra_id_0>, for which the model has no row");
}

TEST(HubTokenizer, StreamsWholeCharacters) {
  for (const char* name : {"gpt2_files", "llama"}) {
    const Tokenizer tokenizer = fixture(name).tokenizer();
    const std::string text = "x👍€é";
    const Tokens ids = tokenizer.encode(text);
    std::string longest;
    for (size_t count = 0; count <= ids.size(); ++count) {
      const auto some = std::span(ids).first(count);
      const size_t whole = tokenizer.whole_tokens(some);
      ASSERT_LE(whole, count);
      const std::string so_far = tokenizer.decode(some.first(whole));
      EXPECT_EQ(text.substr(0, so_far.size()), so_far) << name << " " << count;
      longest = so_far;
    }
    EXPECT_EQ(longest, text) << name;
    EXPECT_EQ(tokenizer.whole_tokens(Tokens{tokenizer.end()}), 1u);
  }
}

TEST(HubTokenizer, ShowsPiecesOfBytesAsSentencePieceWould) {
  const Tokenizer gpt2 = fixture("gpt2_files").tokenizer();
  std::string pieces;
  for (const int32_t id : gpt2.encode(" the\n👍")) pieces += gpt2.piece(id) + "|";
  EXPECT_EQ(pieces, "▁the|<0x0A>|<0xF0>|<0x9F>|<0x91>|<0x8D>|");
}

TEST(HubTokenizer, NamesWhatItDoesNotUnderstand) {
  const std::string file = "tokenizer.json";
  const Fixture llama = fixture("llama");
  const auto text = [&](const Fixture& one, const std::string& from, const std::string& to) {
    const auto raised = one.error_with(file, from, to);
    EXPECT_TRUE(raised.code == ErrorCode::unsupported || raised.code == ErrorCode::bad_format);
    EXPECT_TRUE(raised.text.starts_with("folder: tokenizer.json: ")) << raised.text;
    return raised.text.substr(std::min<size_t>(raised.text.size(), 24));
  };
  EXPECT_EQ(text(llama, R"("type":"Prepend")", R"("type":"NFKC")"),
            R"(normalizer: normalizers: 0: the normalizer NFKC is not supported)");
  EXPECT_EQ(text(llama, R"("type":"BPE")", R"("type":"WordPiece")"),
            R"(model: the model WordPiece is not supported, only BPE and Unigram)");
  EXPECT_EQ(text(llama, R"("type":"Fuse")", R"("type":"CTC")"),
            R"(decoder: decoders: 2: the decoder CTC is not supported)");
  EXPECT_EQ(text(llama, R"("type":"TemplateProcessing")", R"("type":"X")"),
            R"(post_processor: the post-processor X is not supported)");
  EXPECT_EQ(text(llama, R"("dropout":null)", R"("dropout":0.1)"),
            "model: dropout is not supported");
  EXPECT_EQ(text(llama, R"("byte_fallback":true)", R"("byte_fallback":1)"),
            "model: byte_fallback: expected true or false, got 1");
  EXPECT_EQ(text(llama, R"("fuse_unk":true)", R"("fuse_all":true)"),
            R"(model: the field fuse_all is not understood)");
  EXPECT_EQ(text(llama, R"("unk_token":"<unk>")", R"("unk_token":"<unknown>")"),
            R"(model: unk_token: <unknown> is not in the vocabulary)");
  const Fixture llama3 = fixture("llama3");
  EXPECT_EQ(text(llama3, R"(\\p{N}{1,3})", R"(\\p{N}{1,4})").substr(0, 67),
            R"(pre_tokenizer: pretokenizers: 0: pattern: the regular expression (?)");
  EXPECT_EQ(text(llama3, R"("behavior":"Isolated")", R"("behavior":"Odd")"),
            R"(pre_tokenizer: pretokenizers: 0: the behavior Odd is not supported)");
  const Fixture t5 = fixture("t5");
  EXPECT_EQ(text(t5, R"("unk_id":2)", R"("unk_id":20000)").substr(0, 32),
            "model: unk_id: expected an integ");
  EXPECT_EQ(text(t5, R"("precompiled_charsmap":")", R"("precompiled_charsmap":"*)"),
            "normalizer: precompiled_charsmap: not base64");
}

TEST(HubTokenizer, RefusesFilesThatContradictThemselves) {
  const Fixture gpt2 = fixture("gpt2_files");
  EXPECT_EQ(gpt2.error_with("vocab.json", R"("!":1)", R"("!":2)").text,
            "folder: vocab.json: the id 2 stands for two pieces");
  EXPECT_EQ(gpt2.error_with("merges.txt", "\nà ¤\n", "\nà ¤ e\n").text.substr(0, 21),
            "folder: merges.txt: 0");
  EXPECT_EQ(fixture("marian").error_with("vocab.json", R"("<unk>":1)", R"("<unknown>":1)").text,
            "folder: vocab.json: no piece <unk>");
  Fixture missing = fixture("marian");
  missing.files.erase("target.spm");
  EXPECT_EQ(raised_by([&] { missing.tokenizer(); }).text,
            "marian: target.spm: the file is missing");
  missing.files.clear();
  missing.settings.family = "bart";
  EXPECT_EQ(raised_by([&] { missing.tokenizer(); }).code, ErrorCode::bad_format);
  missing.files = {{"model.safetensors", ""}};
  EXPECT_EQ(raised_by([&] { missing.tokenizer(); }).code, ErrorCode::invalid_argument);
}

TEST(HubTokenizer, FindsDamageInABundle) {
  const std::string bytes = fixture("marian").tokenizer().bytes();
  const auto error = [](const std::string& changed) {
    return raised_by([&] { Tokenizer::from_bytes(changed, "t"); }).text;
  };
  EXPECT_EQ(error(bytes + "x"), "t: a damaged tokenizer: bytes after its last file");
  EXPECT_EQ(error(bytes.substr(0, bytes.size() - 1)), "t: a damaged tokenizer: it is cut off");
  EXPECT_EQ(error("tril tokenizer 1\nodd 1\n\n"),
            "t: a damaged tokenizer: a line of a kind that is not known");
  EXPECT_EQ(error("tril tokenizer 1\nstart -1\n\n"),
            "t: a damaged tokenizer: a number out of range");
  EXPECT_EQ(error("tril tokenizer 1\nfamily"), "t: a damaged tokenizer: a line without an end");
  EXPECT_EQ(error("tril tokenizer 1\nfile 0 b\nfile 0 a\n\n"),
            "t: a damaged tokenizer: its files are not in order");
}

}  // namespace
}  // namespace tril::hub_tokenizer_test
