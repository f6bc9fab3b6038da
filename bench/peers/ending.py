"""A model with random weights whose translations end: it copies its source, piece by piece.

Random weights never write END at a sensible place, so servers would translate every sentence to a limit, all of a
batch equally long, which real translations are not. Here the attention to the source in the last decoder layer is
made by hand: position t of the target attends to position t of the source and takes what it finds. So a translation
is as long as its source, ends with it, and is another one for every sentence. All shapes, and so all work, are those
of OPUS-MT; every other weight stays random.
"""

import torch

SHARP = 4.0  # of what queries and keys see of the positions
TAKEN = 4.0  # times the source's row is added to the target's
LEAST = 2.0  # END's logit is this far below 0 where the source goes on; the likeliest words are above


def end_with_the_source(model, end):
    """Changes a MarianMTModel with random weights."""
    core, config = model.model, model.config
    width, heads = config.d_model, config.decoder_attention_heads
    head = width // heads
    # Columns of the fastest sines and cosines, by which positions are compared; of the slowest sines, which are
    # nearly 0 at every position: most of them mark END, and the last tells what LayerNorm subtracted from a row.
    places = [*range(head // 2), *range(width // 2, width // 2 + head // 2)]
    marks, zero = [*range(width // 2 - 17, width // 2 - 1)], width // 2 - 1
    kept = [*places, *marks, zero]
    with torch.no_grad():
        # No word but END and no layer touches these columns.
        table = core.shared.weight
        table[:, kept] = 0
        length = table.norm(dim=1).median()
        table[end] = 0
        table[end, marks] = length * torch.tensor([0.25, -0.25]).repeat(8)
        for layer in [*core.encoder.layers, *core.decoder.layers]:
            outputs = [layer.self_attn.out_proj, layer.fc2]
            if hasattr(layer, "encoder_attn"):
                outputs.append(layer.encoder_attn.out_proj)
            for output in outputs:
                output.weight[kept] = 0
                output.bias[kept] = 0
        attention = core.decoder.layers[-1].encoder_attn
        for projection in (attention.q_proj, attention.k_proj):
            projection.weight[:] = 0
            projection.bias[:] = 0
            for i in range(heads):
                projection.weight[range(i * head, (i + 1) * head), places] = SHARP
            projection.weight[:, zero] = -SHARP
        attention.v_proj.weight[:] = torch.eye(width)
        attention.v_proj.bias[:] = 0
        attention.out_proj.weight[:] = TAKEN * torch.eye(width)
        attention.out_proj.weight[marks] *= 4  # the layers have added nothing here, but to all else
        attention.out_proj.weight[[*places, zero]] = 0
        model.final_logits_bias[0, end] = -LEAST
