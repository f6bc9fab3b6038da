// Eight threads share a model: each translates every line, and all must get the same. Prints the
// translations.
//   threads MODEL LINE...
#include <tril/tril.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

// Lines that are being decoded when the process ends; destroyed after all that is made later.
static std::vector<tril::PendingTranslation> late;

int main(int argc, char** argv) try {
  if (argc < 3) return 2;
  const tril::Translator translator = tril::Translator::load(argv[1]);
  const std::vector<std::string> lines(argv + 2, argv + argc);
  std::vector<std::vector<std::string>> texts(8);
  std::vector<std::thread> threads;
  for (auto& own : texts) {
    threads.emplace_back([&] {
      for (const std::string& line : lines) own.push_back(translator.translate(line));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 20; ++i) late.push_back(translator.submit({lines.front()}));
  for (const std::string& text : texts.front()) std::printf("%s\n", text.c_str());
  for (const auto& own : texts) {
    if (own != texts.front()) return 1;
  }
  return 0;
} catch (const tril::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
