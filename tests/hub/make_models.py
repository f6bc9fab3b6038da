#!/usr/bin/env python3
"""Writes the folders of tests/hub/models: tiny random models as transformers saves them, and what it computes with them.

    pip install 'torch==2.15.0' 'transformers==5.23.0' 'safetensors==0.8.0'
    python make_models.py           # or the names of some

Each folder holds config.json, generation_config.json and weights as save_pretrained() writes them. Tokenizers
are those of tests/tokenizers/fixtures. expected.safetensors has, for every case, the ids of source and target and the
tokens of generate(): greedy, and with four beams; for some of them also the logits in float64.
"""
import pathlib
import shutil
import sys
import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
CASES = 24
WITH_LOGITS = (0, 5, 11)
SHARED = dict(d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
              encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=64, dropout=0.0, init_std=0.35)
T5_SHARED = dict(vocab_size=168, d_model=16, d_kv=6, d_ff=24, num_layers=2, num_decoder_layers=2, num_heads=3,
                 relative_attention_num_buckets=8, relative_attention_max_distance=20, dropout_rate=0.0,
                 pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
MODELS = {
    # name: classes, fields of the configuration, type of the stored weights, how likely END is
    'marian': ('Marian', dict(vocab_size=160, pad_token_id=156, eos_token_id=0, decoder_start_token_id=156,
                              activation_function='swish', scale_embedding=True), torch.float32, 5.0),
    'pegasus': ('Pegasus', dict(vocab_size=90, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
                                activation_function='relu', scale_embedding=True), torch.float32, 1.9),
    'm2m_100': ('M2M100', dict(vocab_size=110, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2,
                               activation_function='relu', scale_embedding=True), torch.float16, 1.4),
    'bart': ('Bart', dict(vocab_size=100, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2,
                          activation_function='gelu'), torch.float32, 5.0),
    'mbart': ('MBart', dict(vocab_size=100, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2,
                            activation_function='gelu', scale_embedding=True), torch.bfloat16, 4.0),
    # The first T5: one matrix, hidden states scaled before it. 1.1 and mT5: gated, two matrices, nothing scaled.
    't5': ('T5', dict(feed_forward_proj='relu'), torch.float32, 2.5),
    't5_v1_1': ('T5', dict(feed_forward_proj='gated-gelu', tie_word_embeddings=False), torch.float32, 1.7),
    'mt5': ('MT5', dict(num_layers=3), torch.bfloat16, 2.2),
}


def draw_t5(model, name):
    """Weights with a spread that lets everything matter; T5's own beginning is nearly flat."""
    if name != 't5':
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
    with torch.no_grad():
        for tensor, parameter in model.named_parameters():
            deviation = (1.0 if 'relative_attention_bias' in tensor else 0.6 if 'lm_head' in tensor else
                         2.0 if 'shared' in tensor else 0.28)
            if parameter.dim() == 2:
                parameter.normal_(0, deviation)


def make(name, classes, fields, dtype, ends):
    is_t5 = 'T5' in classes
    shared = T5_SHARED if is_t5 else {**SHARED, 'forced_eos_token_id': None}
    config = getattr(transformers, classes + 'Config')(**{**shared, **fields})
    torch.manual_seed(len(name))
    main = 'MarianMTModel' if classes == 'Marian' else classes + 'ForConditionalGeneration'
    model = getattr(transformers, main)(config).eval()
    if is_t5:
        draw_t5(model, name)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # norms and biases must matter
                parameter.add_(torch.randn_like(parameter) * 0.2)
        if hasattr(model, 'final_logits_bias'):
            model.final_logits_bias.normal_(0, 0.5)
            model.final_logits_bias[0, config.eos_token_id] = ends
        elif is_t5:
            model.lm_head.weight[config.eos_token_id] *= ends
        else:
            model.model.shared.weight[config.eos_token_id] *= ends
    folder = HERE / 'models' / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(dtype).save_pretrained(folder)
    model = getattr(transformers, main).from_pretrained(folder, dtype=torch.float64).eval()
    expected = {}
    end, start, vocab = config.eos_token_id, config.decoder_start_token_id, config.vocab_size
    for case in range(CASES):
        ids = torch.randint(3, vocab - 2, (2, 2 + 2 * case))
        source = torch.cat([ids[0, : 1 + case], torch.tensor([end])])
        target = torch.cat([torch.tensor([start]), ids[1]])
        with torch.no_grad():
            logits = model(input_ids=source[None], decoder_input_ids=target[None]).logits[0]
            common = dict(input_ids=source[None], max_new_tokens=30, do_sample=False, length_penalty=1.0)
            greedy = model.generate(**common, num_beams=1)[0, 1:]
            beam = model.generate(**common, num_beams=4, early_stopping=True)[0, 1:]
        for what, value in dict(source=source, target=target, logits=logits, greedy=greedy, beam=beam).items():
            if what != 'logits' or case in WITH_LOGITS:
                expected[f'{case:02}.{what}'] = value.contiguous()
    save_file(expected, folder / 'expected.safetensors')
    print(name, sum(p.numel() for p in model.parameters()), [int(expected[f'{c:02}.beam'].numel()) for c in range(CASES)])


if __name__ == '__main__':
    for name, how in MODELS.items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make(name, *how)
