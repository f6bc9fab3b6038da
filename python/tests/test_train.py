"""train(): runs that report, stop, resume and fail."""

from __future__ import annotations

import pathlib
from typing import Any, Sequence

import pytest

import tril
from conftest import SMALL

FEW: dict[str, Any] = {**SMALL, "updates": 60, "log_every": 10, "evaluate_every": 20}


def bytes_of(folder: pathlib.Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_stopped_and_resumed_run_ends_in_the_same_bytes(tmp_path: pathlib.Path) -> None:
    pairs, valid = tril.phrasebook()[0][:400], tril.phrasebook()[1][:20]
    seen, evaluations = [], []

    def evaluated(status: tril.TrainStatus, loss: float, bleu: float, texts: Sequence[str], best: bool) -> None:
        evaluations.append((status.update, loss, len(texts)))

    whole = tril.train(tmp_path / "whole", pairs=pairs, valid_pairs=valid, on_evaluation=evaluated,
                       callback=lambda status: seen.append((status.update, status.loss)), **FEW)
    assert whole.finished and whole.last.update == 60 and whole.parameters > 0 and whole.last.tokens_per_second > 0
    assert [update for update, _ in seen][-1] == 60 and seen[-1][1] < seen[0][1]
    assert [each[0] for each in evaluations] == [20, 40, 60] and evaluations[0][2] == 20
    stopped = tril.train(tmp_path / "parts", pairs=pairs, valid_pairs=valid,
                         callback=lambda status: status.update >= 20, **FEW)
    assert not stopped.finished and stopped.last.update < 60
    resumed = tril.train(tmp_path / "parts", pairs=pairs, valid_pairs=valid, resume=True, progress=False, device="cpu")
    assert resumed.finished and bytes_of(tmp_path / "parts") == bytes_of(tmp_path / "whole")


def test_files_are_as_good_as_memory(tmp_path: pathlib.Path) -> None:
    pairs = tril.phrasebook()[0][:400]
    for name, side in (("en", 0), ("hi", 1)):
        (tmp_path / name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    (tmp_path / "both.tsv").write_text("".join("\t".join(pair) + "\n" for pair in pairs), encoding="utf-8")
    tril.train(tmp_path / "a", source=tmp_path / "en", target=[tmp_path / "hi"], **FEW)
    tril.train(tmp_path / "b", pairs=iter(pairs), **FEW)
    tril.train(tmp_path / "c", tsv=str(tmp_path / "both.tsv"), **FEW)
    a, b, c = (tril.Translator(tmp_path / name, device="cpu").translate([p[0] for p in pairs[:30]]) for name in "abc")
    assert a == b == c
    with pytest.raises(tril.InvalidArgument, match="together"):
        tril.train(tmp_path / "d", source=tmp_path / "en", target=tmp_path / "hi", pairs=pairs, **FEW)


def test_fine_tuning(model_path: str, tmp_path: pathlib.Path) -> None:
    pairs = [("I want tea", "चाय")] * 20
    tril.train(tmp_path / "tuned", pairs=pairs, from_model=model_path, updates=40, batch_tokens=256, device="cpu",
               progress=False)
    assert tril.Translator(tmp_path / "tuned", device="cpu").translate("I want tea") == "चाय"


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"updats": 3}, tril.InvalidArgument, "no option 'updats'"),
    ({"updates": "many"}, tril.InvalidArgument, "updates: expected a number, got 'many'"),
    ({"updates": 1.5}, tril.InvalidArgument, "updates"),
    ({"tied": 1}, tril.InvalidArgument, "tied: expected true or false"),
    ({"norm": "best"}, tril.InvalidArgument, "norm: expected one of"),
    ({"heads": 3}, tril.InvalidArgument, "heads"),
    ({"preset": "huge"}, tril.InvalidArgument, "tiny, small, base, big"),
    ({"source": "no-such-file", "target": "nor-this"}, tril.InputOutput, "no-such-file"),
    ({"device": "tpu"}, tril.InvalidArgument, "'tpu'"),
    ({"resume": True}, tril.TrilError, ""),
    ({"resume": True, "overwrite": True}, ValueError, "exclude"),
])
def test_what_cannot_be_trained(tmp_path: pathlib.Path, options: dict[str, Any], error: type[Exception],
                                message: str) -> None:
    given = {} if "source" in options or "resume" in options else {"pairs": tril.phrasebook()[0][:50]}
    with pytest.raises(error, match=message or None):
        tril.train(tmp_path / "m", **{**FEW, **given, **options})
    assert not (tmp_path / "m/config.json").exists()


def test_a_model_is_not_replaced_by_accident(model_path: str) -> None:
    with pytest.raises(tril.TrilError):
        tril.train(model_path, pairs=tril.phrasebook()[0][:50], **FEW)


def test_callback_that_raises_leaves_a_checkpoint(tmp_path: pathlib.Path) -> None:
    def fail(status: tril.TrainStatus) -> None:
        raise KeyError(status.update)

    with pytest.raises(KeyError):
        tril.train(tmp_path / "m", pairs=tril.phrasebook()[0][:200], callback=fail, **FEW)
    summary = tril.train(tmp_path / "m", pairs=tril.phrasebook()[0][:200], resume=True, progress=False, device="cpu")
    assert summary.finished


def test_pairs_that_are_no_lines(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="pair 1 has a line break"):
        tril.train(tmp_path / "m", pairs=[("a", "b"), ("a\nb", "c")], **FEW)


def test_options_are_listed() -> None:
    options = tril.train_options()
    assert "batch_tokens" in options and "freeze" in options and options["seed"] == "Seed of all random numbers"
