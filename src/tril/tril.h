// tril: Transformers whose parallel training pass and token-by-token decoding are the same
// function, bit for bit.
//
// This header is what programs may rely on; docs/reference has a page for each class and function.
// What it includes is listed in cmake/public_headers.cmake; other headers of tril may change at any
// time. It is cheap to include.
#pragma once

#include "tril/autograd/tape.h"         // Tape, Gradients
#include "tril/base/error.h"            // Error
#include "tril/data/corpus.h"           // Corpus: text to train on or to evaluate with
#include "tril/decode/alignment.h"      // align
#include "tril/decode/generation.h"     // settings of a search, and generation.json
#include "tril/decode/shortlist.h"      // Shortlist: the pieces a sentence is translated with
#include "tril/device/device.h"         // Device, best_device
#include "tril/explain/page.h"          // explain_page
#include "tril/hub/export.h"            // models leave for Hugging Face's transformers
#include "tril/hub/import.h"            // models of Hugging Face's transformers
#include "tril/models/config.h"         // TransformerConfig
#include "tril/models/folder.h"         // what a model folder holds, and how it is loaded
#include "tril/models/session.h"        // Session: what belongs to one caller of a model
#include "tril/models/transformer.h"    // Transformer, Memory
#include "tril/models/verify.h"         // verify_folder, seal_folder
#include "tril/prove/prove.h"           // prove
#include "tril/tensor/rows.h"           // Rows: what a Transformer is called with
#include "tril/tensor/tensor.h"         // Tensor
#include "tril/text/languages.h"        // languages: codes, names, detection
#include "tril/text/tokenizer.h"        // Tokenizer
#include "tril/train/evaluation.h"      // evaluate
#include "tril/train/optimizer.h"       // AdamWOptimizer
#include "tril/train/options.h"         // TrainOptions
#include "tril/train/trainer.h"         // train
#include "tril/translate/text_plan.h"   // whole texts: translate_text
#include "tril/translate/translator.h"  // Translator: text in, text out
#include "tril/version.h"               // kVersion, TRIL_VERSION_NUMBER
