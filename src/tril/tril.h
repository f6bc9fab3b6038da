// tril: Transformers whose parallel training pass and token-by-token decoding are the same
// function, bit for bit. This header is the whole public interface; it is cheap to include.
#pragma once

#include "tril/autograd/tape.h"         // Tape, Gradients
#include "tril/base/cpu.h"              // Target: which instruction set is used
#include "tril/base/error.h"            // Error
#include "tril/data/batches.h"          // BatchStream
#include "tril/data/corpus.h"           // Corpus
#include "tril/data/lines.h"            // LineReader
#include "tril/decode/alignment.h"      // align
#include "tril/decode/engine.h"         // Engine: many requests together, each with its options
#include "tril/decode/generation.h"     // settings of a search, and generation.json
#include "tril/decode/score.h"          // score
#include "tril/decode/search.h"         // search
#include "tril/decode/shortlist.h"      // Shortlist: the pieces a sentence is translated with
#include "tril/device/device.h"         // Device, best_device
#include "tril/explain/architecture.h"  // a model as a picture
#include "tril/explain/explain.h"       // explain, explain_page
#include "tril/hub/export.h"            // models leave for Hugging Face's transformers
#include "tril/hub/import.h"            // models of Hugging Face's transformers
#include "tril/io/atomic_file.h"        // AtomicFile: written whole or not at all
#include "tril/io/mapped_file.h"        // MappedFile: which file is mapped where
#include "tril/io/toml.h"               // options in files
#include "tril/lesson/claims.h"         // every claim of the lecture, with its verdict
#include "tril/lesson/demo.h"           // how the phrasebook is learnt
#include "tril/lesson/learn_phrasebook.h"
#include "tril/lesson/lesson_attention.h"  // the lessons
#include "tril/lesson/lesson_context.h"
#include "tril/lesson/lesson_decoding.h"
#include "tril/lesson/lesson_forcing.h"
#include "tril/lesson/lesson_heads.h"
#include "tril/lesson/lesson_leakage.h"
#include "tril/lesson/lesson_masks.h"
#include "tril/lesson/lesson_scale.h"
#include "tril/lesson/lesson_sequential.h"
#include "tril/lesson/lesson_series.h"
#include "tril/lesson/lesson_tasks.h"
#include "tril/lesson/lesson_teacher_forcing.h"
#include "tril/lesson/lesson_work.h"
#include "tril/lesson/mask_check.h"
#include "tril/lesson/phrasebook.h"      // the built-in phrasebook
#include "tril/lesson/pictures.h"        // of the lessons
#include "tril/lesson/quiz.h"            // questions to test oneself with
#include "tril/measure/measure.h"        // what `tril bench` measures
#include "tril/models/config.h"          // TransformerConfig
#include "tril/models/folder.h"          // what a model folder holds
#include "tril/models/session.h"         // Session, Observer
#include "tril/models/transformer.h"     // Transformer, Memory
#include "tril/models/verify.h"          // verify_folder, seal_folder
#include "tril/prove/agreement.h"        // parallel against stepwise
#include "tril/prove/for_every_input.h"  // the same for every input
#include "tril/prove/proof.h"            // the proof on a model
#include "tril/prove/sequential.h"       // sequential against parallel training
#include "tril/serve/answer.h"           // receipts of a server's answers
#include "tril/serve/http_server.h"      // models over HTTP
#include "tril/serve/service.h"          // what such a server answers
#include "tril/tensor/mask.h"            // Mask, Segment
#include "tril/tensor/rows.h"            // Rows
#include "tril/tensor/tensor.h"          // Tensor
#include "tril/text/bleu.h"              // BLEU
#include "tril/text/chrf.h"              // chrF
#include "tril/text/display.h"           // columns on a terminal
#include "tril/text/languages.h"         // languages: codes, names, detection
#include "tril/text/sentences.h"         // sentences of a text
#include "tril/text/token_ids.h"         // token ids as text
#include "tril/text/tokenizer.h"         // Tokenizer
#include "tril/text/utf8.h"              // first_invalid_utf8
#include "tril/train/learn.h"            // learn: a small model, in memory
#include "tril/train/learn_shortlist.h"  // a shortlist from parallel text
#include "tril/train/optimizer.h"        // AdamWOptimizer
#include "tril/train/options.h"          // TrainOptions
#include "tril/train/symbols.h"          // learn_symbols
#include "tril/train/trainer.h"          // train
#include "tril/train/tuning.h"           // fine-tuning
#include "tril/translate/doubt.h"        // text in another language than the model reads
#include "tril/translate/text_plan.h"    // whole texts: translate_text
#include "tril/translate/translator.h"   // Translator: text in, text out
#include "tril/translate/words.h"        // word alignments
#include "tril/version.h"                 // kVersion, TRIL_VERSION_NUMBER
