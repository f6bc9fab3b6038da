// What one short sentence costs in C++, for python_overhead.py to compare with: the median of many
// calls of Translator::translate(), in microseconds.
//   one_sentence MODEL SENTENCE CALLS
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tril/translate/translator.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const tril::Translator translator = tril::Translator::load(argv[1]);
  const int calls = std::atoi(argv[3]);
  std::vector<double> microseconds;
  for (int i = -calls / 10; i < calls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    translator.translate(argv[2]);
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - begin;
    if (i >= 0) microseconds.push_back(taken.count());
  }
  std::nth_element(microseconds.begin(), microseconds.begin() + calls / 2, microseconds.end());
  std::printf("%.1f\n", microseconds[static_cast<size_t>(calls / 2)]);
}
