#!/usr/bin/env python3
"""Writes the folders of tests/hub/models: tiny random models as transformers saves them, and what it computes with them.

    pip install 'torch==2.15.0' 'transformers==5.23.0' 'safetensors==0.8.0'
    python make_models.py [NAME ...]

Each folder holds config.json, generation_config.json and weights as save_pretrained() writes them. Tokenizers
are those of tests/tokenizers/fixtures. expected.safetensors has the ids of source and target of every case and the
tokens of generate(), greedy and with four beams, one after the other with their lengths; for some cases also the
logits in float64. Models with 1,000 positions also have the last logits of one long case, whose tokens are
(7 i + 3) mod (vocab - 8) + 4.
"""
import pathlib
import shutil
import sys
import torch
import transformers
from safetensors.torch import save_file

torch.set_num_threads(1)  # for such small models threads only cost time
HERE = pathlib.Path(__file__).resolve().parent
CASES = 100
WITH_LOGITS = (0, 5, 11)
LONG = 1000
LAST = 2  # of so many rows logits are kept
SHARED = dict(d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
              encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=1024, dropout=0.0, init_std=0.35)
BART = dict(vocab_size=332, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2,
            activation_function='gelu', max_position_embeddings=64)
LLAMA = dict(vocab_size=404, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=1024, bos_token_id=1, eos_token_id=2, initializer_range=0.4)
T5 = dict(vocab_size=168, d_model=16, d_kv=6, d_ff=24, num_layers=2, num_decoder_layers=2, num_heads=3,
          relative_attention_num_buckets=8, relative_attention_max_distance=20, dropout_rate=0.0, pad_token_id=0,
          eos_token_id=1, decoder_start_token_id=0)
