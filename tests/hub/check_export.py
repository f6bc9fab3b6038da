#!/usr/bin/env python3
"""Loads what tril exports with transformers, and compares what it computes there.

    check_export.py TRIL MAKE_MODEL

TRIL is the program, MAKE_MODEL makes models of tril's own. Imported models (make_models.py) must have the very logits
of the folder they came from; exported in fp32, too. Fine-tuned ones must have others, and, where TUNED says so,
give the token ids and, within rounding, the log-probabilities that `tril score` prints. So must models
that tril made, which must also write what `tril translate` writes. Exits with 77 where transformers is missing.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import sentencepiece  # noqa: F401, which MarianTokenizer needs
    import torch
    import transformers
except ImportError as error:
    print(f'skipped: {error}', file=sys.stderr)
    sys.exit(77)

torch.set_num_threads(1)
TESTS = pathlib.Path(__file__).resolve().parent.parent
IMPORTED = {'bart_long': 'bart', 'bart_shards': 'bart', 'gpt2': 'gpt2_files', 'llama': 'llama', 'llama_tied': 'llama3',
            'm2m_100': 'nllb', 'marian': 'marian', 'marian_separate': 'marian_separate', 'mbart': 'mbart25',
            'mistral': 'llama', 'pegasus': 'marian'}
# Fine-tuned as well: with these languages, and whether scores are compared, for which transformers must find the
# tokenizer by the kind of model alone.
TUNED = {'bart_long': ([], True), 'gpt2': ([], False), 'llama': ([], True), 'llama_tied': ([], True),
         'm2m_100': (['--from-language', 'eng_Latn', '--to-language', 'fra_Latn'], False), 'marian': ([], True),
         'marian_separate': ([], True), 'mbart': (['--from-language', 'en_XX', '--to-language', 'ro_RO'], False),
         'mistral': ([], True), 'pegasus': ([], False)}
OURS = {'translate': 'MarianMTModel', 'pre': 'PegasusForConditionalGeneration', 'llama': 'LlamaForCausalLM',
        'mistral': 'MistralForCausalLM'}
SOURCES = ['how are you', 'where  are they going?', 'मैं ठीक हूँ 😀', 'the theory']
TARGETS = ['I am fine, thank you', 'they gathered', 'ठीक', 'a b  c']
TOLERANCE = 1e-4  # of a sum of log-probabilities, computed in fp32 in another order


def run(*arguments, text=None):
    done = subprocess.run([str(a) for a in arguments], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f'{" ".join(str(a) for a in arguments)}: {done.stderr}')
    return done.stdout


def load(folder, dtype=torch.float32):
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0])
    return kind.from_pretrained(folder, dtype=dtype).eval()


def logits(model):
    tokens = torch.tensor([[4, 17, 30, 9, 50]])
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            return model(input_ids=tokens, decoder_input_ids=tokens[:, :4]).logits
        return model(input_ids=tokens).logits


def check(holds, what):
    if not holds:
        sys.exit(f'FAILED: {what}')


def check_imported(tril, scratch):
    for name, tokenizer in IMPORTED.items():
        theirs = scratch / name
        shutil.copytree(TESTS / 'hub/models' / name, theirs)
        (theirs / 'expected.safetensors').unlink(missing_ok=True)
        for file in (TESTS / 'tokenizers/fixtures' / tokenizer).iterdir():
            if file.name != 'cases.json':
                shutil.copy(file, theirs)
        ours, again, exact = (scratch / f'{name}.{kind}' for kind in ('ours', 'again', 'fp32'))
        run(tril, 'import', theirs, '-o', ours)
        run(tril, 'export', ours, '-o', again)
        run(tril, 'export', ours, '-o', exact, '--type', 'fp32')
        right = logits(load(theirs))
        check(torch.equal(right, logits(load(again))), f'{name}: other logits')
        check(torch.equal(right, logits(load(exact, 'auto'))), f'{name} in fp32: other logits')
        print(f'{name}: the same logits')
        check_tuned(tril, scratch, name, ours, right)


def text_files(scratch, decoder_only):
    files = []
    for name, lines in (('source', SOURCES), ('target', TARGETS)):
        (scratch / name).write_text(''.join(line + '\n' for line in lines))
        files += [f'--{name}', scratch / name]
    return files[2:] if decoder_only else files


def check_tuned(tril, scratch, name, ours, before):
    if name not in TUNED:
        return
    languages, compare = TUNED[name]
    alone = not load(ours.parent / name).config.is_encoder_decoder
    tuned, theirs = scratch / f'{name}.tuned', scratch / f'{name}.tuned.theirs'
    files = text_files(scratch, alone)
    text = ['--text', scratch / 'target'] if alone else files
    run(tril, 'train', '--from', ours, *text, *languages, '--updates', 5, '--rate', 0.01, '--batch-tokens', 512,
        '--threads', 1, '-o', tuned)
    run(tril, 'export', tuned, '-o', theirs, '--type', 'fp32')
    model = load(theirs)
    after = logits(model)
    check(bool(torch.isfinite(after).all()) and not torch.allclose(before, after, atol=1e-2),
          f'{name} tuned: logits as before')
    if compare:
        check_scores(tril, f'{name} tuned', tuned, model, transformers.AutoTokenizer.from_pretrained(theirs), files)
    print(f'{name} tuned: loaded' + (', the same ids and scores' if compare else ''))


def scores_there(model, tokenizer, source, target):
    """The ids of the target with END, and their log-probabilities."""
    end = model.config.eos_token_id
    if model.config.is_encoder_decoder:
        inputs = tokenizer(source, return_tensors='pt').input_ids
        ids = tokenizer(text_target=target).input_ids
        given = torch.tensor([[model.config.decoder_start_token_id] + ids[:-1]])
        with torch.no_grad():
            rows = model(input_ids=inputs, decoder_input_ids=given).logits[0]
    else:
        given = tokenizer(target).input_ids
        ids = given[1:] + [end]
        with torch.no_grad():
            rows = model(input_ids=torch.tensor([given])).logits[0]
    log_probs = torch.log_softmax(rows.double(), -1)
    return ids, sum(float(log_probs[i, token]) for i, token in enumerate(ids))


def check_scores(tril, what, ours, model, tokenizer, files):
    lines = run(tril, 'score', ours, *files, '--json', '--threads', 1).splitlines()
    for line, source, target in zip(lines, SOURCES, TARGETS, strict=True):
        here = json.loads(line)
        ids, score = scores_there(model, tokenizer, source, target)
        check(ids == here['ids'], f'{what}: {target!r} is {ids} there, {here["ids"]} here')
        check(abs(score - here['score']) < TOLERANCE, f'{what}: {target!r}: {score}, {here["score"]} here')


def check_ours(tril, make_model, scratch):
    for kind, architecture in OURS.items():
        ours, theirs = scratch / f'own.{kind}', scratch / f'own.{kind}.theirs'
        run(make_model, ours, kind)
        run(tril, 'export', ours, '-o', theirs)
        model, tokenizer = load(theirs), transformers.AutoTokenizer.from_pretrained(theirs)
        check(type(model).__name__ == architecture, f'{kind}: a {type(model).__name__}')
        check_scores(tril, kind, ours, model, tokenizer, text_files(scratch, not model.config.is_encoder_decoder))
        if model.config.is_encoder_decoder:
            text = ''.join(line + '\n' for line in SOURCES)
            written = run(tril, 'translate', ours, '--beam', 1, '--max-tokens', 12, '--ids', text=text)
            for line, source in zip(written.splitlines(), SOURCES, strict=True):
                inputs = tokenizer(source, return_tensors='pt').input_ids
                there = model.generate(input_ids=inputs, max_new_tokens=12, num_beams=1, do_sample=False)[0, 1:].tolist()
                here = [int(token) for token in line.split('\t')[-1].split()]
                check(here == there, f'{kind}: {source!r}: {there} there, {here} here')
        print(f'{kind}: {architecture}, the same ids and scores')


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as folder:
        check_imported(sys.argv[1], pathlib.Path(folder))
        check_ours(sys.argv[1], sys.argv[2], pathlib.Path(folder))
