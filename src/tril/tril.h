// tril: Transformers whose parallel training pass and token-by-token decoding are the same
// function, bit for bit. This header is the whole public interface; it is cheap to include.
#pragma once

#include "tril/autograd/tape.h"         // Tape, Gradients
#include "tril/base/cpu.h"              // Target: which instruction set is used
#include "tril/base/error.h"            // Error
#include "tril/decode/alignment.h"      // align: which source tokens a target token looked at
#include "tril/decode/score.h"          // score: log-probabilities of given targets
#include "tril/decode/search.h"         // search: greedy, beam, sampling
#include "tril/measure/measure.h"       // what `tril bench` measures
#include "tril/models/config.h"         // TransformerConfig
#include "tril/models/rows.h"           // Rows
#include "tril/models/session.h"        // Session, Observer
#include "tril/models/transformer.h"    // Transformer, Memory
#include "tril/tensor/mask.h"           // Mask, Segment
#include "tril/tensor/tensor.h"         // Tensor
#include "tril/text/tokenizer.h"        // Tokenizer
#include "tril/train/optimizer.h"       // AdamWOptimizer
#include "tril/train/symbols.h"         // learn_symbols
#include "tril/translate/translator.h"  // Translator: text in, text out
#include "tril/translate/words.h"       // word alignments