MODELS = {
    # name: classes, fields of the configuration, type of the stored weights, how likely END is
    'marian': ('MarianMTModel', dict(SHARED, vocab_size=160, pad_token_id=156, eos_token_id=0, decoder_start_token_id=156,
                              activation_function='swish', scale_embedding=True, max_position_embeddings=64), torch.float32, 5.0),
    'marian_separate': ('MarianMTModel', dict(SHARED, vocab_size=72, decoder_vocab_size=106, pad_token_id=3, eos_token_id=0,
                        decoder_start_token_id=3, share_encoder_decoder_embeddings=False, activation_function='relu',
                        scale_embedding=True), torch.float16, 5.0),
    'pegasus': ('PegasusForConditionalGeneration', dict(SHARED, vocab_size=160, pad_token_id=156, eos_token_id=0,
                                decoder_start_token_id=156, activation_function='relu', scale_embedding=True), torch.float32, 4.0),
    'm2m_100': ('M2M100ForConditionalGeneration', dict(SHARED, vocab_size=196, pad_token_id=1, bos_token_id=0, eos_token_id=2,
                decoder_start_token_id=2, activation_function='relu', scale_embedding=True), torch.float16, 1.5),
    'bart': ('BartForConditionalGeneration', dict(SHARED, **dict(BART, vocab_size=100)), torch.float32, 5.0),
    'bart_long': ('BartForConditionalGeneration', dict(SHARED, **dict(BART, max_position_embeddings=1024), d_model=8,
                  encoder_layers=1, decoder_layers=1), torch.float16, 2.5),
    'mbart': ('MBartForConditionalGeneration', dict(SHARED, **dict(BART, max_position_embeddings=1024), scale_embedding=True),
              torch.bfloat16, 2.0),
    'gpt2': ('GPT2LMHeadModel', dict(vocab_size=330, n_embd=16, n_layer=2, n_head=2, n_positions=1024, bos_token_id=329,
             eos_token_id=329, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.3), torch.float16, 3.5),
    'llama': ('LlamaForCausalLM', dict(LLAMA), torch.float32, 1.8),
    # Tied, biases in attention only, and the rotary frequencies of Llama 3.
    'llama_tied': ('LlamaForCausalLM', dict(LLAMA, tie_word_embeddings=True, attention_bias=True, rope_parameters=dict(
        rope_theta=500000.0, rope_type='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=256)), torch.bfloat16, 1.8),
    # The first T5: one matrix, hidden states scaled before it. 1.1 and mT5: gated, two matrices, nothing scaled.
    't5': ('T5ForConditionalGeneration', dict(T5, feed_forward_proj='relu'), torch.float32, 2.5),
    't5_v1_1': ('T5ForConditionalGeneration', dict(T5, feed_forward_proj='gated-gelu', tie_word_embeddings=False),
                torch.float32, 1.7),
    'mt5': ('MT5ForConditionalGeneration', dict(T5, num_layers=3), torch.bfloat16, 2.2),
    'mistral': ('MistralForCausalLM', dict(LLAMA, head_dim=6, sliding_window=8), torch.bfloat16, 1.8),
}


def decoder_only(model):
    return not model.config.is_encoder_decoder


def output_rows(model):
    return model.get_output_embeddings().weight


def is_t5(config):
    return hasattr(config, 'relative_attention_num_buckets')


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


def build(name, classes, fields, ends):
    kind = getattr(transformers, classes)
    seq2seq = 'decoder_start_token_id' in fields and 'T5' not in classes
    extra = {'forced_eos_token_id': None} if seq2seq else {}
    config = kind.config_class(**{**fields, **extra})
    torch.manual_seed(len(name))
    model = kind(config).eval()
    if is_t5(config):
        draw_t5(model, name)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # norms and biases must matter
                parameter.add_(torch.randn_like(parameter) * 0.2)
        if hasattr(model, 'final_logits_bias'):
            model.final_logits_bias.normal_(0, 0.5)
            model.final_logits_bias[0, config.eos_token_id] = ends
        else:
            row = output_rows(model)[config.eos_token_id]
            if is_t5(config):
                norm = None
            elif model.config.is_encoder_decoder:
                norm = model.model.decoder.layer_norm
            else:
                norm = getattr(getattr(model, 'transformer', None), 'ln_f', None)
            if norm is None:
                row *= ends
            else:  # along the norm's bias, which every hidden state has
                row += ends * norm.bias / norm.bias.square().sum()
    return model


def long_tokens(vocab):
    return torch.tensor([(7 * i + 3) % (vocab - 8) + 4 for i in range(LONG)])


def computed(model):
    """What transformers computes with a model."""
    config = model.config
    alone = decoder_only(model)
    target_vocab = output_rows(model).shape[0]
    source_vocab = config.vocab_size
    end = config.eos_token_id
    lists = {what: [] for what in ('source', 'target', 'greedy', 'beam')}
    expected = {}

    def logits_of(source, target):
        with torch.no_grad():
            if alone:
                return model(input_ids=target[None]).logits[0]
            return model(input_ids=source[None], decoder_input_ids=target[None]).logits[0]

    for case in range(CASES):
        length = case % 12
        ids = torch.randint(4, source_vocab - 5, (1 + length,))
        source = torch.cat([ids, torch.tensor([end])])
        target = torch.randint(4, target_vocab - 5, (3 + 2 * length,))
        if not alone:
            target[0] = config.decoder_start_token_id
        if case in WITH_LOGITS:
            expected[f'logits.{case}'] = logits_of(source, target)[-LAST:]
        common = dict(max_new_tokens=16, do_sample=False, length_penalty=1.0, pad_token_id=0)
        first = 1
        if alone:
            common['input_ids'] = target[None, :1 + length]
            first = 1 + length
        else:
            common['input_ids'] = source[None]
            common['pad_token_id'] = config.pad_token_id
        with torch.no_grad():
            greedy = model.generate(**common, num_beams=1)[0, first:]
            if alone:  # what is given counts in our ranks, so that there is no more than START
                common['input_ids'] = target[None, :1]
            beam = model.generate(**common, num_beams=4, early_stopping=True)[0, 1:]
        for what, value in dict(source=source, target=target, greedy=greedy, beam=beam).items():
            lists[what].append(value.to(torch.int16))
    for what, values in lists.items():
        expected[what] = torch.cat(values)
        expected[what + '.lengths'] = torch.tensor([len(v) for v in values], dtype=torch.int16)
    positions = getattr(config, 'max_position_embeddings', 0)
    if positions >= LONG or is_t5(config):
        source, target = long_tokens(source_vocab), long_tokens(target_vocab)
        expected['long'] = logits_of(source, target)[-LAST:]
    return expected, [len(v) for v in lists['beam']]


def make(name, classes, fields, dtype, ends):
    folder = HERE / 'models' / name
    shutil.rmtree(folder, ignore_errors=True)
    build(name, classes, fields, ends).to(dtype).save_pretrained(folder)
    model = getattr(transformers, classes).from_pretrained(folder, dtype=torch.float64).eval()
    expected, lengths = computed(model)
    save_file({name: value.contiguous() for name, value in expected.items()}, folder / 'expected.safetensors')
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(name, sum(p.numel() for p in model.parameters()), f'{size // 1024} KiB', lengths)


def make_other_forms():
    """The same weights as other versions store them: a .bin file with tied copies and tables, and shards."""
    folder = HERE / 'models' / 'marian_bin'
    shutil.rmtree(folder, ignore_errors=True)
    model = build('marian_bin', 'MarianMTModel', dict(MODELS['marian'][1], max_position_embeddings=16, decoder_layers=1,
                  encoder_layers=1, vocab_size=60, pad_token_id=59, decoder_start_token_id=59), 5.0)
    model.config.save_pretrained(folder)
    state = model.state_dict()
    table = model.model.encoder.embed_positions.weight.detach().clone()
    for stack in ('encoder', 'decoder'):
        state[f'model.{stack}.embed_positions.weight'] = table
    torch.save(state, folder / 'pytorch_model.bin')
    folder = HERE / 'models' / 'bart_shards'
    shutil.rmtree(folder, ignore_errors=True)
    model = build('bart_shards', 'BartForConditionalGeneration', dict(MODELS['bart'][1], decoder_layers=1, encoder_layers=1), 5.0)
    model.half().save_pretrained(folder, max_shard_size='8KB')
    (folder / 'README.md').write_text('# A model card\n')


if __name__ == '__main__':
    chosen = sys.argv[1:] or list(MODELS)
    for name in chosen:
        make(name, *MODELS[name])
    if not sys.argv[1:]:
        make_other_forms()
