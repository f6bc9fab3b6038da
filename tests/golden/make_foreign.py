"""Makes the files of tests/io/foreign_tensors_test.cpp: weights as PyTorch and safetensors write them.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install torch numpy safetensors
    /tmp/golden/bin/python tests/golden/make_foreign.py            # writes tests/golden/foreign/
    /tmp/golden/bin/python tests/golden/make_foreign.py --check    # the same bytes again?

Made with Python 3.11.7, torch 2.15.0, numpy 2.4.6, safetensors 0.8.0. PyTorch is an oracle only;
nothing of it is needed to build or test tril.

Each folder is one form of the same tensors, with another selection where the form needs one:
    safetensors/          model.safetensors with every type
    safetensors_shards/   two files and their index
    zip/, legacy/         pytorch_model.bin in the two forms of torch.save, with views and aliases
    zip_shards/           two files and their index
    module/               the state dict of a module, which has attributes of its own
    protocol4/            a pickle of protocol 4
expected.safetensors of each folder has for every tensor NAME
    NAME          F32, what PyTorch makes of it with .to(torch.float32)
    NAME.bytes    I8, its bytes, dense and row-major
"""

import argparse
import collections
import filecmp
import json
import os
import pickle
import sys
import tempfile

import torch
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = dict(f16=torch.float16, bf16=torch.bfloat16, f32=torch.float32, f64=torch.float64,
             i8=torch.int8, i16=torch.int16, i32=torch.int32, i64=torch.int64, u8=torch.uint8,
             boolean=torch.bool)


def every_type():
    """One small matrix of each type, with the ends of its range."""
    generator = torch.Generator().manual_seed(1)
    tensors = collections.OrderedDict()
    for name, dtype in TYPES.items():
        if dtype.is_floating_point:
            info = torch.finfo(dtype)
            values = torch.randn(15, generator=generator, dtype=torch.float64).to(dtype)
            ends = [0.0, -0.0, info.max, info.min, info.tiny, info.tiny / 4, float("inf"),
                    float("-inf"), float("nan")]
            values = torch.cat([values, torch.tensor(ends, dtype=torch.float64).to(dtype)])
        elif dtype == torch.bool:
            values = torch.rand(24, generator=generator) < 0.5
        else:
            info = torch.iinfo(dtype)
            values = torch.randint(info.min, info.max, (24,), generator=generator, dtype=dtype)
            values[:2] = torch.tensor([info.min, info.max], dtype=dtype)
        tensors[f"layer.{name}"] = values.reshape(4, 6).clone()
    tensors["scalar"] = torch.tensor(0.1, dtype=torch.float64)
    tensors["empty"] = torch.zeros(3, 0, 2)
    tensors["axes"] = torch.randn(2, 1, 3, 2, generator=generator)
    tensors["Schlüssel.重み"] = torch.randn(5, generator=generator)
    return tensors


def with_views():
    """Tensors that are views of others' storages, and parameters."""
    tensors = every_type()
    generator = torch.Generator().manual_seed(2)
    table = torch.randn(7, 5, generator=generator)
    tensors["table"] = table
    tensors["alias"] = table
    tensors["transposed"] = table.t()
    tensors["rows"] = table[2:5]
    tensors["columns"] = table[:, 1:4]
    tensors["every_second"] = table[::2, ::2]
    cube = torch.randn(3, 4, 2, generator=generator).half()
    tensors["permuted"] = cube.permute(2, 0, 1)
    tensors["parameter"] = torch.nn.Parameter(torch.randn(3, generator=generator))
    return tensors


def as_bytes(tensor):
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).to(torch.int8) if flat.numel() > 0 else flat.to(torch.int8)


def write_expected(folder, tensors):
    expected = {}
    for name, tensor in tensors.items():
        expected[name] = tensor.detach().to(torch.float32).contiguous().clone()
        expected[name + ".bytes"] = as_bytes(tensor).clone()
    save_file(expected, os.path.join(folder, "expected.safetensors"))


def write_index(folder, ending, shards):
    weight_map = {name: shard for shard, tensors in shards.items() for name in tensors}
    total = sum(t.numel() * t.element_size() for s in shards.values() for t in s.values())
    with open(os.path.join(folder, ending + ".index.json"), "w") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, file, indent=2)


