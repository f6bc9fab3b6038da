#include "tril/ops/choice.h"

#include <algorithm>
#include <limits>

#include "tril/kernels/cuda/choice.h"
#include "tril/ops/linear.h"
#include "tril/ops/loss.h"
#include "tril/ops/on_cuda.h"

namespace tril::ops {
namespace {

[[maybe_unused]]  // without CUDA
void choose_on_cuda(Context& context, const Tensor& logits, const TokenBits& allowed, int64_t count,
                    const Mirrored<int32_t>& wanted, const ChosenTokens& chosen) {
  const Arena::Scope scratch(context.arena);
  const int64_t rows = logits.rows();
  const int64_t vocab = allowed.vocab();
  const kernels::cuda::ChooseTokens args{
      .rows = rows,
      .vocab = vocab,
      .count = count,
      .logits = logits.on_device(),
      .stride = logits.columns(),
      .allowed = context.uploaded(allowed.words()),
      .wanted = context.on_device(wanted),
      .tokens = chosen.tokens.on_device<int32_t>(),
      .log_probs = chosen.log_probs.on_device(),
      .wanted_log_probs = chosen.wanted.on_device(),
      .workspace =
          context.arena.allocate(kernels::cuda::choose_tokens_workspace(rows, vocab, count))};
  context.queue.note(count);
  context.launch_in_chain([&](Stream stream) { kernels::cuda::choose_tokens(stream, args); });
}

void choose_on_cpu(Context& context, const Tensor& logits, const TokenBits& allowed, int64_t count,
                   const Mirrored<int32_t>& wanted, const ChosenTokens& chosen) {
  const Arena::Scope scratch(context.arena);
  const Tensor all = log_probs(context, logits);
  const int64_t vocab = all.columns();
  context.parallel(all.rows(), [&](int64_t row) {
    const float* from = all.data() + row * vocab;
    int32_t* tokens = chosen.tokens.data<int32_t>() + row * count;
    float* best = chosen.log_probs.data() + row * count;
    int64_t found = 0;
    for (int64_t token = 0; token < vocab; ++token) {
      if (!allowed[token] || !(from[token] > -std::numeric_limits<float>::infinity())) continue;
      // Tokens come in ascending order, so one that only equals another goes behind it.
      int64_t place = found;
      while (place > 0 && best[place - 1] < from[token]) --place;
      if (place == count) continue;
      found = std::min(found + 1, count);
      for (int64_t i = found - 1; i > place; --i) {
        best[i] = best[i - 1];
        tokens[i] = tokens[i - 1];
      }
      best[place] = from[token];
      tokens[place] = static_cast<int32_t>(token);
    }
    std::fill(tokens + found, tokens + count, -1);
    std::fill(best + found, best + count, -std::numeric_limits<float>::infinity());
    chosen.wanted.data()[row] = wanted[row] < 0 ? 0.0f : from[wanted[row]];
  });
}

}  // namespace

TokenBits::TokenBits(int64_t vocab, std::span<const int32_t> forbidden)
    : vocab_(vocab), words_(static_cast<size_t>((vocab + 31) / 32), ~0u) {
  for (const int32_t token : forbidden) {
    require(token >= 0 && token < vocab, ErrorCode::invalid_argument, "tokens: ", token,
            " is not below ", vocab);
    words_[static_cast<size_t>(token / 32)] &= ~(1u << (token % 32));
  }
}

ChosenTokens choose_tokens(Context& context, const Tensor& logits, const TokenBits& allowed,
                           int64_t count, const Mirrored<int32_t>& wanted) {
  const bool padded = on_cuda(context) && logits.columns() == padded_size(allowed.vocab());
  require(logits.shape().rank() == 2 && (logits.columns() == allowed.vocab() || padded) &&
              allowed.vocab() >= 1 && count >= 1,
          ErrorCode::shape_mismatch, "choice: the best ", count, " of logits ", logits.shape(),
          " over a vocabulary of ", allowed.vocab());
  const int64_t rows = logits.rows();
  require(wanted.size() == rows, ErrorCode::shape_mismatch, "choice: ", rows, " rows, ",
          wanted.size(), " tokens asked for");
  for (const int32_t token : wanted) {
    require(token >= -1 && token < allowed.vocab(), ErrorCode::invalid_argument, "choice: token ",
            token, " is not below ", allowed.vocab());
  }
  const ChosenTokens chosen{Tensor(context.arena, {rows, count}, DType::i32),
                            Tensor(context.arena, {rows, count}), Tensor(context.arena, {rows})};
  if constexpr (kCudaBuilt) {
    if (on_cuda(context)) {
      choose_on_cuda(context, logits, allowed, count, wanted, chosen);
      return chosen;
    }
  }
  choose_on_cpu(context, logits, allowed, count, wanted, chosen);
  return chosen;
}

}  // namespace tril::ops
