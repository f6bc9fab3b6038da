#include <array>

#include "tril/base/error.h"
#include "tril/lesson/claims.h"

namespace tril {
namespace {

constexpr std::string_view kStatement = "The statement";
constexpr std::string_view kCost = "What it costs";
constexpr std::string_view kLeakage = "Leakage";
constexpr std::string_view kMask = "Attention and the mask";
constexpr std::string_view kUse = "What it is for";

constexpr Verdict kHolds = Verdict::holds;
constexpr Verdict kIf = Verdict::holds_if;
constexpr Verdict kNot = Verdict::does_not_hold;

// The claims were gathered from five sets of lecture notes; two that contradict each other stand in
// one claim.
constexpr std::array kClaims = {
    Claim{
        1, kStatement,
        "The decoder is autoregressive at inference and non-autoregressive at training. Prove the "
        "statement.",
        kHolds,
        "Training computes all positions in one call, inference one position per call. Both are "
        "the same function: every logit has the same bits.",
        "prove demo-model", "5-two-phases.md"},
    Claim{2, kStatement,
          "An autoregressive model conditions each new point on those before it: the price on "
          "Friday depends on Wednesday (29) and Thursday (30).",
          kHolds, "Change either day and the forecast for Friday changes.", "lesson series",
          "4-autoregression.md"},
    Claim{3, kStatement, "Inference must go one token at a time; there is no alternative.", kIf,
          "True of what each token depends on, not of the number of calls. Several tokens can be "
          "guessed and checked in one masked pass: fewer calls, the same tokens, the same bits.",
          "lesson decoding", "5-two-phases.md"},
    Claim{
        4, kStatement,
        "Training is not autoregressive because of teacher forcing (one set of notes), because of "
        "masked self-attention (another).",
        kNot,
        "Neither alone. Forcing makes all inputs known before the first call; the mask keeps the "
        "function the one that inference computes. Only with both does one call learn it.",
        "lesson forcing", "5-two-phases.md"},
    Claim{5, kStatement, "Training is sequential across tokens (one set), parallel (the others).",
          kIf,
          "It can be done either way. Each position's gradient has the same bits; only the sums "
          "over positions are rounded in another order.",
          "lesson sequential", "7-one-call.md"},
    Claim{6, kStatement, "During training a word does not depend on the previous word.", kNot,
          "It depends on the previous true word. Change that word and the prediction changes.",
          "lesson teacher-forcing", "5-two-phases.md"},
    Claim{7, kStatement,
          "If a word is predicted wrongly in training, the right one is fed next; at inference the "
          "wrong one is fed (मैं बढ़िया हूँ for मैं ठीक हूँ).",
          kHolds, "Up to the mistake both predict the same tokens; after it the inputs differ.",
          "lesson teacher-forcing", "5-two-phases.md"},
    Claim{8, kStatement, "At inference the right word cannot be fed: nobody knows it.", kHolds,
          "Everything fed after START is the model's own prediction.", "prove demo-model",
          "5-two-phases.md"},
    Claim{9, kStatement,
          "Training is computed in parallel but autoregressive in function; inference is "
          "autoregressive in both senses.",
          kHolds,
          "One call for all positions, and yet no position can see a later one: poison any future "
          "position with NaN and nothing earlier changes.",
          "prove demo-model", "5-two-phases.md"},
    Claim{
        10, kStatement,
        "Weights, architecture and mask are the same in both phases; the inputs differ; forward() "
        "is called once, or again and again.",
        kHolds, "Watched while it runs: the same tensors, the same intervals per row.",
        "prove demo-model", "5-two-phases.md"},

    Claim{
        11, kCost,
        "A target of three words runs the decoder four times, 300 words 301 times, and 16 rows of "
        "300 words are slower still.",
        kHolds, "One call per word and one for END, counted: 4, 301 and 4,816 calls.",
        "lesson sequential", "7-one-call.md"},
    Claim{12, kCost, "Sequential training has 25% and parallel training 75% of the training speed.",
          kNot, "There is no such figure. The ratio depends on the length.", "lesson sequential",
          "7-one-call.md"},
    Claim{13, kCost, "Sequential training is O(n), parallel training is O(1).", kIf,
          "True if you count steps that wait for each other. The work is not O(1): it grows with "
          "the length in both, and prefix by prefix it grows with the square.",
          "lesson work", "7-one-call.md"},
    Claim{14, kCost, "Parallel training needs more memory because of the full attention matrix.",
          kIf,
          "Only if the matrix is stored. tril never stores it: memory grows with the length, not "
          "with its square.",
          "lesson sequential", "7-one-call.md"},
    Claim{15, kCost, "Parallel training uses the GPU (or any processor) much better.", kHolds,
          "One call gives the machine all positions at once; prefix by prefix it works on little "
          "at a time and recomputes most of it.",
          "lesson work", "7-one-call.md"},
    Claim{16, kCost,
          "Sequential training becomes prohibitive beyond 300 tokens; the masked form scales to "
          "long sequences.",
          kHolds, "At 300 words it takes a hundred times as long and more, and the gap widens.",
          "lesson sequential", "7-one-call.md"},
    Claim{17, kCost, "Teacher forcing gives faster training and stable gradients.", kIf,
          "Faster, yes: fewer calls per update and a lower loss after as many updates. What the "
          "gradients do is measured in the lesson.",
          "lesson forcing", "5-two-phases.md"},

    Claim{18, kLeakage, "Without a mask आप sees कैसे and हैं: w₁₂, w₁₃ and w₂₃ carry the future.",
          kHolds, "Without the mask these weights are above 0. With it they are exactly 0.",
          "lesson attention", "1-attention.md"},
    Claim{
        19, kLeakage,
        "In training this is fine because the output is known, the trouble comes at inference "
        "(one set); it is an unfair advantage in training (another).",
        kNot,
        "It is not fine in training. That is where the wrong function is learnt: the model copies "
        "the next word, which inference does not have.",
        "lesson leakage", "6-leakage.md"},
    Claim{
        20, kLeakage,
        "At inference the unmasked expression cannot be computed: it needs embeddings that do not "
        "exist yet.",
        kNot,
        "It can be computed over the words that exist. The result is another function than the "
        "one that was learnt.",
        "lesson decoding", "5-two-phases.md"},
    Claim{21, kLeakage,
          "A model trained without the mask is excellent in training, poor afterwards.", kHolds,
          "The training loss is several times lower, and no sentence comes out right.",
          "lesson leakage", "6-leakage.md"},
    Claim{22, kLeakage,
          "Autoregressive: no leak, slow. Non-autoregressive: leak, fast. Masked: no leak, fast.",
          kHolds, "All three, measured: calls per update and sentences right after training.",
          "lesson leakage", "6-leakage.md"},

    Claim{23, kMask, "Scores are divided by √d_k for numerical stability.", kNot,
          "Nothing overflows without it. The reason is the gradient: a dot product's spread grows "
          "with √d_k, the softmax saturates, and its slope goes to 0.",
          "lesson scale", "1-attention.md"},
    Claim{24, kMask,
          "Softmax makes probabilities; the weighted sum of values is the contextual embedding "
          "(river bank, money bank).",
          kHolds, "Each row sums to 1, and \"bank\" gets another vector beside another word.",
          "lesson context", "3-context.md"},
    Claim{25, kMask, "The 3 × 3 scores of आप कैसे हैं, masked and normalised.", kHolds,
          "Computed twice, by the textbook in double precision and by the engine.",
          "lesson attention", "1-attention.md"},
    Claim{
        26, kMask,
        "The rows 0.8/0.1/0.1, 0.15/0.75/0.1 and 0.1/0.3/0.7 are attention weights; 0.1 is \"1%\" "
        "and 0.3 is \"3%\".",
        kNot,
        "The third row sums to 1.1, so it is not a softmax; with these ratios it must be "
        "0.09/0.27/0.64. And 0.1 is 10%, 0.3 is 30%.",
        "lesson attention", "1-attention.md"},
    Claim{27, kMask,
          "The mask has the shape of the scores and is added before the softmax; softmax(−∞) is "
          "exactly 0.",
          kHolds, "Exactly: the engine's forbidden weights are compared with ==.", "lesson masks",
          "2-masks.md"},
    Claim{28, kMask, "One could just as well multiply the future scores by zero.", kNot,
          "A score of 0 still gets weight, because e⁰ = 1.", "lesson masks", "2-masks.md"},
    Claim{
        29, kMask, "Use −1e9 instead of a true −∞ for numerical stability.", kIf,
        "It works while every row sees something and scores are small. A fully masked row becomes "
        "an average over forbidden keys; in half precision −1e9 is −∞ itself.",
        "lesson masks", "2-masks.md"},
    Claim{
        30, kMask,
        "It takes a dozen lines of code: masked_attention(Q, K, V, mask) with masked_fill(mask == "
        "0, -1e9).",
        kHolds,
        "The dozen lines and the fast kernel agree within the rounding bound, except in a row "
        "that sees nothing, where −1e9 is wrong.",
        "lesson attention", "1-attention.md"},
    Claim{31, kMask, "The mask is upper triangular (one set), lower triangular (another).", kIf,
          "One mask, named by what is blocked (the upper triangle is −∞) or by what is kept (the "
          "lower triangle, with the diagonal).",
          "lesson masks", "2-masks.md"},
    Claim{32, kMask,
          "A sketch of a 4 × 4 causal mask whose first three rows all keep three columns.", kNot,
          "Rows 1 and 2 see the future there. The program says so of any mask you write down.",
          "lesson masks --check FILE", "2-masks.md"},
    Claim{33, kMask, "I / am / fine with dots and crosses: `. X X`, `. . X`, `. . .`", kHolds,
          "This is the causal mask.", "lesson masks --check FILE", "2-masks.md"},
    Claim{34, kMask, "The dimensions of the mask must broadcast to those of the scores.", kHolds,
          "[1, 1, q, k] + [batch, 1, 1, k] gives [batch, heads, q, k], entry by entry the same as "
          "the intervals.",
          "lesson masks", "2-masks.md"},
    Claim{35, kMask, "The encoder is not masked.", kHolds,
          "Observed in a running model: every encoder row sees the whole sentence. (Its padding is "
          "hidden.)",
          "lesson masks", "2-masks.md"},
    Claim{36, kMask, "A padding mask is something else; the two are combined.", kHolds,
          "Padding hides filler, causal hides the future; combined they are the intersection.",
          "lesson masks", "2-masks.md"},
    Claim{37, kMask,
          "Masked self-attention is the first sub-layer of each decoder block; cross-attention and "
          "feed-forward follow.",
          kHolds, "Observed in a running model, in this order in every layer.",
          "info MODEL --svg FILE", "1-attention.md"},
    Claim{38, kMask,
          "Several heads learn different relations (syntax, coreference) and improve quality.", kIf,
          "Heads of a trained model do attend differently. Whether more of them improve quality "
          "depends on the task: measured with 1, 2, 4 and 8 heads of the same total width.",
          "lesson heads", "1-attention.md"},
    Claim{
        39, kMask,
        "Inference uses standard self-attention (one set); the mask is ALWAYS used (another); "
        "recompute it or use a cache.",
        kIf,
        "With a cache the mask hides nothing, because nothing of the future is there. Recomputed, "
        "the mask is needed: with it the bits are the same, without it another function.",
        "lesson decoding", "5-two-phases.md"},
    Claim{40, kMask, "All it takes is adding a mask matrix.", kIf,
          "If the inputs are shifted right as well. The mask keeps the diagonal, so a row sees its "
          "own input: that must be the previous word, not the answer.",
          "lesson leakage", "6-leakage.md"},

    Claim{41, kUse, "Translation, summarisation, chat: the foundation of modern language models.",
          kHolds, "A toy of each, with the same class and the same mask.", "lesson tasks",
          "9-translator.md"},
    Claim{42, kUse,
          "Words → embeddings and positions → encoder → decoder block with its three sub-layers → "
          "linear → softmax → word.",
          kHolds, "Drawn from your own model, with its shapes.", "info MODEL --svg FILE",
          "1-attention.md"},
    Claim{43, kUse,
          "To memorise: purpose, mechanism, training, inference, location. And papers to read on.",
          kHolds, "The pocket summary; each of its lines is one of the claims above.",
          "lesson summary", "README.md"},
    Claim{44, kUse, "Better interview answers: test yourself.", kHolds,
          "Twenty questions, each answered by an experiment.", "lesson quiz", "README.md"},
};

}  // namespace

std::span<const Claim> claims() { return kClaims; }

const Claim& claim_number(int number) {
  require(number >= 1 && number <= std::ssize(kClaims), ErrorCode::invalid_argument,
          "there is no claim ", number, "; they are numbered 1 to ", kClaims.size());
  return kClaims[static_cast<size_t>(number - 1)];
}

}  // namespace tril
