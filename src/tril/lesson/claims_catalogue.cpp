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

// The claims were collected from five sets of lecture notes; two that contradict each other form
// one claim.
constexpr std::array kClaims = {
    Claim{
        1, kStatement,
        "The decoder is autoregressive at inference and non-autoregressive at training. Prove the "
        "statement.",
        kIf,
        "you mean how it is computed: all positions in one call, or one per call. In function both "
        "are autoregressive (claim 9), and they are the same function: every logit has the same "
        "bits.",
        "prove demo-model", "11-proof.md"},
    Claim{2, kStatement,
          "An autoregressive model conditions each new point on those before it: the price on "
          "Friday depends on Wednesday (29) and Thursday (30).",
          kHolds, "Change either day and the forecast for Friday changes.", "lesson series",
          "4-autoregression.md"},
    Claim{3, kStatement, "Inference must go one token at a time; there is no alternative.", kIf,
          "you mean what each token depends on. The calls can be fewer: several tokens are guessed "
          "and checked in one masked pass, with the same tokens and the same bits.",
          "lesson decoding", "5-two-phases.md"},
    Claim{
        4, kStatement,
        "What lets training run in parallel is teacher forcing (one set of notes); it is masked "
        "self-attention (another).",
        kNot,
        "Neither alone. Forcing makes all inputs known before the first call; the mask makes that "
        "call compute the same function as inference. Only with both does one call learn it.",
        "lesson forcing", "10-claims.md"},
    Claim{5, kStatement, "Training is sequential across tokens (one set), parallel (the others).",
          kIf,
          "you say which way you train: both can be done. Each position's gradient has the same "
          "bits; only the sums over positions are rounded in a different order.",
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
          kNot,
          "The ratio depends on the length. For three words it may be near the pie; for 300 it is "
          "far from it.",
          "lesson sequential", "7-one-call.md"},
    Claim{13, kCost, "Sequential training is O(n), parallel training is O(1).", kIf,
          "you count steps that wait for each other. The work is not O(1): O(n) in the linear "
          "layers and O(n²) in attention; prefix by prefix, O(n²) and O(n³).",
          "lesson work", "7-one-call.md"},
    Claim{14, kCost, "Parallel training needs more memory because of the full attention matrix.",
          kIf,
          "the matrix is stored. tril never stores it, so memory grows with the length, not with "
          "its square. All rows at once still take more memory than one row at a time.",
          "lesson sequential", "7-one-call.md"},
    Claim{15, kCost, "Parallel training uses the GPU (or any processor) much better.", kHolds,
          "In useful work per second, by far. Prefix by prefix the machine can be busy too, but "
          "mostly with positions that it has computed before.",
          "lesson work", "7-one-call.md"},
    Claim{16, kCost,
          "Sequential training becomes prohibitive beyond 300 tokens; the masked form scales to "
          "long sequences.",
          kHolds, "300 is no threshold: the longer the target, the larger the ratio.",
          "lesson sequential", "7-one-call.md"},
    Claim{17, kCost, "Teacher forcing gives faster training and stable gradients.", kIf,
          "you mean faster: fewer calls per update, and more learnt after as many updates. It does "
          "not make the gradients steadier here: their norm varies about as much either way.",
          "lesson forcing", "10-claims.md"},

    Claim{18, kLeakage, "Without a mask आप sees कैसे and हैं: w₁₂, w₁₃ and w₂₃ carry the future.",
          kHolds, "Without the mask these weights are above 0. With it they are exactly 0.",
          "lesson attention", "1-attention.md"},
    Claim{
        19, kLeakage,
        "In training this is fine because the output is known, the trouble comes at inference "
        "(one set); it is an unfair advantage in training (another).",
        kNot,
        "The first is wrong, the second right. In training the wrong function is learnt: the model "
        "copies the next word, which inference does not have.",
        "lesson leakage", "6-leakage.md"},
    Claim{
        20, kLeakage,
        "At inference the unmasked expression cannot be computed: it needs embeddings that do not "
        "exist yet.",
        kNot,
        "It can be computed, over the words that exist. But it is not the function that was "
        "learnt: "
        "earlier positions see later ones, so every logit may change, even where the same word is "
        "still the likeliest.",
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
          "In fp32 every weight is finite with or without it. The reason is the gradient: a dot "
          "product's spread grows "
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
          kHolds,
          "Compared with ==. (If a row sees nothing at all, softmax gives NaN, and tril gives 0.)",
          "lesson masks", "2-masks.md"},
    Claim{28, kMask, "One could just as well multiply the future scores by zero.", kNot,
          "A score of 0 still gets weight, because e⁰ = 1.", "lesson masks", "2-masks.md"},
    Claim{29, kMask, "Use −1e9 instead of a true −∞ for numerical stability.", kIf,
          "every row sees something and the scores are small; then it does what −∞ does, no more "
          "stably. A row that sees nothing becomes an average over forbidden keys, and in half "
          "precision −1e9 becomes −∞.",
          "lesson masks", "2-masks.md"},
    Claim{
        30, kMask,
        "It takes a dozen lines of code: masked_attention(Q, K, V, mask) with masked_fill(mask == "
        "0, -1e9).",
        kIf,
        "every row sees something, since −1e9 is wrong where a row sees nothing. Otherwise the "
        "dozen lines (examples/masked_attention.cpp) and the fast kernel agree within the rounding "
        "bound.",
        "lesson attention", "1-attention.md"},
    Claim{31, kMask, "The mask is upper triangular (one set), lower triangular (another).", kIf,
          "you say what the word stands for: what is blocked (the upper triangle) or what is kept "
          "(the lower triangle, with the diagonal). Both sets mean the same mask.",
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
          "Padding hides padding tokens, causal hides the future; combined they are the "
          "intersection.",
          "lesson masks", "2-masks.md"},
    Claim{37, kMask,
          "Masked self-attention is the first sub-layer of each decoder block; cross-attention and "
          "feed-forward follow.",
          kHolds, "Observed in a running model, in this order in every layer.",
          "info MODEL --svg FILE", "5-two-phases.md"},
    Claim{38, kMask,
          "Several heads learn different relations (syntax, coreference) and improve quality.", kIf,
          "syntax and coreference are left aside, which we have not tested. Heads of a trained "
          "model do attend differently, and here more heads of the same total width translate "
          "better.",
          "lesson heads", "10-claims.md"},
    Claim{
        39, kMask,
        "Inference uses standard self-attention (one set); the mask is ALWAYS used (another); "
        "recompute it or use a cache.",
        kIf,
        "you say how you decode. With a cache the first set is right: nothing of the future is "
        "there to hide. Recomputed, the second is: with the mask the bits are those of the cache, "
        "without it they are not.",
        "lesson decoding", "5-two-phases.md"},
    Claim{40, kMask, "All it takes is adding a mask matrix.", kIf,
          "the inputs are shifted right as well. The mask keeps the diagonal, so a row sees its "
          "own input: that must be the previous word, not the answer.",
          "lesson leakage", "6-leakage.md"},

    Claim{41, kUse, "Translation, summarisation, chat: the foundation of modern language models.",
          kHolds, "A toy of each, with the same class and the same mask.", "lesson tasks",
          "10-claims.md"},
    Claim{42, kUse,
          "Words → embeddings and positions → encoder → decoder block with its three sub-layers → "
          "linear → softmax → word.",
          kHolds, "Drawn from your own model, with its shapes.", "info MODEL --svg FILE",
          "5-two-phases.md"},
    Claim{43, kUse,
          "To memorise: purpose, mechanism, training, inference, location. And papers to read on.",
          kHolds, "The pocket summary; each of its lines is one of the claims above.",
          "lesson summary", "10-claims.md"},
    Claim{44, kUse, "Better interview answers: test yourself.", kHolds,
          "Twenty questions, each answered by an experiment.", "lesson quiz", "10-claims.md"},
};

}  // namespace

std::span<const Claim> claims() { return kClaims; }

const Claim& claim_number(int number) {
  require(number >= 1 && number <= std::ssize(kClaims), ErrorCode::invalid_argument,
          "there is no claim ", number, "; they are numbered 1 to ", kClaims.size());
  return kClaims[static_cast<size_t>(number - 1)];
}

}  // namespace tril
