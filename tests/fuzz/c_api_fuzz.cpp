// Sequences of calls of tril/c.h: with handles of every kind, freed ones, numbers that are none,
// null pointers, lengths that lie, in any order. Each gives a code, a failure a message and no
// result; none is an internal error; and when everything was freed, nothing is left.
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "scratch.h"
#include "tiny_translator.h"
#include "tril/c.h"

namespace {

using tril::fuzz::check;

std::string model_folder(bool decoder_only) {
  const tril::Translator translator = tril::fuzz::tiny_translator(decoder_only);
  std::string folder = tril::fuzz::scratch() + (decoder_only ? "/generator" : "/translator");
  translator.model().save(folder,
                          {.beside = {{"tokenizer.model", translator.tokenizer().bytes()}}});
  return folder;
}

// The models of all sequences: loading them takes longer than most calls.
struct Models {
  Models() {
    check(tril_options_new(&one_thread) == TRIL_OK);
    check(tril_options_set(one_thread, "threads", "1") == TRIL_OK);
    for (const bool decoder_only : {false, true}) {
      folders.push_back(model_folder(decoder_only));
      tril_translator* translator = nullptr;
      check(tril_load(folders.back().c_str(), one_thread, &translator) == TRIL_OK);
      translators.push_back(translator);
    }
    handles = tril_open_handles();
  }
  tril_options* one_thread = nullptr;
  std::vector<std::string> folders;
  std::vector<tril_translator*> translators;
  int64_t handles = 0;
};

Models& models() {
  static Models made;
  return made;
}

// Bytes to choices; zeros when they have ended.
class Choices {
 public:
  Choices(const uint8_t* bytes, size_t size) : bytes_(bytes), left_(size) {}

  bool any() const { return left_ > 0; }
  size_t below(size_t count) {
    if (left_ == 0) return 0;
    --left_;
    return *bytes_++ % count;
  }
  std::string text() {
    const size_t length = std::min(below(24), left_);
    std::string text(reinterpret_cast<const char*>(bytes_), length);
    bytes_ += length;
    left_ -= length;
    return text;
  }

 private:
  const uint8_t* bytes_;
  size_t left_;
};

void on_tokens(void* user, int64_t, const int32_t* ids, const float*, int64_t count,
               const char* text, int64_t length) {
  check(user != nullptr && count > 0 && ids[count - 1] >= 0 && length >= 0 && text[length] == '\0');
}
void on_ready(void* user) {
  check(user != nullptr);
  int done = 0;
  check(tril_pending_wait(nullptr, -1, &done) == TRIL_MISUSE);
}

class Sequence {
 public:
  explicit Sequence(Choices choices) : choices_(choices) {}

  void run() {
    for (int calls = 0; choices_.any() && calls < 64; ++calls) one();
    for (tril_options* each : options_) free_twice(tril_options_free, each);
    for (tril_result* each : results_) free_twice(tril_result_free, each);
    for (tril_pending* each : pendings_) free_twice(tril_pending_free, each);
    for (tril_translator* each : translators_) free_twice(tril_translator_free, each);
    check(tril_open_handles() == models().handles);
  }

 private:
  static int checked(int code) {
    check(code >= TRIL_OK && code < TRIL_INTERNAL);
    check(code == TRIL_OK || tril_errmsg(nullptr)[0] != '\0');
    return code;
  }
  template <class Handle>
  static void free_twice(int (*free)(Handle*), Handle* handle) {
    checked(free(handle));
    if (handle != nullptr) check(free(handle) == TRIL_MISUSE);
  }

  template <class Handle>
  static Handle* of_another_kind() {
    if constexpr (std::is_same_v<Handle, tril_options>) {
      return reinterpret_cast<Handle*>(models().translators[0]);
    } else {
      return reinterpret_cast<Handle*>(models().one_thread);
    }
  }

