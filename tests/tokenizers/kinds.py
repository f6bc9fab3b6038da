"""Small tokenizers of every kind, learnt from lines and written as Hugging Face folders, each with what
transformers (or the library under it) makes of a line. Used by compare.py and make_fixtures.py.

    python3 -m venv /tmp/tokenizers && /tmp/tokenizers/bin/pip install \
        tokenizers==0.23.3 transformers==5.23.0 sentencepiece==0.2.1 protobuf==7.36.2
"""

import json
import os
import re
import shutil

import sentencepiece
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
import transformers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


SMALL_RULES = []


def use_small_rules(path):
    """A file of rules in place of SentencePiece's own, which take 240 kB; and few languages of NLLB."""
    SMALL_RULES.append(path)


class Kind:
    """A folder and how the others tokenize with it: functions from lines to ids, or to texts."""

    def __init__(self, folder, family, source, target, decode, languages=None):
        self.folder = folder
        self.family = family
        self.source = source  # all that an encoder reads
        self.target = target  # all that a decoder writes
        self.decode = decode  # the text of a line's pieces, without special tokens
        self.languages = languages or []


def sentencepiece_model(path, lines, size, **options):
    arguments = dict(model_type="unigram", vocab_size=size, character_coverage=0.995,
                     hard_vocab_limit=False, minloglevel=2, num_threads=2)
    arguments.update(options)
    if SMALL_RULES and arguments.get("normalization_rule_name") != "identity":
        arguments.pop("normalization_rule_name", None)
        arguments["normalization_rule_tsv"] = SMALL_RULES[0]
    with open(path, "wb") as file:
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=file, **arguments)
    return sentencepiece.SentencePieceProcessor(model_file=path)


def pieces_of(processor):
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False)


def from_transformers(folder, family, tokenizer, languages=None):
    """A kind whose oracle is a tokenizer of transformers."""
    def source(lines):
        return tokenizer(lines).input_ids

    def target(lines):
        return tokenizer(text_target=lines).input_ids

    def decoded(lines):
        ids = tokenizer(text_target=lines, add_special_tokens=False).input_ids
        return tokenizer.batch_decode(ids, skip_special_tokens=True)

    return Kind(folder, family, source, target, decoded, languages)


def from_library(folder, family, end):
    """A kind whose oracle is the library tokenizers, for a decoder without an encoder."""
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))

    def bare(lines):
        return [encoded.ids for encoded in tokenizer.encode_batch(lines, add_special_tokens=False)]

    return Kind(folder, family, lambda lines: [encoded.ids for encoded in tokenizer.encode_batch(lines)],
                lambda lines: [[*ids, end] for ids in bare(lines)],
                lambda lines: tokenizer.decode_batch(bare(lines), skip_special_tokens=True))


