// The page's words in English: the table that all others follow.
import {grouped} from "./numbers.js";

const count = (n, one, many = `${one}s`) => `${grouped(n)} ${n === 1 ? one : many}`;

export const kEnglish = {
  // The head of the page.
  skip: "Skip to the two phases",
  tour: "Tour",
  other_language: "हिन्दी",
  large: "Large",
  dark: "Dark",
  light: "Light",
  lede: "One decoder, run twice on this sentence. In {training} it reads the whole target in one " +
      "call. {inference}",
  lede_training: "training",
  lede_inference: "In {inference} it reads one token per call.",
  lede_inference_word: "inference",
  lede_step_by_step: "Then {inference}, as in inference, it reads one token per call.",
  lede_step_by_step_word: "step by step",
  lede_target: "This target was given; on its own the model writes {text}. ",
  becomes: "becomes",
  whose_words: "Whose words the decoder reads",
  given_target: "The given target",
  own_words: "The model’s own words",
  facts: ({encoder, decoder, heads, dim, parameters}) =>
      `${encoder === 0 ? count(decoder, "layer") : `${encoder} + ${count(decoder, "layer")}`}, ${
          count(heads, "head")} of ${dim}, ${grouped(parameters)} parameters`,

  // Are the two passes one function?
  mask_same: "The mask makes both the same function.",
  mask_differs: "Here the two are not the same function.",
  mask_off_same: "The mask is off, but here there is no future to see.",
  mask_off_differs:
      "The mask is off: training sees words that inference has not written yet. The " +
      "two are no longer the same function.",
  verdict_same: "The same, to the last bit",
  verdict_differs: "Not the same",
  verdict_off: "Mask off: no longer the same",
  verdict_words: ({compared, differing, logits}) => `${grouped(compared)} ${
      logits ? "logits" : "numbers"} of the two passes compared bit by bit: ${
      differing === 0 ? "none differs" : `${grouped(differing)} differ`}.`,

  // What to look at.
  what_to_look_at: "What to look at",
  kind_of_attention: "Kind of attention",
  masked: "Masked self-attention",
  masked_short: "Masked self",
  cross: "Cross-attention",
  cross_short: "Cross",
  encoder: "Encoder",
  encoder_short: "Encoder",
  layer: "Layer",
  layer_short: "L",
  head: "Head",
  head_short: "H",
  how_drawn: "How the weights are drawn",
  matrix: "Matrix",
  matrix_short: "Matrix",
  lines: "Lines",
  lines_short: "Lines",
  mask_on: "Mask on",
  mask_off: "Mask off",
  mask_none: "No mask here",
  mask_only: "Only masked self-attention has a causal mask",
  which_phase: "Which phase",

  // The two phases.
  two_phases: "The two phases side by side",
  training: "Training",
  inference: "Inference",
  on_target: "Step by step, on the given target",
  training_masked:
      "The whole target goes in at once, and every row is computed in the same call. " +
      "The mask hides what comes after a row.",
  training_cross: "Every row of the target looks at the whole source. Nothing in it lies in the " +
      "future, so nothing is hidden.",
  training_encoder: "The encoder reads the source in one call. It has no causal mask: every word " +
      "sees every other.",
  inference_masked: "One token goes in, one row comes out. The keys and values of earlier tokens " +
      "wait in the cache.",
  inference_cross: "Each new token looks at the same source, whose keys and values were computed " +
      "once.",
  inference_encoder: "The same call, also made once, before the first token is written.",
  target_masked: "One token goes in and one row comes out, as in inference. But what goes in is " +
      "the given target, not what the model wrote, so that both sides read the same.",
  target_cross: "Each token of the given target looks at the same source, whose keys and values " +
      "were computed once.",
  leak_training: "The mask is off. Every row sees words that do not exist yet when the model " +
      "writes: the leak, hatched in red.",
  leak_inference: "Decoding is as before: the cache holds no future to look at. Training without " +
      "the mask therefore learns something else.",
  cross_rows:
      "A row is a token that goes in. The word after the arrow is what the model predicts " +
      "from it.",
  calls: ({n}) => count(n, "call"),
  call_of: "call {n} of {all}",
  attention_in_training: "Attention in training",
  attention_in_inference: "Attention in inference",
  matrix_label: "{what}: {rows} rows, {columns} columns. The arrow keys move from cell to cell; " +
      "the same numbers are in the table below.",
  as_table: "The same as a table",
  table_caption: "{what}, layer {layer}, head {head}. Rows look at columns.",
  table_hidden: "hidden",
  table_absent: "not there yet",
  table_leak: "{weight}, from the future",
  same_bits: "the same bits",
  other_bits: "other bits",
  looks_at: "{query} looks at {key}",
  looks_at_predicting: "{query} (→ {predicted}) looks at {key}",
  says_seen: "weight {weight}",
  says_leak: "weight {weight}, from the future",
  says_hidden: "hidden: −∞, weight exactly 0",
  says_absent: "not there yet",
  key_weight: "a weight, after the softmax: each row adds up to 1",
  key_hidden: "hidden: −∞ is added before the softmax, so the weight is exactly 0",
  key_leak: "a weight on a word that does not exist yet",
  key_absent: "not there yet: no key, no row",
  key_same: "the row has the same bits as in training",
  key_differs: "the row has other bits",
  cache: "Cache",
  cache_size: ({tokens, numbers, layers}) => `${count(tokens, "token")} × ${
      grouped(numbers)} numbers: a key and a value in each of ${count(layers, "layer")}.`,

  // The player.
  steps_of_decoding: "Steps of decoding",
  first_step: "First step",
  step_back: "One step back",
  step_forward: "One step forward",
  last_step: "Last step",
  play: "Play",
  pause: "Pause",
  step_slider: "Step of decoding",
  step_of: "Step {n} of {all}",
  step_comes: "Step {n} of {all}: {fed} goes in, {right} comes out",
  step_should: "Step {n} of {all}: {fed} goes in, {right} should come out",
  step_given: "Step {n} of {all}: {fed} goes in, {right} was given next",
  bits_same: "Row {row}: all {vocab} logits have the same bits",
  bits_differ: ({row, differing, logits}) =>
      `Row ${grouped(row)}: ${count(differing, logits ? "logit" : "number")} with other bits`,
  fingerprints: "Fingerprints of the logits in training and inference",
  work_it_out: "Work it out",
  brief_label: "The chosen cell, worked out in brief",

  // All heads.
  all_heads: "All heads",
  all_heads_words:
      "Each head looks for something different. Layers run down, heads across. Choose one.",
  all_heads_label: "All heads at a glance",
  head_label: "Layer {layer}, head {head}",
  reading_diagonal: "A diagonal: each word looks at itself.",
  reading_beside: "Beside the diagonal: at the word before.",
  reading_column: "A column: all words look at one.",

  // One cell.
  one_cell: "One cell, worked out",
  cell_place: "Row {row}, key {key}, layer {layer}, head {head}",
  cell_place_training: "Row {row}, key {key}, layer {layer}, head {head}, as in training",
  exactly_zero: "exactly 0",
  dot_words: "Query times key: {dim} products, added up.",
  dot_unknown:
      "With the mask off, layers above the first have queries and keys of their own. The " +
      "page keeps only their scores.",
  scale_words: "Divided by √{dim}; otherwise long vectors would make the softmax all or nothing.",
  own_scale_words: "Times {scale}: this model has a scale of its own in place of 1 / √d.",
  for_distance: "for the distance",
  mask_leak_words: "The mask is off: nothing is added. This key lies in the future.",
  mask_seen_words: "This key may be seen: nothing is added.",
  mask_hidden_words: "This key may not be seen: −∞ is added.",
  mask_is_off: "(mask off)",
  softmax_words: ({n}) => `Over the ${count(n, "key")} this row sees. The weights add up to 1.`,
  values_unknown: "The values of this pass are not on the page.",
  values_words: ({n}) => "The value counts as much as its weight. The sum over " +
      `${count(n, "key")} is the contextual embedding.`,
  values_nothing: "The weight is 0: nothing of this value comes in.",
  engine_has: "The engine has {value}; all {n} within {off}.",
  every_term: "Every term",
  term_weighted: "weight·v",
  term_context: "context",
  status: "{query} looks at {key}: weight {weight}",
  status_leak: "{query} looks at {key}: weight {weight}, from the future",

  // What comes next.
  next: "What comes next",
  after_comes: "After {token} comes",
  next_words:
      "The state of the last row becomes a probability for every piece of the vocabulary. " +
      "These are the likeliest. The framed one is the right one here.",
  leaked_title: "With the mask off",
  leaked_words:
      "The right word, {word}: {masked} with the mask, {unmasked} without. The future has " +
      "reached this row. A model trained like this learns to copy it, and then cannot write: " +
      "`tril lesson leakage`.",

  temperature: "Temperature",
  others: "All {n} others together: {share}",
  heat_plain:
      "At a temperature of 1 these are the probabilities the engine computed: the softmax " +
      "of the logits, which stand beside the bars.",
  heat_cold:
      "Each logit is divided by {temperature} before the softmax, over all {vocab} pieces: the " +
      "likeliest gains. This changes what sampling draws, not what the model computed.",
  heat_hot:
      "Each logit is divided by {temperature} before the softmax, over all {vocab} pieces: the " +
      "unlikely gain. This changes what sampling draws, not what the model computed.",

  // The architecture.
  model: "The whole model",
  model_title: "Where the mask sits",
  model_words:
      "Your model from bottom to top, with its shapes. n is the length of the source, m that of " +
      "the target. What this page shows of attention happens in the boxes with heads.",
  model_label: "The architecture of this model",

  // The way of one token.
  stages: "Beyond attention",
  stages_title: "The way of {token} through layer {layer}",
  stages_place: "Step {step}. Of each vector of {width} numbers the first {kept} are drawn; the " +
      "numbers are those of the engine’s training pass.",
  stage_embedding: "Embedding and position",
  stage_embedding_words: ({scale, position, norm}) =>
      `The row of the table for this token${scale ? ", times √{width}" : ""}${
          position ? ", plus the vector of its position" : ""}${norm ? ", then normalised" : ""}.`,
  stage_no_position: "This model adds no position here; it comes in with attention.",
  stage_token: "token",
  stage_position: "position",
  stage_input: "input",
  stage_masked: "Masked self-attention",
  stage_cross: "Cross-attention",
  stage_feedForward: "Feed-forward",
  stage_masked_words: "What all heads found, projected back to {width} numbers, is added to the " +
      "token’s vector: the residual.",
  stage_cross_words: "What it found in the source is added in the same way.",
  stage_feedForward_words:
      "Each token alone, without the others: {width} numbers become {hidden}, " +
      "pass through {activation}, and become {width} again. Here {active} of the {hidden} are above 0.",
  stage_before: "before",
  stage_normed: "norm",
  stage_hidden: "hidden",
  stage_added: "added",
  stage_after: "after",
  stage_norm_line: "Norm, first number: {line}",
  stage_sum_line: "Residual, first number: {line}",
  stage_lengths: "A vector of length {added} is added; the sum has length {left}.",
  stage_lengths_last: "A vector of length {added} is added; normalised, the sum has length {left}.",
  stage_logits: "Logits and probabilities",
  stage_logits_words: ({norm}) =>
      `After layer {layers}${
          norm ? " and a last norm" :
                 ""} the vector is multiplied with the vector of every piece of ` +
      "the vocabulary: {vocab} logits. The softmax turns them into probabilities.",
  stage_last: "last",
  stage_likeliest: "Likeliest: {token}, logit {logit}, {chance}",

  // Teacher forcing.
  forcing: "Teacher forcing",
  forcing_title: "The right word goes in",
  forcing_label: "What was fed at each step",
  go_to_step: "Go to step {n}",
  forcing_step: "Step",
  fed_training: "Fed in training",
  fed_training_note: "START, then the right words",
  fed_text_note: "START, then the text",
  predicted: "Predicted",
  predicted_note: "the likeliest next",
  right: "Right",
  right_note: "what should come out",
  right_text_note: "what comes next in the text",
  fed_inference: "Fed in inference",
  fed_inference_note: "its own words",
  forcing_all_right: "All {all} predictions are right, so feeding the right word and feeding the " +
      "predicted one are the same here.",
  forcing_try: " The target is what the model itself wrote; `tril explain --target` shows it " +
      "against a text of your own.",
  forcing_wrong: ({n, all}) =>
      `${count(n, "prediction")} of ${all} ${
          n === 1 ? "is" :
                    "are"} not the right word. In training the right one goes in at the next ` +
      "step all the same. ",
  forcing_own: "In inference the model continues from its own words: the last row.",
  forcing_given: ({n}) =>
      `The first ${count(n, "step")} ${n === 1 ? "reads" : "read"} what was given. `,
  forcing_given_right: "Every prediction there is what comes next. ",
  forcing_given_wrong: ({n, all}) => `${count(n, "prediction")} of ${all} ${
      n === 1 ? "is" : "are"} not what comes next. What was given goes in all the same. `,
  forcing_from: "From step {n} on the model writes on its own",
  forcing_alone: "The model writes on its own",
  forcing_likeliest: ": each word it reads is the one it found likeliest.",
  forcing_unlikely: ({n, all}) =>
      `: ${count(n, "prediction")} of ${all} ${n === 1 ? "is" : "are"} not what it wrote. `,
  greedy_only: "Greedy search took the likeliest token that may be written (START, for example, " +
      "may not).",
  greedy_same: "Greedy search, with a beam of 1, writes the same sentence.",
  greedy_other: ({ended, width, verdict}) =>
      "Taking the likeliest at every step writes " +
      `“{text}”${ended ? "" : " without coming to an end"}, ranked {own}. Beam search kept up to ${
          count(width, "sentence")} per step and wrote one ranked {best}, ${{
        ends: "which comes to an end",
        better: "which is better",
        worse: "which is no better here",
        equal: "which is just as good"
      }[verdict]}.`,

  // Beam search.
  beam: "Beam search",
  beam_title: "Several sentences at once",
  beam_words:
      "Each step continues every sentence still in the race and keeps the best. The thick " +
      "line won; hollow dots were dropped.",
  greedy: "Greedy search",
  greedy_title: "The likeliest each time",
  greedy_words:
      "A beam of 1 keeps one sentence and continues it with the likeliest piece. Hollow " +
      "dots were looked at and dropped.",
  tree_label: "The tree of beam search",
  tree_picture: ({width}) => "Beam search with " +
      `${count(width, "hypothesis", "hypotheses")} per step; the results are listed below`,
  node: "{word}: probability {chance}, score {score}, {fate}",
  kept: "kept",
  finished: "finished",
  dropped: "dropped",
  result: "score {score}, ranked {rank}",
  result_cut: "score {score}, ranked {rank}, cut",
  results_words: "The score of a sentence is the sum of the log-probabilities of its tokens, " +
      "including END. Sentences are ranked by it. Closer to 0 is better.",
  results_words_length:
      "The score of a sentence is the sum of the log-probabilities of its tokens, " +
      "including END. Sentences are ranked by the score divided by their length to the power of " +
      "{power}; otherwise short ones would win by being short. Closer to 0 is better.",

  // The tour.
  tour_forward: "Next",
  tour_back: "Back",
  tour_done: "Done",
  tour_leave: "End the tour",
  tour_start: "Two passes, one function",
  tour_start_words: "The same decoder ran twice on this sentence: as in training, and as in " +
      "inference. Here you see whether every number came out with the same bits.",
  tour_training: "Training: all rows at once",
  tour_training_words:
      "Each row is a token that goes in; its cells say how much it looks at each " +
      "token. All rows are computed in one call. The cells with −∞ are hidden by the mask.",
  tour_inference: "Inference: one row per call",
  tour_inference_words: "Here the rows come one by one, because the next token is not known yet. " +
      "Step with the arrow keys. An equals sign: the row has the bits it had in training.",
  tour_mask: "What if there were no mask?",
  tour_mask_words:
      "The mask is off now. In training each row sees words that come later: the red " +
      "cells. No row has the same bits any more, because inference cannot see them.",
  tour_cell: "One cell, worked out",
  tour_cell_words:
      "Click any cell and follow its arithmetic here: query times key, divided by √d, " +
      "plus the mask, softmax, times the value. Every number is that of this model.",
  tour_stages: "Beyond attention",
  tour_stages_words:
      "What else happens to the token in a layer: its embedding and position, what " +
      "each sub-layer adds, the norms, and feed-forward.",
  tour_next: "What comes next",
  tour_next_words:
      "From the last vector come the probabilities of the next token. The temperature " +
      "makes them sharper or flatter.",
  tour_end: "From words to words",
  tour_end_words:
      "Beam search keeps several sentences alive and takes the best. That is the whole " +
      "way from words to words. Now step through it yourself.",

  // How it was made.
  how_made: "How this page was made",
  how_compared: ({differing, apart}) =>
      "Queries, keys, values and contextual embeddings of every " +
      "attention, the outputs of the decoder’s layers, its last states and all logits: {compared} " +
      "numbers of the training pass were compared bit by bit with those of the step-by-step pass " +
      `when this page was written. ${
          differing === 0 ? "None differs" : `${grouped(differing)} differ`}. ` +
      (apart === 0 ?
           "Numbers with the same bits are stored once, and both sides are drawn from them." :
           `For the step-by-step pass the page stores ${
               count(apart, "attention")} of its own and draws the right side from ${
               apart === 1 ? "it" : "them"}.`),
  how_exact: "Queries, keys and values are the engine’s own numbers, with every bit. The engine " +
      "never holds a matrix of weights; this page computes the weights by the textbook formula. The " +
      "formula was checked: the {contexts} numbers of contextual embeddings it gives differ from " +
      "the engine’s by {difference} at most, {share}% of what fp32 rounding allows.",
  how_rounded: "Because the sentence is long, queries, keys and values are the engine’s numbers " +
      "rounded to sixteen bits of the largest of each vector: weights drawn from them are off by " +
      "{loss} at most. The engine never holds a matrix of weights; this page computes the weights " +
      "by the textbook formula. The formula was checked on the numbers before they were rounded: " +
      "the {contexts} numbers of contextual embeddings it gives differ from the engine’s by " +
      "{difference} at most, {share}% of what fp32 rounding allows.",
  how_proof: "This is one sentence. That training and inference are the same function for all " +
      "weights and tokens is what `tril prove` shows in its section 5; the proof is on page 11 of " +
      "the guide, `docs/guide/11-proof.md`.",
  how_keys:
      "Keys: `←` and `→` step, `Space` plays, `Home` and `End` jump. In a matrix the arrows " +
      "move from cell to cell and `Enter` opens the arithmetic. This page makes no request to any " +
      "network.",
};