  // One of these, of another kind, or none at all.
  template <class Handle>
  Handle* pick(const std::vector<Handle*>& from) {
    const size_t choice = choices_.below(from.size() + 8);
    if (choice < from.size()) return from[choice];
    switch (choice - from.size()) {
      case 0: return nullptr;
      case 1: return of_another_kind<Handle>();
      case 2: return results_.empty() ? nullptr : reinterpret_cast<Handle*>(results_.back());
      case 3: return pendings_.empty() ? nullptr : reinterpret_cast<Handle*>(pendings_.back());
      case 4: return reinterpret_cast<Handle*>(choices_.below(8));
      case 5: return reinterpret_cast<Handle*>(this);
      default: return from.empty() ? nullptr : from.back();
    }
  }
  tril_translator* translator() {
    const size_t choice = choices_.below(8);
    if (choice < 6) return models().translators[choice % 2];
    return pick(translators_);
  }
  const tril_options* options() { return choices_.below(4) == 0 ? nullptr : pick(options_); }
  // Never more than there is, unless it is more than can be.
  int64_t length_of(const std::string& text) {
    switch (choices_.below(12)) {
      case 0: return -2;
      case 1: return std::numeric_limits<int64_t>::min();
      case 2: return std::numeric_limits<int64_t>::max();
      case 3: return (int64_t{1} << 30) + 1;
      case 4: return std::ssize(text) / 2;
      case 5: return -1;
      default: return std::ssize(text);
    }
  }
  const char* pointer_to(const std::string& text) {
    return choices_.below(16) == 15 ? nullptr : text.c_str();
  }
  template <class Handle>
  // By reference: it is made in the same expression as the code.
  void keep(int code, Handle* const& made, std::vector<Handle*>& list) {
    checked(code);
    check((code == TRIL_OK) == (made != nullptr));
    if (made != nullptr) list.push_back(made);
  }
  int64_t index() {
    constexpr int64_t kIndexes[] = {0, 0, 0, 0, 1, 2, -1, std::numeric_limits<int64_t>::max()};
    return kIndexes[choices_.below(8)];
  }

  void set_option() {
    const char* name = tril_option_name(static_cast<int64_t>(choices_.below(48)));
    const std::string known = name == nullptr ? choices_.text() : name;
    const std::string value = choices_.text();
    // What would only take long: many threads, wide beams.
    for (const char* slow : {"threads", "beam", "n_best", "batch"}) {
      if (known == slow && value.size() > 1) return;
    }
    checked(tril_options_set(pick(options_), known.c_str(),
                             choices_.below(8) == 0 ? nullptr : value.c_str()));
  }

  void run_lines(bool generate) {
    std::vector<std::string> texts(choices_.below(4));
    std::vector<const char*> pointers;
    std::vector<int64_t> lengths;
    for (std::string& text : texts) {
      text = choices_.text();
      pointers.push_back(pointer_to(text));
      lengths.push_back(length_of(text));
    }
    const auto count = choices_.below(8) == 0 ? -index() - 1 : std::ssize(texts);
    if (count > std::ssize(texts)) return;
    const int64_t* sizes = choices_.below(3) == 0 ? nullptr : lengths.data();
    const auto call = generate ? tril_generate_batch : tril_translate_batch;
    tril_result* made = nullptr;
    keep(call(translator(), pointers.data(), sizes, count, options(), &made), made, results_);
  }

  void run_text(size_t which) {
    const std::string text = choices_.text();
    const char* pointer = pointer_to(text);
    const int64_t length = length_of(text);
    constexpr auto kCalls =
        std::to_array({tril_translate, tril_generate, tril_translate_text, tril_tokenize});
    tril_result* made = nullptr;
    keep(kCalls[which](translator(), pointer, length, options(), &made), made, results_);
  }

  void score() {
    const std::string source = choices_.text(), target = choices_.text();
    tril_result* made = nullptr;
    keep(tril_score(translator(), pointer_to(source), length_of(source), pointer_to(target),
                    length_of(target), options(), &made),
         made, results_);
  }

  void detokenize() {
    std::vector<int32_t> ids;
    for (size_t i = choices_.below(5); i > 0; --i) {
      ids.push_back(static_cast<int32_t>(choices_.below(256)) * (choices_.below(8) == 0 ? -77 : 1));
    }
    tril_result* made = nullptr;
    keep(tril_detokenize(translator(), ids.data(), std::ssize(ids), &made), made, results_);
  }