def marian(folder, lines, size):
    half = len(lines) // 2
    source = sentencepiece_model(f"{folder}/source.spm", lines[:half], size)
    target = sentencepiece_model(f"{folder}/target.spm", lines[half:], size)
    specials = ["</s>", "<unk>"]
    pieces = specials + sorted((set(pieces_of(source)) | set(pieces_of(target))) - {"<s>", *specials})
    del pieces[7]  # a piece that vocab.json does not have
    pieces += [">>fra<<", ">>deu<<", "<pad>"]
    write_json(folder, "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    write_json(folder, "tokenizer_config.json", {"source_lang": "eng", "target_lang": "mul"})
    return from_transformers(folder, "marian", transformers.MarianTokenizer.from_pretrained(folder))


def marian_separate(folder, lines, size):
    half = len(lines) // 2
    for side, part, vocab in [("source", lines[:half], "vocab"), ("target", lines[half:], "target_vocab")]:
        processor = sentencepiece_model(f"{folder}/{side}.spm", part, size)
        pieces = ["</s>", "<unk>"] + [p for p in pieces_of(processor) if p not in ("</s>", "<unk>", "<s>")]
        pieces.insert(2, "<pad>")
        write_json(folder, vocab + ".json", {piece: i for i, piece in enumerate(pieces)})
    write_json(folder, "tokenizer_config.json", {"separate_vocabs": True})
    return from_transformers(folder, "marian", transformers.MarianTokenizer.from_pretrained(folder))


def m2m100(folder, lines, size):
    processor = sentencepiece_model(f"{folder}/sentencepiece.bpe.model", lines, size, model_type="bpe")
    pieces = ["<s>", "<pad>", "</s>", "<unk>"] + pieces_of(processor)[3:]
    write_json(folder, "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    codes = transformers.models.m2m_100.tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
    write_json(folder, "special_tokens_map.json", {"additional_special_tokens": [f"__{c}__" for c in codes]})
    tokenizer = transformers.M2M100Tokenizer.from_pretrained(folder, src_lang="en", tgt_lang="fr")
    return from_transformers(folder, "m2m_100", tokenizer, ["en", "fr"])


def from_slow(folder, family, processor, specials, number, before=(), after=(), target_before=None, join=True,
              languages=None):
    """A kind whose oracle is written out here: SentencePiece and the ids that its pieces get, as the slow
    tokenizers of transformers 4 did it. `specials` are ids by text, `number` is a piece's id."""
    pattern = re.compile("(" + "|".join(re.escape(s) for s in sorted(specials, key=len, reverse=True)) + ")")

    def bare(line):
        ids = []
        parts = [part for part in pattern.split(line)]
        for i, part in enumerate(parts):
            if i % 2:
                ids.append(specials[part])
                continue
            if i + 1 < len(parts) and parts[i + 1] == "<mask>":
                part = re.sub(r"\s+$", "", part)
            ids += [number(n) for n in processor.encode(part)] if part else []
        return ids

    pieces = {number(i): processor.id_to_piece(i) for i in range(processor.get_piece_size())}
    unwritten = set(specials.values())

    def decoded(line):
        words = [pieces[i] for i in bare(line) if i not in unwritten]
        return ("".join(words).replace("▁", " ") if join else processor.decode_pieces(words)).strip()

    first = list(before if target_before is None else target_before)
    last = 2 if languages else after[-1]
    return Kind(folder, family, lambda lines: [[*before, *bare(line), *after] for line in lines],
                lambda lines: [[*first, *bare(line), last] for line in lines],
                lambda lines: [decoded(line) for line in lines], languages)


def fairseq_specials(processor, codes):
    specials = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    specials.update({code: processor.get_piece_size() + 1 + i for i, code in enumerate(codes)})
    specials["<mask>"] = processor.get_piece_size() + 1 + len(codes)
    return specials


def nllb_spm(folder, lines, size):
    processor = sentencepiece_model(f"{folder}/sentencepiece.bpe.model", lines, size, model_type="bpe",
                                    normalization_rule_name="nmt_nfkc")
    specials = fairseq_specials(processor, transformers.models.nllb.tokenization_nllb.FAIRSEQ_LANGUAGE_CODES)
    return from_slow(folder, "m2m_100", processor, specials, lambda n: n + 1 if n else 3, [specials["eng_Latn"]], [2],
                     [specials["fra_Latn"]], languages=["eng_Latn", "fra_Latn"])


def mbart_spm(folder, lines, size, fifty):
    processor = sentencepiece_model(f"{folder}/sentencepiece.bpe.model", lines, size,
                                    normalization_rule_name="nmt_nfkc")
    module = transformers.models.mbart50.tokenization_mbart50 if fifty else transformers.models.mbart.tokenization_mbart
    specials = fairseq_specials(processor, module.FAIRSEQ_LANGUAGE_CODES)
    write_json(folder, "tokenizer_config.json", {"tokenizer_class": "MBart50Tokenizer" if fifty else "MBartTokenizer"})
    source, target = specials["en_XX"], specials["ro_RO"]
    layout = ([source], [2], [target]) if fifty else ([], [2, source], [])
    return from_slow(folder, "mbart", processor, specials, lambda n: n + 1 if n else 3, *layout,
                     languages=["en_XX", "ro_RO"])


def t5_spm(folder, lines, size):
    processor = sentencepiece_model(f"{folder}/spiece.model", lines, size, normalization_rule_name="nmt_nfkc", pad_id=0,
                                    eos_id=1, unk_id=2, bos_id=-1, user_defined_symbols=["<sep>", "<sepia>"])
    specials = {"<pad>": 0, "</s>": 1, "<unk>": 2}
    specials.update({f"<extra_id_{i}>": processor.get_piece_size() + 99 - i for i in range(100)})
    return from_slow(folder, "t5", processor, specials, lambda n: n, [], [1], join=False)


def pegasus_spm(folder, lines, size):
    processor = sentencepiece_model(f"{folder}/spiece.model", lines, size, normalization_rule_name="nmt_nfkc", pad_id=0,
                                    eos_id=1, unk_id=2, bos_id=-1)
    specials = {"<pad>": 0, "</s>": 1, "<mask_1>": 2, "<mask_2>": 3, "<unk>": 105}
    specials.update({f"<unk_{i}>": i + 2 for i in range(2, 103)})
    return from_slow(folder, "pegasus", processor, specials, lambda n: n + 103, [], [1], join=False)


def saved(folder, tokenizer):
    """What transformers writes, and nothing else."""
    for name in os.listdir(folder):
        os.remove(os.path.join(folder, name))
    tokenizer.save_pretrained(folder)


def nllb(folder, lines, size, legacy=False):
    path = f"{folder}/sentencepiece.bpe.model"
    sentencepiece_model(path, lines, size, model_type="bpe", normalization_rule_name="nmt_nfkc")
    codes = transformers.models.nllb.tokenization_nllb.FAIRSEQ_LANGUAGE_CODES
    options = {"src_lang": "eng_Latn", "tgt_lang": "fra_Latn", "legacy_behaviour": legacy}
    if SMALL_RULES:
        codes = ["eng_Latn", "fra_Latn", "hin_Deva"]
    write_json(folder, "tokenizer_config.json", {"extra_special_tokens": codes})
    tokenizer = transformers.NllbTokenizer.from_pretrained(folder, **options)
    saved(folder, tokenizer)
    tokenizer = transformers.NllbTokenizer.from_pretrained(folder, **options)
    kind = from_transformers(folder, "m2m_100", tokenizer, ["eng_Latn", "fra_Latn"])
    if legacy:  # training in the old way predicts the language after END; tril puts it first
        french = tokenizer.convert_tokens_to_ids("fra_Latn")
        kind.target = lambda lines: [[french, *ids, 2]
                                     for ids in tokenizer(lines, add_special_tokens=False).input_ids]
    return kind


def mbart(folder, lines, size, fifty=False):
    path = f"{folder}/sentencepiece.bpe.model"
    sentencepiece_model(path, lines, size, normalization_rule_name="nmt_nfkc")
    make = transformers.MBart50Tokenizer if fifty else transformers.MBartTokenizer
    options = {"src_lang": "en_XX", "tgt_lang": "ro_RO"}
    tokenizer = make.from_pretrained(folder, **options)
    saved(folder, tokenizer)
    tokenizer = make.from_pretrained(folder, **options)
    kind = from_transformers(folder, "mbart", tokenizer, ["en_XX", "ro_RO"])
    if not fifty:  # START is the language
        kind.target = lambda lines: [[*ids, 2] for ids in tokenizer(lines, add_special_tokens=False).input_ids]
    return kind


def t5(folder, lines, size, **options):
    path = f"{folder}/spiece.model"
    sentencepiece_model(path, lines, size, normalization_rule_name="nmt_nfkc", pad_id=0, eos_id=1, unk_id=2,
                        bos_id=-1, **options)
    tokenizer = transformers.T5Tokenizer.from_pretrained(folder, extra_ids=3 if SMALL_RULES else 100)
    saved(folder, tokenizer)
    return from_transformers(folder, "t5", transformers.T5Tokenizer.from_pretrained(folder))


def pegasus(folder, lines, size):
    # As the converter of transformers writes a tokenizer.json.
    path = f"{folder}/spiece.model"
    processor = sentencepiece_model(path, lines, size, normalization_rule_name="nmt_nfkc", pad_id=0, eos_id=1,
                                    unk_id=2, bos_id=-1)
    vocab = [("<pad>", 0.0), ("</s>", 0.0), ("<mask_1>", 0.0), ("<mask_2>", 0.0)]
    vocab += [(f"<unk_{i}>", -100.0) for i in range(2, 103)]
    vocab += [(processor.id_to_piece(i), processor.get_score(i)) for i in range(2, processor.get_piece_size())]
    tokenizer = tokenizers.Tokenizer(models.Unigram(vocab, unk_id=105))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(charsmap(path)), normalizers.Strip(left=False, right=True),
        normalizers.Replace(tokenizers.Regex(" {2,}"), "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)])
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["$A", "</s>"], pair=["$A", "$B", "</s>"], special_tokens=[("</s>", 1)])
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>", "<mask_1>", "<mask_2>"])
    os.remove(path)
    tokenizer.save(f"{folder}/tokenizer.json")
    return from_library(folder, "pegasus", end=1)


def charsmap(path):
    from sentencepiece import sentencepiece_model_pb2
    model = sentencepiece_model_pb2.ModelProto()
    with open(path, "rb") as file:
        model.ParseFromString(file.read())
    return model.normalizer_spec.precompiled_charsmap


def llama_merges(folder, lines, size, **options):
    path = f"{folder}/tokenizer.model"
    sentencepiece_model(path, lines, size, model_type="bpe", byte_fallback=True, remove_extra_whitespaces=False,
                        normalization_rule_name="identity", **options)
    extractor = transformers.tokenization_utils_sentencepiece.SentencePieceExtractor(path)
    vocab, _, merges = extractor.extract()
    os.remove(path)
    return vocab, merges


def llama(folder, lines, size, legacy=True):
    """As the converter of transformers 4 wrote it (legacy), and with Metaspace, as it did later."""
    vocab, merges = llama_merges(folder, lines, size)
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True,
                                                byte_fallback=True))
    if legacy:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(content=" ", left=1, right=0)])
    tokenizer.add_special_tokens([tokenizers.AddedToken(t, normalized=False, special=True)
                                  for t in ("<unk>", "<s>", "</s>")])
    # Words that somebody added, with every property.
    tokenizer.add_tokens([tokenizers.AddedToken("<tool>", lstrip=True, normalized=False),
                          tokenizers.AddedToken("<end of tool>", rstrip=True, normalized=False),
                          tokenizers.AddedToken("theory", single_word=True, normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["<s>", "$A"], pair=["<s>", "$A", "<s>", "$B"], special_tokens=[("<s>", vocab["<s>"])])
    tokenizer.save(f"{folder}/tokenizer.json")
    return from_library(folder, "llama", end=vocab["</s>"])


def byte_level(folder, lines, size, pattern=None, specials=("<|endoftext|>",), add_prefix_space=False):
    tokenizer = tokenizers.Tokenizer(models.BPE())
    if pattern is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(specials), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def gpt2(folder, lines, size, files=False):
    tokenizer = byte_level(folder, lines, size)
    if files:
        tokenizer.model.save(folder)
        loaded = transformers.GPT2Tokenizer.from_pretrained(folder)
        return Kind(folder, "gpt2", lambda lines: loaded(lines).input_ids,
                    lambda lines: [[*ids, 0] for ids in loaded(lines).input_ids],
                    lambda lines: loaded.batch_decode(loaded(lines).input_ids, skip_special_tokens=True))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.save(f"{folder}/tokenizer.json")
    return from_library(folder, "gpt2", end=0)


def llama3(folder, lines, size, pattern=LLAMA3, ignore_merges=True):
    tokenizer = byte_level(folder, lines, size, pattern, ("<|begin_of_text|>", "<|end_of_text|>"))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single=["<|begin_of_text|>", "$A"],
                                      pair=["<|begin_of_text|>", "$A", "<|begin_of_text|>", "$B"],
                                      special_tokens=[("<|begin_of_text|>", 0)])])
    tokenizer.model.ignore_merges = ignore_merges
    tokenizer.save(f"{folder}/tokenizer.json")
    write_json(folder, "tokenizer_config.json", {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"})
    return from_library(folder, "llama", end=1)


def bart(folder, lines, size, files=False):
    tokenizer = byte_level(folder, lines, size, specials=("<s>", "<pad>", "</s>", "<unk>", "<mask>"))
    tokenizer.model.save(folder)
    loaded = transformers.BartTokenizer.from_pretrained(folder)
    if not files:
        saved(folder, loaded)
        loaded = transformers.BartTokenizer.from_pretrained(folder)
    return from_transformers(folder, "bart", loaded)


KINDS = {
    "marian": marian,
    "marian_separate": marian_separate,
    "m2m100": m2m100,
    "nllb": nllb,
    "nllb_legacy": lambda *a: nllb(*a, legacy=True),
    "nllb_spm": nllb_spm,
    "mbart25_spm": lambda *a: mbart_spm(*a, fifty=False),
    "mbart50_spm": lambda *a: mbart_spm(*a, fifty=True),
    "t5_spm": t5_spm,
    "pegasus_spm": pegasus_spm,
    "mbart25": mbart,
    "mbart50": lambda *a: mbart(*a, fifty=True),
    "t5": t5,
    "t5_bytes": lambda *a: t5(*a, byte_fallback=True),
    "pegasus": pegasus,
    "llama": llama,
    "llama_metaspace": lambda *a: llama(*a, legacy=False),
    "llama3": llama3,
    "qwen2": lambda *a: llama3(*a, pattern=QWEN2, ignore_merges=False),
    "gpt2": gpt2,
    "gpt2_files": lambda *a: gpt2(*a, files=True),
    "gpt2_split": lambda *a: llama3(*a, pattern=GPT2),
    "bart": bart,
    "bart_files": lambda *a: bart(*a, files=True),
}


def make(name, folder, lines, size):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return KINDS[name](folder, lines, size)
