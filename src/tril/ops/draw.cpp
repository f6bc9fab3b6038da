#include "tril/ops/draw.h"

#include "tril/kernels/cuda/launches.h"
#include "tril/ops/on_cuda.h"

namespace tril::ops {

void draw_tokens(Context& context, const Tensor& logits, const AllowedByRow& allowed,
                 std::span<const TokenDraw> draws, const ChosenTokens& chosen) {
  require(on_cuda(context), ErrorCode::internal, "draw: of tokens on the CPU");
  const int64_t rows = logits.rows();
  require(chosen.tokens.rows() == rows && chosen.log_probs.rows() == rows,
          ErrorCode::shape_mismatch, "draw: ", rows, " rows, ", chosen.tokens.rows(), " choices");
  for (const TokenDraw& draw : draws) {
    require(draw.row >= -1 && draw.row < rows && draw.temperature > 0.0 && draw.top_k >= 0 &&
                draw.top_p > 0.0 && draw.top_p <= 1.0,
            ErrorCode::invalid_argument, "draw: row ", draw.row, " of ", rows, ", temperature ",
            draw.temperature, ", top_k ", draw.top_k, ", top_p ", draw.top_p);
  }
  only_on_cuda([&] {
    static_assert(sizeof(TokenDraw) == sizeof(kernels::cuda::TokenDraw));
    const Arena::Scope scratch(context.arena);
    const UploadedSets sets = uploaded_sets(context, allowed, rows);
    const auto count = static_cast<int64_t>(draws.size());
    auto* const list = context.host.allocate_array<kernels::cuda::TokenDraw>(count);
    for (size_t i = 0; i < draws.size(); ++i) {
      const TokenDraw& d = draws[i];
      list[i] = {.row = d.row,
                 .top_k = d.top_k,
                 .temperature = d.temperature,
                 .top_p = d.top_p,
                 .seed = d.seed,
                 .stream = d.stream,
                 .sample = d.sample,
                 .position = d.position};
    }
    const kernels::cuda::DrawTokens args{
        .rows = rows,
        .vocab = allowed.vocab(),
        .logits = logits.on_device(),
        .stride = logits.columns(),
        .allowed = sets.words,
        .set_words = sets.words_per_set,
        .sets = sets.set_of_row,
        .draws = context.uploaded(
            std::span<const kernels::cuda::TokenDraw>(list, static_cast<size_t>(count))),
        .count = count,
        .choices = chosen.tokens.columns(),
        .tokens = chosen.tokens.on_device<int32_t>(),
        .log_probs = chosen.log_probs.on_device(),
        .norms = static_cast<float*>(context.arena.allocate(rows * int64_t{sizeof(float)}))};
    context.launch(kernels::cuda::draw_tokens, args);
  });
}

}  // namespace tril::ops