  void submit() {
    const std::string text = choices_.text();
    tril_pending* made = nullptr;
    const size_t callbacks = choices_.below(4);
    const int code = tril_submit(translator(), pointer_to(text), length_of(text), options(),
                                 (callbacks & 1) != 0 ? on_tokens : nullptr,
                                 (callbacks & 2) != 0 ? on_ready : nullptr, this, &made);
    keep(code, made, pendings_);
  }

  void use_pending() {
    tril_pending* pending = pick(pendings_);
    int done = 7;
    switch (choices_.below(5)) {
      case 0: checked(tril_pending_poll(pending, &done)); break;
      case 1: checked(tril_pending_wait(pending, -1, &done)); break;
      case 2: checked(tril_pending_wait(pending, 1e300, &done)); break;
      case 3: checked(tril_pending_cancel(pending)); break;
      default: {
        tril_result* made = nullptr;
        keep(tril_pending_result(pending, &made), made, results_);
        return;
      }
    }
    check(done == 0 || done == 1 || done == 7);
  }

  void use_result() {
    const tril_result* result = pick(results_);
    const int64_t line = index(), at = index(), token = index();
    int64_t lines = 0, count = 0, rows = 0, columns = 0;
    const char* text = nullptr;
    const int32_t* ids = nullptr;
    const float* log_probs = nullptr;
    const double* weights = nullptr;
    double score = 0;
    int ended = 0;
    checked(tril_result_lines(result, &lines));
    checked(tril_result_count(result, line, &count));
    checked(tril_result_skipped(result, line, &text, &count));
    if (checked(tril_result_text(result, line, at, &text, &count)) == TRIL_OK) {
      check(text[count] == '\0');
    } else {
      check(text == nullptr && count == 0);
    }
    checked(tril_result_score(result, line, at, &score));
    checked(tril_result_ended(result, line, at, &ended));
    if (checked(tril_result_tokens(result, line, at, &ids, &log_probs, &count)) == TRIL_OK) {
      for (int64_t i = 0; i < count; ++i) check(ids[i] >= 0);
    }
    checked(tril_result_piece(result, line, at, token, &text, nullptr));
    if (checked(tril_result_alignment(result, line, at, &weights, &rows, &columns)) == TRIL_OK) {
      for (int64_t i = 0; i < rows * columns; ++i) check(weights[i] >= 0);
    }
    if (checked(tril_result_links(result, line, at, &ids, &count)) == TRIL_OK) {
      for (int64_t i = 0; i < 2 * count; ++i) check(ids[i] >= 0);
    }
  }

  void one() {
    switch (choices_.below(20)) {
      case 0: {
        tril_options* made = nullptr;
        keep(tril_options_new(&made), made, options_);
        break;
      }
      case 1:
      case 2:
      case 3: set_option(); break;
      case 4: checked(tril_options_free(pick(options_))); break;
      case 5: {
        tril_translator* made = nullptr;
        const size_t which = choices_.below(3);
        const std::string folder = which < 2 ? models().folders[which] : choices_.text();
        keep(tril_load(folder.c_str(), options(), &made), made, translators_);
        break;
      }
      case 6: checked(tril_translator_free(pick(translators_))); break;
      case 7: {
        const char* json = nullptr;
        int64_t length = 0;
        if (checked(tril_info(translator(), &json, &length)) == TRIL_OK)
          check(json[length] == '\0');
        break;
      }
      case 8: run_lines(false); break;
      case 9: run_lines(true); break;
      case 10: run_text(choices_.below(4)); break;
      case 11: score(); break;
      case 12: detokenize(); break;
      case 13:
      case 14: submit(); break;
      case 15:
      case 16: use_pending(); break;
      case 17: checked(tril_pending_free(pick(pendings_))); break;
      case 18: use_result(); break;
      default: checked(tril_result_free(pick(results_))); break;
    }
  }

  Choices choices_;
  std::vector<tril_options*> options_;
  std::vector<tril_translator*> translators_;
  std::vector<tril_result*> results_;
  std::vector<tril_pending*> pendings_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  models();
  Sequence(Choices(bytes, size)).run();
  return 0;
}