def halves(tensors, stem, ending):
    names = list(tensors)
    parts = names[: len(names) // 2], names[len(names) // 2:]
    return {f"{stem}-{i + 1:05}-of-00002{ending}": collections.OrderedDict(
        (name, tensors[name]) for name in part) for i, part in enumerate(parts)}


def save_torch(tensors, path, **options):
    """torch.save with the name pytorch_model inside the archive, and storages' keys that do not
    depend on addresses."""
    folder, name = os.path.split(path)
    previous = os.getcwd()
    os.chdir(folder)
    try:
        torch.save(tensors, name, **options)
    finally:
        os.chdir(previous)


def stable_legacy(path):
    """The older form names and sorts storages by their addresses. Here they get numbers of the same
    length instead, in the order in which the tensors name them, and lie in that order."""
    sizes = collections.OrderedDict()  # of storages in bytes, in the order of the tensors

    class Reader(pickle.Unpickler):
        def persistent_load(self, saved):
            sizes[saved[2]] = saved[1]().element_size() * saved[4]

        def find_class(self, module, name):
            return getattr(torch, name) if module == "torch" else lambda *_: {}

    with open(path, "rb") as file:
        for _ in range(4):
            Reader(file).load()
        end_of_tensors = file.tell()
        keys = Reader(file).load()
        data, storages = {}, file.tell()
        for key in keys:
            data[key] = file.read(8 + sizes[key])
        assert not file.read()
        file.seek(0)
        head = file.read(end_of_tensors)
        listed = file.read(storages - end_of_tensors)
    numbers = {key: f"{i:0{len(key)}}" for i, key in enumerate(sizes)}
    for key, number in numbers.items():
        head = head.replace(key.encode(), number.encode())
    for old, number in zip(keys, sorted(numbers.values())):
        listed = listed.replace(old.encode(), number.encode())
    with open(path, "wb") as file:
        file.write(head + listed + b"".join(data[key] for key in sizes))


def make(root):
    def folder(name):
        path = os.path.join(root, name)
        os.makedirs(path, exist_ok=True)
        return path

    plain, views = every_type(), with_views()

    place = folder("safetensors")
    save_file(plain, os.path.join(place, "model.safetensors"), metadata={"format": "pt"})
    write_expected(place, plain)

    place = folder("safetensors_shards")
    shards = halves(plain, "model", ".safetensors")
    for shard, tensors in shards.items():
        save_file(tensors, os.path.join(place, shard), metadata={"format": "pt"})
    write_index(place, "model.safetensors", shards)
    write_expected(place, plain)

    for name, zipped in (("zip", True), ("legacy", False)):
        place = folder(name)
        path = os.path.join(place, "pytorch_model.bin")
        save_torch(views, path, _use_new_zipfile_serialization=zipped)
        if not zipped:
            stable_legacy(path)
        write_expected(place, views)

    place = folder("zip_shards")
    few = collections.OrderedDict((n, views[n]) for n in ("table", "alias", "layer.f16", "scalar"))
    shards = halves(few, "pytorch_model", ".bin")
    for shard, tensors in shards.items():
        save_torch(tensors, os.path.join(place, shard))
    write_index(place, "pytorch_model.bin", shards)
    write_expected(place, few)

    place = folder("module")
    torch.manual_seed(3)
    state = torch.nn.TransformerEncoderLayer(4, 2, 6).state_dict()
    save_torch(state, os.path.join(place, "pytorch_model.bin"))
    write_expected(place, state)

    place = folder("protocol4")
    few = {name: views[name] for name in ("table", "transposed", "parameter")}
    save_torch(few, os.path.join(place, "pytorch_model.bin"), pickle_protocol=4)
    write_expected(place, few)


def files_of(root):
    return sorted(os.path.relpath(os.path.join(where, name), root)
                  for where, _, names in os.walk(root) for name in names)


def check(root):
    with tempfile.TemporaryDirectory() as again:
        make(again)
        names = files_of(root)
        different = [n for n in names if not os.path.exists(os.path.join(again, n))
                     or not filecmp.cmp(os.path.join(root, n), os.path.join(again, n), False)]
        if names != files_of(again) or different:
            sys.exit(f"different: {different}")
    print(f"{len(names)} files are the same")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    root = os.path.join(HERE, "foreign")
    (check if parser.parse_args().check else make)(root)
