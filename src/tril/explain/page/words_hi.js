// The page's words in Hindi. Terms that learners know in English are given in brackets, or used as
// they are. A test checks that no key is missing.
import {grouped} from "./numbers.js";

export const kHindi = {
  // The head of the page.
  skip: "सीधे दोनों चरणों पर जाएँ",
  tour: "परिचय",
  other_language: "English",
  large: "बड़ा",
  dark: "गहरा",
  light: "हल्का",
  lede:
      "एक ही डिकोडर (decoder), इस वाक्य पर दो बार। {training} में वह पूरा लक्ष्य-वाक्य एक ही कॉल में पढ़ता है। " +
      "{inference}",
  lede_training: "प्रशिक्षण (training)",
  lede_inference: "{inference} में वह हर कॉल में एक टोकन पढ़ता है।",
  lede_inference_word: "अनुमान (inference)",
  lede_step_by_step: "फिर {inference}, जैसे inference में, वह हर कॉल में एक टोकन पढ़ता है।",
  lede_step_by_step_word: "एक-एक कदम",
  lede_target: "यह लक्ष्य-वाक्य दिया गया था; अपने आप मॉडल लिखता है: {text}। ",
  becomes: "का अनुवाद",
  whose_words: "डिकोडर किसके शब्द पढ़ता है",
  given_target: "दिया गया लक्ष्य",
  own_words: "मॉडल के अपने शब्द",
  facts: ({encoder, decoder, heads, dim, parameters}) =>
      `${encoder === 0 ? decoder : `${encoder} + ${decoder}`} परतें (layers), ${heads} हेड, हर एक ${
          dim} का, ${grouped(parameters)} पैरामीटर`,

  // Are the two passes one function?
  mask_same: "मास्क (mask) के कारण दोनों एक ही फलन (function) हैं।",
  mask_differs: "यहाँ दोनों एक ही फलन नहीं हैं।",
  mask_off_same: "मास्क हटा है, पर यहाँ देखने को कोई भविष्य नहीं है।",
  mask_off_differs:
      "मास्क हटा है: training ऐसे शब्द देख लेता है जो inference ने अभी लिखे ही नहीं। अब दोनों एक ही " +
      "फलन नहीं रहे।",
  verdict_same: "आख़िरी बिट तक समान",
  verdict_differs: "समान नहीं",
  verdict_off: "मास्क हटा: अब समान नहीं",
  verdict_words: ({compared, differing, logits}) =>
      `दोनों के ${grouped(compared)} ${logits ? "logits" : "अंक"} बिट-दर-बिट मिलाए गए: ${
          differing === 0 ? "कोई अलग नहीं" : `${grouped(differing)} अलग`}।`,

  // What to look at.
  what_to_look_at: "क्या देखना है",
  kind_of_attention: "अटेंशन (attention) का प्रकार",
  masked: "Masked self-attention",
  masked_short: "Masked self",
  cross: "Cross-attention",
  cross_short: "Cross",
  encoder: "Encoder",
  encoder_short: "Encoder",
  layer: "परत",
  layer_short: "L",
  head: "हेड",
  head_short: "H",
  how_drawn: "भार (weights) कैसे दिखाएँ",
  matrix: "मैट्रिक्स",
  matrix_short: "मैट्रिक्स",
  lines: "रेखाएँ",
  lines_short: "रेखाएँ",
  mask_on: "मास्क लगा है",
  mask_off: "मास्क हटा है",
  mask_none: "यहाँ मास्क नहीं",
  mask_only: "Causal mask केवल masked self-attention में होता है",
  which_phase: "कौन-सा चरण",

  // The two phases.
  two_phases: "दोनों चरण साथ-साथ",
  training: "प्रशिक्षण (training)",
  inference: "अनुमान (inference)",
  on_target: "एक-एक कदम, दिए गए लक्ष्य पर",
  training_masked:
      "पूरा लक्ष्य-वाक्य एक साथ अंदर जाता है और हर पंक्ति उसी एक कॉल में निकलती है। पंक्ति के बाद जो आता है, " +
      "उसे मास्क छिपा देता है।",
  training_cross:
      "लक्ष्य की हर पंक्ति पूरे स्रोत-वाक्य को देखती है। उसमें कुछ भी भविष्य का नहीं है, इसलिए कुछ छिपाना नहीं पड़ता।",
  training_encoder:
      "Encoder स्रोत-वाक्य एक ही कॉल में पढ़ता है। उसमें causal mask नहीं है: हर शब्द हर शब्द को देखता है।",
  inference_masked:
      "एक टोकन अंदर जाता है, एक पंक्ति बाहर आती है। पहले के टोकनों की key और value कैश (cache) में " +
      "रखी रहती हैं।",
  inference_cross: "हर नया टोकन उसी स्रोत-वाक्य को देखता है; उसकी key और value एक ही बार निकाली गई थीं।",
  inference_encoder: "वही कॉल, यह भी एक ही बार, पहला टोकन लिखने से पहले।",
  target_masked:
      "Inference की तरह एक टोकन अंदर जाता है और एक पंक्ति बाहर आती है। पर यहाँ दिया गया लक्ष्य अंदर जाता है, मॉडल का " +
      "लिखा हुआ नहीं, ताकि दोनों ओर एक ही वाक्य पढ़ा जाए।",
  target_cross:
      "दिए गए लक्ष्य का हर टोकन उसी स्रोत-वाक्य को देखता है; उसकी key और value एक ही बार निकाली गई थीं।",
  leak_training:
      "मास्क हटा है। हर पंक्ति ऐसे शब्द देख रही है जो लिखते समय होंगे ही नहीं: यही लीक (data leakage) है, लाल " +
      "धारियों में।",
  leak_inference:
      "डिकोडिंग पहले जैसी है: कैश में कोई भविष्य है ही नहीं। इसलिए बिना मास्क का training कुछ और ही सीखता है।",
  cross_rows: "पंक्ति वह टोकन है जो अंदर जाता है। तीर के बाद वह शब्द है जिसका मॉडल उससे अनुमान लगाता है।",
  calls: ({n}) => `${grouped(n)} कॉल`,
  call_of: "कॉल {n}, कुल {all}",
  attention_in_training: "Training में attention",
  attention_in_inference: "Inference में attention",
  matrix_label:
      "{what}: {rows} पंक्तियाँ, {columns} स्तंभ। तीर की कुंजियाँ एक खाने से दूसरे पर ले जाती हैं; यही अंक नीचे " +
      "तालिका में हैं।",
  as_table: "यही तालिका के रूप में",
  table_caption: "{what}, परत {layer}, हेड {head}। पंक्तियाँ स्तंभों को देखती हैं।",
  table_hidden: "छिपा",
  table_absent: "अभी नहीं है",
  table_leak: "{weight}, भविष्य से",
  same_bits: "वही बिट",
  other_bits: "अलग बिट",
  looks_at: "{query}, {key} को देखता है",
  looks_at_predicting: "{query} (→ {predicted}), {key} को देखता है",
  says_seen: "भार {weight}",
  says_leak: "भार {weight}, भविष्य से",
  says_hidden: "छिपा: −∞, भार ठीक 0",
  says_absent: "अभी नहीं है",
  key_weight: "softmax के बाद का भार (weight): हर पंक्ति का योग 1",
  key_hidden: "छिपा: softmax से पहले −∞ जोड़ा जाता है, इसलिए भार ठीक 0 है",
  key_leak: "ऐसे शब्द पर भार जो अभी लिखा ही नहीं गया",
  key_absent: "अभी नहीं है: न key, न पंक्ति",
  key_same: "पंक्ति के बिट वही हैं जो training में थे",
  key_differs: "पंक्ति के बिट अलग हैं",
  cache: "कैश (cache)",
  cache_size: ({tokens, numbers, layers}) => `${grouped(tokens)} टोकन × ${grouped(numbers)} अंक: ${
      layers} परतों में से हर एक में एक key और एक value।`,

  // The player.
  steps_of_decoding: "डिकोडिंग के कदम",
  first_step: "पहला कदम",
  step_back: "एक कदम पीछे",
  step_forward: "एक कदम आगे",
  last_step: "आख़िरी कदम",
  play: "चलाएँ",
  pause: "रोकें",
  step_slider: "डिकोडिंग का कदम",
  step_of: "कदम {n}, कुल {all}",
  step_comes: "कदम {n}, कुल {all}: {fed} अंदर जाता है, {right} बाहर आता है",
  step_should: "कदम {n}, कुल {all}: {fed} अंदर जाता है, {right} बाहर आना चाहिए",
  step_given: "कदम {n}, कुल {all}: {fed} अंदर जाता है, आगे {right} दिया गया था",
  bits_same: "पंक्ति {row}: सभी {vocab} logits के बिट वही हैं",
  bits_differ: ({row, differing, logits}) =>
      `पंक्ति ${grouped(row)}: ${grouped(differing)} ${logits ? "logits" : "अंकों"} के बिट अलग हैं`,
  fingerprints: "Training और inference के logits की छाप (fingerprint)",
  work_it_out: "पूरा हिसाब",
  brief_label: "चुने हुए खाने का हिसाब, संक्षेप में",

  // All heads.
  all_heads: "सभी हेड (heads)",
  all_heads_words: "हर हेड कुछ अलग खोजता है। ऊपर से नीचे परतें, बाएँ से दाएँ हेड। कोई एक चुनिए।",
  all_heads_label: "सभी हेड एक नज़र में",
  head_label: "परत {layer}, हेड {head}",
  reading_diagonal: "विकर्ण (diagonal): हर शब्द अपने को देखता है।",
  reading_beside: "विकर्ण के बगल में: अपने से पहले वाले शब्द को।",
  reading_column: "एक स्तंभ: सब शब्द एक ही को देखते हैं।",

  // One cell.
  one_cell: "एक खाने का हिसाब",
  cell_place: "पंक्ति {row}, key {key}, परत {layer}, हेड {head}",
  cell_place_training: "पंक्ति {row}, key {key}, परत {layer}, हेड {head}, जैसा training में",
  exactly_zero: "ठीक 0",
  dot_words: "Query गुणा key: {dim} गुणनफल, फिर उनका योग।",
  dot_unknown:
      "मास्क हटने पर पहली परत से ऊपर की परतों की query और key अलग होती हैं। पृष्ठ पर केवल उनके स्कोर हैं।",
  scale_words: "√{dim} से भाग; नहीं तो लंबे सदिशों (vectors) पर softmax सब कुछ एक ही को दे देता।",
  own_scale_words: "{scale} से गुणा: इस मॉडल में 1 / √d की जगह अपना ही गुणक है।",
  for_distance: "दूरी के लिए",
  mask_leak_words: "मास्क हटा है: कुछ नहीं जुड़ता। यह key भविष्य में है।",
  mask_seen_words: "इस key को देखने की अनुमति है: कुछ नहीं जुड़ता।",
  mask_hidden_words: "इस key को देखना मना है: −∞ जुड़ता है।",
  mask_is_off: "(मास्क हटा)",
  softmax_words: "यह पंक्ति जो {n} key देखती है, उन पर। भारों का योग 1 है।",
  values_unknown: "इस पास (pass) की value पृष्ठ पर नहीं हैं।",
  values_words:
      "Value अपने भार जितनी गिनी जाती है। {n} key पर योग ही संदर्भ-युक्त सदिश (contextual embedding) है।",
  values_nothing: "भार 0 है: इस value से कुछ नहीं आता।",
  engine_has: "इंजन में {value}; सभी {n} में अंतर {off} तक।",
  every_term: "हर पद",
  term_weighted: "भार·v",
  term_context: "संदर्भ (context)",
  status: "{query}, {key} को देखता है: भार {weight}",
  status_leak: "{query}, {key} को देखता है: भार {weight}, भविष्य से",

  // What comes next.
  next: "आगे क्या आएगा",
  after_comes: "{token} के बाद",
  next_words:
      "आख़िरी पंक्ति की स्थिति (state) से शब्दावली के हर टुकड़े (piece) की प्रायिकता बनती है। ये सबसे संभावित हैं। घेरे में " +
      "वह है जो यहाँ सही है।",
  leaked_title: "मास्क हटने पर",
  leaked_words:
      "सही शब्द, {word}: मास्क के साथ {masked}, बिना मास्क {unmasked}। भविष्य इस पंक्ति तक पहुँच गया है। ऐसे सिखाया " +
      "गया मॉडल उसकी नक़ल करना सीखता है, और फिर लिख नहीं पाता: `tril lesson leakage`।",
  temperature: "तापमान (temperature)",
  others: "बाक़ी सभी {n} मिलाकर: {share}",
  heat_plain:
      "तापमान 1 पर ये वही प्रायिकताएँ हैं जो इंजन ने निकालीं: logits का softmax। Logits पट्टियों के बगल में हैं।",
  heat_cold:
      "Softmax से पहले हर logit को {temperature} से भाग दिया जाता है, सभी {vocab} टुकड़ों पर: सबसे संभावित और बढ़ता है। " +
      "इससे sampling बदलती है, मॉडल का हिसाब नहीं।",
  heat_hot:
      "Softmax से पहले हर logit को {temperature} से भाग दिया जाता है, सभी {vocab} टुकड़ों पर: कम संभावित बढ़ते हैं। इससे " +
      "sampling बदलती है, मॉडल का हिसाब नहीं।",

  // The architecture.
  model: "पूरा मॉडल",
  model_title: "Mask कहाँ बैठता है",
  model_words: "आपका मॉडल, नीचे से ऊपर, अपने आकारों के साथ। n स्रोत वाक्य की लंबाई है, m लक्ष्य वाक्य की। " +
      "इस पन्ने का attention उन खानों में होता है जिनमें heads लिखा है।",
  model_label: "इस मॉडल की बनावट",

  // The way of one token.
  stages: "Attention के आगे",
  stages_title: "परत {layer} में {token} का रास्ता",
  stages_place:
      "कदम {step}। हर सदिश (vector) में {width} अंक हैं; पहले {kept} दिखाए गए हैं। अंक इंजन के training पास के हैं।",
  stage_embedding: "Embedding और स्थान (position)",
  stage_embedding_words: ({scale, position, norm}) =>
      `तालिका में इस टोकन की पंक्ति${scale ? ", गुणा √{width}" : ""}${
          position ? ", जमा उसके स्थान का सदिश" : ""}${norm ? ", फिर normalise" : ""}।`,
  stage_no_position: "यह मॉडल यहाँ स्थान नहीं जोड़ता; वह attention में आता है।",
  stage_token: "टोकन",
  stage_position: "स्थान",
  stage_input: "इनपुट",
  stage_masked: "Masked self-attention",
  stage_cross: "Cross-attention",
  stage_feedForward: "Feed-forward",
  stage_masked_words:
      "सब हेड ने जो पाया, वह फिर {width} अंकों में ढलकर टोकन के सदिश में जुड़ता है: यही residual है।",
  stage_cross_words: "स्रोत-वाक्य में जो मिला, वह भी उसी तरह जुड़ता है।",
  stage_feedForward_words:
      "हर टोकन अकेला, दूसरों के बिना: {width} अंक {hidden} बनते हैं, {activation} से गुज़रते हैं और फिर " +
      "{width} बनते हैं। यहाँ {hidden} में से {active} शून्य से ऊपर हैं।",
  stage_before: "पहले",
  stage_normed: "norm",
  stage_hidden: "hidden",
  stage_added: "जुड़ा",
  stage_after: "बाद में",
  stage_norm_line: "Norm, पहला अंक: {line}",
  stage_sum_line: "Residual, पहला अंक: {line}",
  stage_lengths: "{added} लंबाई का सदिश जुड़ता है; योग की लंबाई {left} है।",
  stage_lengths_last: "{added} लंबाई का सदिश जुड़ता है; norm के बाद योग की लंबाई {left} है।",
  stage_logits: "Logits और प्रायिकताएँ",
  stage_logits_words: ({norm}) =>
      `परत {layers}${
          norm ? " और आख़िरी norm" :
                 ""} के बाद यह सदिश शब्दावली के हर टुकड़े के सदिश से गुणा होता है: {vocab} logits। ` +
      "Softmax उन्हें प्रायिकताएँ बनाता है।",
  stage_last: "अंतिम",
  stage_likeliest: "सबसे संभावित: {token}, logit {logit}, {chance}",

  // Teacher forcing.
  forcing: "Teacher forcing",
  forcing_title: "सही शब्द ही अंदर जाता है",
  forcing_label: "हर कदम पर क्या अंदर गया",
  go_to_step: "कदम {n} पर जाएँ",
  forcing_step: "कदम",
  fed_training: "Training में अंदर",
  fed_training_note: "START, फिर सही शब्द",
  fed_text_note: "START, फिर पाठ",
  predicted: "अनुमान",
  predicted_note: "आगे सबसे संभावित",
  right: "सही",
  right_note: "जो बाहर आना चाहिए",
  right_text_note: "पाठ में आगे जो है",
  fed_inference: "Inference में अंदर",
  fed_inference_note: "उसके अपने शब्द",
  forcing_all_right:
      "सभी {all} अनुमान सही हैं, इसलिए यहाँ सही शब्द देना और अनुमान वाला शब्द देना एक ही बात है।",
  forcing_try: " लक्ष्य वही है जो मॉडल ने ख़ुद लिखा; `tril explain --target` से आप अपना वाक्य दे सकते हैं।",
  forcing_wrong:
      "{all} में से {n} अनुमान सही शब्द नहीं हैं। Training में अगले कदम पर फिर भी सही शब्द ही अंदर जाता है। ",
  forcing_own: "Inference में मॉडल अपने ही शब्दों से आगे बढ़ता है: आख़िरी पंक्ति।",
  forcing_given: "पहले {n} कदम दिया गया पाठ पढ़ते हैं। ",
  forcing_given_right: "वहाँ हर अनुमान वही है जो आगे आता है। ",
  forcing_given_wrong:
      "वहाँ {all} में से {n} अनुमान वे नहीं हैं जो आगे आते हैं। फिर भी दिया गया पाठ ही अंदर जाता है। ",
  forcing_from: "कदम {n} से मॉडल ख़ुद लिखता है",
  forcing_alone: "मॉडल ख़ुद लिखता है",
  forcing_likeliest: ": जो शब्द वह पढ़ता है, वही उसे सबसे संभावित लगा था।",
  forcing_unlikely: ": {all} में से {n} अनुमान वे नहीं हैं जो उसने लिखा। ",
  greedy_only:
      "Greedy search ने वह सबसे संभावित टोकन लिया जो लिखा जा सकता है (START, जैसे, नहीं लिखा जा सकता)।",
  greedy_same: "Greedy search, यानी beam 1, भी यही वाक्य लिखता है।",
  greedy_other: ({ended, width, verdict}) => `हर कदम पर सबसे संभावित लेने से “{text}” बनता है${
      ended ? "" : ", जो पूरा नहीं होता"}, अंक {own}। Beam search ने हर कदम पर ${
      width} तक वाक्य रखे और {best} अंक वाला लिखा, ${{
    ends: "जो पूरा होता है",
    better: "जो बेहतर है",
    worse: "जो यहाँ बेहतर नहीं है",
    equal: "जो उतना ही अच्छा है"
  }[verdict]}।`,

  // Beam search.
  beam: "Beam search",
  beam_title: "एक साथ कई वाक्य",
  beam_words:
      "हर कदम पर दौड़ में बचे सभी वाक्य आगे बढ़ते हैं और सबसे अच्छे रखे जाते हैं। मोटी रेखा जीती; खोखले बिंदु छोड़ दिए गए।",
  greedy: "Greedy search",
  greedy_title: "हर बार सबसे संभावित",
  greedy_words:
      "Beam 1 एक ही वाक्य रखता है और उसमें सबसे संभावित टुकड़ा जोड़ता है। खोखले बिंदु देखे गए और छोड़ दिए गए।",
  tree_label: "Beam search का पेड़",
  tree_picture: "Beam search, हर कदम पर {width} परिकल्पनाएँ (hypotheses); नतीजे नीचे दिए हैं",
  node: "{word}: प्रायिकता {chance}, स्कोर {score}, {fate}",
  kept: "रखा गया",
  finished: "पूरा हुआ",
  dropped: "छोड़ा गया",
  result: "स्कोर {score}, क्रम-अंक {rank}",
  result_cut: "स्कोर {score}, क्रम-अंक {rank}, अधूरा",
  results_words:
      "वाक्य का स्कोर उसके सभी टोकनों की log-प्रायिकताओं का योग है, END समेत। क्रम इसी से बनता है। 0 के जितना पास, उतना " +
      "अच्छा।",
  results_words_length:
      "वाक्य का स्कोर उसके सभी टोकनों की log-प्रायिकताओं का योग है, END समेत। क्रम के लिए इसे लंबाई की घात {power} " +
      "से भाग देते हैं; नहीं तो छोटे वाक्य छोटे होने से ही जीत जाते। 0 के जितना पास, उतना अच्छा।",

  // The tour.
  tour_forward: "आगे",
  tour_back: "पीछे",
  tour_done: "समाप्त",
  tour_leave: "परिचय छोड़ें",
  tour_start: "दो बार चलाया, फलन एक",
  tour_start_words:
      "यही डिकोडर इस वाक्य पर दो बार चला: एक बार जैसे training में, एक बार जैसे inference में। यहाँ दिखता है कि हर अंक " +
      "के बिट समान निकले या नहीं।",
  tour_training: "Training: सारी पंक्तियाँ एक साथ",
  tour_training_words:
      "हर पंक्ति एक टोकन है जो अंदर जाता है; उसके खाने बताते हैं कि वह किस टोकन को कितना देखता है। सब पंक्तियाँ एक " +
      "ही कॉल में निकलती हैं। −∞ वाले खाने मास्क ने छिपाए हैं।",
  tour_inference: "Inference: हर कॉल में एक पंक्ति",
  tour_inference_words:
      "यहाँ पंक्तियाँ एक-एक करके आती हैं, क्योंकि अगला टोकन अभी पता नहीं। तीर की कुंजियों से आगे बढ़िए। बराबर का " +
      "चिह्न: पंक्ति के बिट वही हैं जो training में थे।",
  tour_mask: "मास्क न हो तो?",
  tour_mask_words:
      "अब मास्क हटा है। Training में हर पंक्ति बाद के शब्द देख रही है: लाल खाने। किसी पंक्ति के बिट अब समान नहीं, क्योंकि " +
      "inference उन्हें देख ही नहीं सकता।",
  tour_cell: "एक खाने का हिसाब",
  tour_cell_words:
      "किसी भी खाने पर क्लिक कीजिए और यहाँ उसका हिसाब देखिए: query गुणा key, √d से भाग, जमा मास्क, softmax, गुणा " +
      "value। हर अंक इसी मॉडल का है।",
  tour_stages: "Attention के आगे",
  tour_stages_words:
      "एक परत में टोकन के साथ और क्या होता है: embedding और स्थान, हर उप-परत (sub-layer) ने क्या जोड़ा, norm, और " +
      "feed-forward।",
  tour_next: "आगे क्या आएगा",
  tour_next_words:
      "आख़िरी सदिश से अगले टोकन की प्रायिकताएँ बनती हैं। तापमान (temperature) उन्हें तीखा या सपाट करता है।",
  tour_end: "शब्दों से शब्दों तक",
  tour_end_words:
      "Beam search कई वाक्य साथ रखता है और सबसे अच्छा चुनता है। शब्दों से शब्दों तक का पूरा रास्ता यही है। अब ख़ुद एक-एक " +
      "कदम चलकर देखिए।",

  // How it was made.
  how_made: "यह पृष्ठ कैसे बना",
  how_compared: ({differing, apart}) =>
      "हर attention की query, key, value और contextual embedding, डिकोडर की परतों के " +
      "नतीजे, उसकी अंतिम स्थितियाँ और सारे logits: यह पृष्ठ लिखते समय training पास के {compared} अंक एक-एक कदम वाले पास के अंकों से " +
      `बिट-दर-बिट मिलाए गए। ${differing === 0 ? "कोई अलग नहीं" : `${grouped(differing)} अलग हैं`}। ` +
      (apart === 0 ? "जिन अंकों के बिट समान हैं वे एक ही बार रखे हैं, और दोनों ओर उन्हीं से बने हैं।" :
                     `एक-एक कदम वाले पास के ${apart} attention अलग से रखे हैं; दाईं ओर उन्हीं से बनी है।`),
  how_exact:
      "Query, key और value इंजन के अपने अंक हैं, हर बिट के साथ। इंजन भारों का मैट्रिक्स कभी नहीं रखता; यह पृष्ठ उन्हें " +
      "पाठ्यपुस्तक के सूत्र से निकालता है। सूत्र जाँचा गया: उससे निकले contextual embedding के {contexts} अंक इंजन के अंकों से अधिक से " +
      "अधिक {difference} अलग हैं, fp32 की अनुमत त्रुटि का {share}%।",
  how_rounded:
      "वाक्य लंबा है, इसलिए query, key और value इंजन के अंक हैं पर हर सदिश के सबसे बड़े अंक के सोलह बिट तक: उनसे बने भार " +
      "अधिक से अधिक {loss} अलग हैं। इंजन भारों का मैट्रिक्स कभी नहीं रखता; यह पृष्ठ उन्हें पाठ्यपुस्तक के सूत्र से निकालता है। सूत्र पूरे अंकों पर " +
      "जाँचा गया: उससे निकले contextual embedding के {contexts} अंक इंजन के अंकों से अधिक से अधिक {difference} अलग हैं, fp32 की " +
      "अनुमत त्रुटि का {share}%।",
  how_proof:
      "यह एक ही वाक्य है। प्रशिक्षण और अनुमान हर भार और हर टोकन के लिए एक ही फलन हैं, यह `tril prove` अपने खंड 5 में दिखाता है; प्रमाण " +
      "मार्गदर्शिका के पृष्ठ 11 पर है, `docs/guide/11-proof.md`।",
  how_keys:
      "कुंजियाँ: `←` और `→` एक कदम, `Space` चलाता है, `Home` और `End` सिरों पर ले जाते हैं। मैट्रिक्स में तीर एक खाने से दूसरे पर ले " +
      "जाते हैं और `Enter` पूरा हिसाब खोलता है। यह पृष्ठ किसी नेटवर्क से कुछ नहीं माँगता।",
};
