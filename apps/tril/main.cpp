#include <cstdio>

#include "tril/tril.h"

int main() {
  for (auto task : {tril::SymbolTask::copy, tril::SymbolTask::reverse}) {
    tril::SymbolOptions options;
    options.task = task;
    options.progress = [](int64_t step, double loss) {
      if (step % 50 == 0) std::fprintf(stderr, "%ld %.4f\n", step, loss);
    };
    const auto result = tril::learn_symbols(options);
    std::printf("%ld exact, %.1f s, %.1f s\n", result.exact, result.train_seconds,
                result.decode_seconds);
  }
}
