#include "tril/ops/choice.h"

#include <algorithm>

#include "tril/kernels/cuda/launches.h"
#include "tril/ops/linear.h"
#include "tril/ops/on_cuda.h"

namespace tril::ops {
namespace {

void check_logits(const Tensor& logits, int64_t vocab) {
  const bool padded = logits.columns() == padded_size(vocab);
  require(logits.shape().rank() == 2 && (logits.columns() == vocab || padded) && vocab >= 1,
          ErrorCode::shape_mismatch, "choice: logits ", logits.shape(), " over a vocabulary of ",
          vocab);
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

UploadedSets uploaded_sets(Context& context, const AllowedByRow& allowed, int64_t rows) {
  require(!allowed.sets.empty(), ErrorCode::shape_mismatch, "choice: no set of tokens");
  const std::span<const uint32_t> first = allowed.sets.front()->words();
  const auto words = static_cast<int64_t>(first.size());
  if (allowed.set_of_row.empty()) return {context.uploaded(first), words, nullptr};
  require(static_cast<int64_t>(allowed.set_of_row.size()) == rows, ErrorCode::shape_mismatch,
          "choice: ", rows, " rows, the sets of ", allowed.set_of_row.size());
  const auto count = static_cast<int64_t>(allowed.sets.size());
  auto* const all = context.host.allocate_array<uint32_t>(count * words);
  for (int64_t set = 0; set < count; ++set) {
    const TokenBits& bits = *allowed.sets[static_cast<size_t>(set)];
    require(bits.vocab() == allowed.vocab(), ErrorCode::shape_mismatch, "choice: sets of ",
            bits.vocab(), " and ", allowed.vocab(), " tokens");
    std::copy(bits.words().begin(), bits.words().end(), all + set * words);
  }
  for (const int32_t set : allowed.set_of_row) {
    require(set >= 0 && set < count, ErrorCode::shape_mismatch, "choice: set ", set, " of ", count);
  }
  const std::span<const uint32_t> joined(all, static_cast<size_t>(count * words));
  return {context.uploaded(joined), words,
          context.uploaded(std::span<const int32_t>(allowed.set_of_row))};
}

ChosenTokens choose_tokens(Context& context, const Tensor& logits, const AllowedByRow& allowed,
                           int64_t count, const Mirrored<int32_t>& wanted) {
  require(on_cuda(context), ErrorCode::internal, "choice: of tokens on the CPU");
  const int64_t rows = logits.rows();
  const int64_t vocab = allowed.vocab();
  check_logits(logits, vocab);
  require(count >= 1, ErrorCode::shape_mismatch, "choice: the best ", count, " tokens");
  require(wanted.size() == rows, ErrorCode::shape_mismatch, "choice: ", rows, " rows, ",
          wanted.size(), " tokens asked for");
  for (const int32_t token : wanted) {
    require(token >= -1 && token < vocab, ErrorCode::invalid_argument, "choice: token ", token,
            " is not below ", vocab);
  }
  const ChosenTokens chosen{Tensor(context.arena, {rows, count}, DType::i32),
                            Tensor(context.arena, {rows, count}), Tensor(context.arena, {rows})};
  only_on_cuda([&] {
    const Arena::Scope scratch(context.arena);
    const UploadedSets sets = uploaded_sets(context, allowed, rows);
    const kernels::cuda::ChooseTokens args{
        .rows = rows,
        .vocab = vocab,
        .count = count,
        .logits = logits.on_device(),
        .stride = logits.columns(),
        .allowed = sets.words,
        .set_words = sets.words_per_set,
        .sets = sets.set_of_row,
        .wanted = context.on_device(wanted),
        .tokens = chosen.tokens.on_device<int32_t>(),
        .log_probs = chosen.log_probs.on_device(),
        .wanted_log_probs = chosen.wanted.on_device(),
        .workspace =
            context.arena.allocate(kernels::cuda::choose_tokens_workspace(rows, vocab, count))};
    context.launch_in_chain(kernels::cuda::choose_tokens, args);
  });
  return chosen;
}

}  // namespace tril::ops
