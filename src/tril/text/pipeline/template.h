// Which tokens stand before and after a text: the part "post_processor" of a tokenizer.json.
#pragma once

#include "tril/text/pipeline/component.h"
#include "tril/text/tokenizer_kind.h"

namespace tril::pipeline {

// TemplateProcessing, RobertaProcessing, BertProcessing, ByteLevel, Sequence, for one text alone;
// others raise `unsupported`.
TokenLayout read_template(Component component);

}  // namespace tril::pipeline
